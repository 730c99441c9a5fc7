"""Numbers the values of two graphs at once, so that equal values get one number.

Global value numbering (Cocke and Schwartz, 1970; Alpern, Wegman and Zadeck, 1988). The *expression* of a node is its
operator, its attributes and the numbers of its inputs. A value of the graph after with an expression that the graph
before does not know gets the number of its namesake there, unless their types contradict that:

    before                  number    after                      number
    a = Transpose(x)        1         a = Transpose(x)           1
    b = Transpose(x)        1
    y = Add(a, b)           2         y = Twice(a)               2 (by its name)

A round may show that a dropped operation passed its input through: its output is an *alias* of that input
(:mod:`aliases <pytest_hierexport._carry.aliases>`). The next round then finds more equal expressions.
:meth:`Round.run` is one round; `aliases.number_values` runs rounds until no alias is new.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pytest_hierexport._carry.bodies import Bodies
from pytest_hierexport._carry.constants import Constants
from pytest_hierexport._carry.flat import (
    Flat,
    Node,
    Value,
    names_inside,
    same_operator,
    tensors_may_agree,
    types_may_agree,
)
from pytest_hierexport._carry.tensors import TENSOR, tensor_key, tensor_sample
from pytest_hierexport._grouping import by_key

Expression = tuple[Hashable, ...]


@dataclass
class Numbering:
    """The numbers of the values of two graphs."""

    old: dict[Value, int] = field(default_factory=dict)
    """The number of each value before."""
    new: dict[Value, int] = field(default_factory=dict)
    """The number of each value after."""
    expressions_before: dict[Node, Expression] = field(default_factory=dict)
    expressions_after: dict[Node, Expression] = field(default_factory=dict)
    aliases: Mapping[Value, Value] = field(default_factory=dict)
    """Values that are another value under a second name, each with that value."""
    contents: dict[int, Hashable] = field(default_factory=dict)
    """The content of small constants, by number."""

    @cached_property
    def alive(self) -> frozenset[int]:
        """The numbers of all values after."""
        return frozenset(self.new.values())

    @cached_property
    def by_number(self) -> dict[int, list[Value]]:
        """The values before of each number."""
        return by_key((number, value) for value, number in self.old.items())

    @cached_property
    def by_number_after(self) -> dict[int, list[Value]]:
        """The values after of each number."""
        return by_key((number, value) for value, number in self.new.items())

    @cached_property
    def by_expression(self) -> dict[Expression, list[Node]]:
        """The nodes before of each expression."""
        return by_key((expression, node) for node, expression in self.expressions_before.items())

    @cached_property
    def first_before(self) -> dict[int, Value]:
        """The first value before of each number."""
        return {number: values[0] for number, values in self.by_number.items()}

    def is_small_constant(self, node: Node) -> bool:
        """Whether a node before is a small `Constant`. Optimizers share these freely, which tells nothing of ownership.

        Sharing a computation does, however small: positions that several layers look up in one table (LayoutLMv3), the
        exponential of a parameter of four numbers.
        """
        return not node.inputs and all(self.old[each] in self.contents for each in node.outputs)

    def equal(self, value: Value) -> list[Value]:
        """Return all values before that equal one before; none for a value after."""
        return self.by_number.get(self.old[value], []) if value in self.old else []


def share_knowledge(before: Flat, after: Flat) -> None:
    """Complete what is known of both graphs: names of outputs, types that the transformation found, equal tensors."""
    _share_output_names(before, after)
    for name, value in before.named.items():
        if name in after.named:
            _share_type(after.named[name], value)
    _share_contents(before, after)


def _share_output_names(before: Flat, after: Flat) -> None:
    """Give each output that was renamed its old name: torch names outputs when it optimizes (d_fine)."""
    if len(before.outputs) == len(after.outputs):
        pairs = zip(before.outputs, after.outputs, strict=True)
        names = {n: old.name for old, n in pairs if n.name not in before.named and old.name not in after.named}
        for value, name in (names | names_inside(after, names)).items():
            value.name = name
            after.named[name] = value


def _share_type(known: Value, value: Value) -> None:
    """Give a value what is known of the type of an equal one, unless their types contradict each other."""
    if types_may_agree(known, value):
        value.shape = known.shape if value.shape is None else value.shape
        value.dtype = known.dtype if value.dtype is None else value.dtype


def _by_sample(values: Iterable[Value]) -> dict[Hashable, list[Value]]:
    """Return large tensors by a sample of their content, without those that have no readable numbers."""
    large = (value for value in values if value.tensor is not None and tensor_key(value.tensor) is None)
    samples = ((tensor_sample(value.tensor), value) for value in large)
    return by_key((sample, value) for sample, value in samples if sample is not None)


def _share_contents(before: Flat, after: Flat) -> None:
    """Give large tensors of equal content one leaf: an optimizer may keep one of them alone (levit), a tool rename it.

    Tensors after that have a name of one before are known by it, and are not read.
    """
    known = {value.name for value in before.stored} - {""}
    renamed = _by_sample(value for value in after.stored if value.name not in known)
    for sample, values in _by_sample(before.stored).items():
        sharing = [*values, *renamed.get(sample, ())]
        for value in sharing[1:]:
            value.leaf = next(each.leaf for each in sharing if tensors_may_agree(each, value))


class Round:
    """Numbers the values of both graphs once, under the aliases that are known so far.

    Args:
        before: The graph before.
        after: The graph after.
        aliases: Values that are another value under a second name, each with that value.
        constants: What constant operations give; kept over the rounds.
        bodies: The nodes that have no expression.
    """

    def __init__(
        self, before: Flat, after: Flat, aliases: Mapping[Value, Value], constants: Constants, bodies: Bodies
    ) -> None:
        """Number nothing yet."""
        self.before, self.after, self.aliases, self.constants, self.bodies = before, after, aliases, constants, bodies
        # The nodes before that have neither an expression nor a namesake after, by their form.
        self._unnamed: dict[Hashable, list[Node]] = {}
        self.result = Numbering(aliases=aliases)
        self._numbers: dict[Hashable, int] = {}
        self._typed: dict[int, Value] = {}  # the first value of each number

    def run(self) -> Numbering:
        """Return the numbers."""
        for value in self.before.leaves:
            self.result.old[value] = self._intern(value.leaf)
        for node in self.before.nodes:
            self._number_before(node)
        for value in self.after.leaves:
            self.result.new[value] = self._look_up_leaf(value)
        for node in self.after.nodes:
            self._number_after(node)
        return self.result

    def _number_before(self, node: Node) -> None:
        numbers = self.result.old
        expression = self.result.expressions_before[node] = self._expression(node, numbers)
        if not node.pure and self.bodies.is_unnamed(node):
            self._unnamed.setdefault(self.bodies.form(node, numbers), []).append(node)
        for output, known in self._known_as(node, expression, numbers, self.before.opsets):
            alias = self.aliases.get(output, node.identity_input)
            if alias in numbers:
                numbers[output] = numbers[alias]
            else:
                numbers[output] = self._intern(known)
            # Equal values have one type, so that operations on their shapes are equal too.
            _share_type(self._typed.setdefault(numbers[output], output), output)

    def _number_after(self, node: Node) -> None:
        numbers = self.result.new
        expression = self.result.expressions_after[node] = self._renamed(node) or self._expression(node, numbers)
        for output, known in self._known_as(node, expression, numbers, self.after.opsets):
            if node.identity_input is not None:
                numbers[output] = numbers[node.identity_input]
            elif output in self.aliases:
                numbers[output] = self.result.old[self.aliases[output]]
            else:
                numbers[output] = self._look_up(output, known)
            # A tool that renames values may drop their types, without which the size of one is no constant.
            _share_type(self._typed.setdefault(numbers[output], output), output)

    def _renamed(self, node: Node) -> Expression | None:
        """Return the expression of a node before with an equal body, for a node whose name is new; None without one.

        Both nodes are paired: the inputs of the bodies get the same numbers.
        """
        if node.pure or node in self.bodies.named:
            return None
        equal = self._unnamed.get(self.bodies.form(node, self.result.new))
        if not equal:
            return None
        old = equal.pop(0)
        for known, value in zip(old.body_inputs, node.body_inputs, strict=False):
            self.result.new[value] = self.result.old[known]
        return self.result.expressions_before[old]

    @staticmethod
    def _expression(node: Node, numbers: Mapping[Value, int]) -> Expression:
        if not node.pure:
            return ("impure", id(node))
        inputs = tuple(-1 if value is None else numbers[value] for value in node.inputs)
        return (node.operator, node.attributes, inputs, node.arity)

    def _known_as(
        self, node: Node, expression: Expression, numbers: Mapping[Value, int], opsets: Mapping[str, int]
    ) -> Iterator[tuple[Value, Hashable]]:
        """Yield each output with its content where that can be computed, else with its expression."""
        inputs = tuple(None if value is None else self.result.contents.get(numbers[value]) for value in node.inputs)
        computed = self.constants.outputs_of(node, inputs, opsets)
        for i, output in enumerate(node.outputs):
            content = output.leaf if output.leaf is not None else computed[i]
            yield output, (expression, i) if content is None else content

    def _intern(self, key: Hashable) -> int:
        number = self._numbers.setdefault(key, len(self._numbers))
        if isinstance(key, tuple) and key[0] == TENSOR:
            self.result.contents[number] = key
        return number

    def _look_up_leaf(self, value: Value) -> int:
        """Number an input or tensor; an input without a counterpart is new, as is a tensor of other content."""
        known = self.aliases.get(value)
        # A constant that replaces another value is not equal to it: it was folded from it (sizes in ViT) or changed.
        if known is not None and (value.varying or known in self.before.inputs):
            return self.result.old[known]
        if value.varying:
            return self._intern(("new", value.leaf))
        namesake = self.before.named.get(value.name) if value.name else None
        if namesake is not None and namesake not in self.before.producer and not tensors_may_agree(namesake, value):
            leaf = value.leaf if value.leaf != namesake.leaf else ("changed", value.leaf)
            return self._intern(leaf)
        return self._look_up(value, value.leaf)

    def _look_up(self, value: Value, key: Hashable) -> int:
        """Return the number of a value after: by its expression or content, else by its namesake, else a new one."""
        if key in self._numbers:
            return self._numbers[key]
        namesake = self.before.named.get(value.name) if value.name else None
        if namesake is not None and (types_may_agree(namesake, value) or self._is_rounded(namesake, value)):
            return self.result.old[namesake]
        return self._intern(key)

    def _is_rounded(self, namesake: Value, value: Value) -> bool:
        """Whether a value is its namesake in another precision: computed by the same operation.

        ONNX Runtime's float16 converter needs it where it adds no casts (`keep_io_types=False`).
        """
        known, new = self.before.producer.get(namesake), self.after.producer.get(value)
        if known is None or new is None or not same_operator(new, known):
            return False
        floating = all(dtype is not None and dtype.is_floating_point() for dtype in (namesake.dtype, value.dtype))
        return floating and types_may_agree(replace(namesake, dtype=value.dtype), value)
