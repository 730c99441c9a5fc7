"""Value numbering: values that are computed alike get one number, in both graphs.

The classic method (Cocke and Schwartz, 1970; Alpern, Wegman and Zadeck, 1988), over two graphs at once. A node's
*form* is its operator, attributes and the numbers of its inputs. Where the graph after computes a value in a way
that the graph before does not know, a value before that bears its name is taken for the same, unless their types
contradict that. What that teaches - a value that lost its maker and lives on as another - is kept as an *alias*,
and the numbering is done again until nothing new is learned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from pytest_hierexport._carry.constants import Constants
from pytest_hierexport._carry.flat import Flat, Node, Value, same_tensor, same_type
from pytest_hierexport._carry.preserving import Preserving
from pytest_hierexport._carry.tensors import TENSOR, tensor_key, tensor_sample

__all__ = ["Form", "Numbering", "namesake", "number", "passed_on"]

Form = tuple[Hashable, ...]
# How far back a dropped chain of operations is looked for.
_CHAIN = 16


@dataclass
class Numbering:
    """The numbers of the values of two graphs."""

    before: dict[Value, int] = field(default_factory=dict)
    after: dict[Value, int] = field(default_factory=dict)
    forms_before: dict[Node, Form] = field(default_factory=dict)
    forms_after: dict[Node, Form] = field(default_factory=dict)
    aliases: Mapping[Value, Value] = field(default_factory=dict)
    """What is another value under a name of its own, with that."""

    @cached_property
    def alive(self) -> frozenset[int]:
        """The numbers of all values after."""
        return frozenset(self.after.values())

    def alike(self, value: Value) -> list[Value]:
        """Return all values before that are computed like this one."""
        return self.by_number.get(self.before[value], []) if value in self.before else []

    @cached_property
    def by_number(self) -> dict[int, list[Value]]:
        """The values before of each number."""
        return _by_number(self.before)

    @cached_property
    def by_number_after(self) -> dict[int, list[Value]]:
        """The values after of each number."""
        return _by_number(self.after)

    @cached_property
    def known(self) -> dict[int, Value]:
        """The first value before of each number."""
        return {number: values[0] for number, values in self.by_number.items()}


def _by_number(numbers: Mapping[Value, int]) -> dict[int, list[Value]]:
    by_number: dict[int, list[Value]] = {}
    for value, number in numbers.items():
        by_number.setdefault(number, []).append(value)
    return by_number


def number(before: Flat, after: Flat) -> Numbering:
    """Number both graphs, learning aliases until nothing new is found."""
    _share_types(before, after)
    _share_contents(before)
    constants = Constants(after.opsets), Constants(before.opsets)
    preserving = Preserving(before)
    aliases = dict(preserving.handed_on(after.named))
    while True:
        numbering = _Pass(before, after, aliases, *constants).run()
        learned: dict[Value, Value] = {}
        for value, other in chain(_computed_alike(numbering), _aliases(before, after, numbering, preserving)):
            # The first that is computed like the other stands before all that are computed like the value.
            first = numbering.known[numbering.before[other]]
            for same in (value, *numbering.alike(value)):
                if same not in aliases and same is not first:
                    learned.setdefault(same, first)
        if not learned:
            return numbering
        aliases.update(learned)


def _computed_alike(numbering: Numbering) -> Iterator[tuple[Value, Value]]:
    """Give what either graph computes like an alias, perhaps only since a later round, with what that stands for."""
    for forms in (numbering.forms_before, numbering.forms_after):
        computed = [(form, i, value) for node, form in forms.items() for i, value in enumerate(node.outputs)]
        known = {(form, i): numbering.aliases[value] for form, i, value in computed if value in numbering.aliases}
        for form, i, value in computed:
            if value not in numbering.aliases and (form, i) in known:
                yield value, known[form, i]


def _share_types(before: Flat, after: Flat) -> None:
    """Give the values before the types that a transformation found out: torch knows only some when it begins."""
    for name, value in before.named.items():
        namesake = after.named.get(name)
        if namesake is not None:
            _share_type(namesake, value)


def _share_type(known: Value, value: Value) -> None:
    """Give a value what is known of the type of another that is the same, unless their types contradict that."""
    if same_type(known, value):
        value.shape = known.shape if value.shape is None else value.shape
        value.dtype = known.dtype if value.dtype is None else value.dtype


def _share_contents(before: Flat) -> None:
    """Make large tensors of equal content one leaf: an optimizer may keep one of them alone."""
    alike: dict[Hashable, list[Value]] = {}
    for value in before.initializers.values():
        if value.tensor is not None and tensor_key(value.tensor) is None:
            alike.setdefault(tensor_sample(value.tensor), []).append(value)
    for sample, values in alike.items():
        if sample is not None and len(values) > 1:
            for value in values:
                value.leaf = ("content", sample, hashlib.sha256(value.tensor.tobytes()).digest())


class _Pass:
    """One round of numbering under the aliases known so far."""

    def __init__(
        self, before: Flat, after: Flat, aliases: dict[Value, Value], constants_after: Constants, constants: Constants
    ) -> None:
        self.before, self.after, self.aliases = before, after, aliases
        self.constants, self.constants_after = constants, constants_after
        self.result = Numbering(aliases=aliases)
        self._numbers: dict[Hashable, int] = {}
        self._contents: dict[int, Hashable] = {}  # what the constants of some numbers hold
        self._typed: dict[int, Value] = {}  # the first value of each number

    def run(self) -> Numbering:
        for value in self.before.leaves:
            self.result.before[value] = self._intern(value.leaf)
        for node in self.before.nodes:
            self._number_before(node)
        for value in self.after.leaves:
            self.result.after[value] = self._look_up_leaf(value)
        for node in self.after.nodes:
            self._number_after(node)
        return self.result

    def _intern(self, form: Hashable) -> int:
        number = self._numbers.setdefault(form, len(self._numbers))
        if isinstance(form, tuple) and form and form[0] == TENSOR:
            self._contents[number] = form
        return number

    def _known_as(
        self, node: Node, form: Form, numbers: dict[Value, int], constants: Constants
    ) -> Iterator[tuple[Value, Hashable]]:
        """Yield what each output is known by: its content where that can be computed, else how it is computed."""
        inputs = tuple(None if value is None else self._contents.get(numbers[value]) for value in node.inputs)
        given = constants.given_by(node, inputs)
        for i, output in enumerate(node.outputs):
            content = output.leaf if output.leaf is not None else given[i]
            yield output, (form, i) if content is None else content

    @staticmethod
    def _form(node: Node, numbers: dict[Value, int], side: str) -> Form:
        if not node.repeatable:
            return ("once", side, node.key, id(node.holder))
        inputs = tuple(-1 if value is None else numbers[value] for value in node.inputs)
        return (node.operator, node.attributes, inputs, node.arity)

    def _number_before(self, node: Node) -> None:
        numbers = self.result.before
        form = self.result.forms_before[node] = self._form(node, numbers, "before")
        for output, known in self._known_as(node, form, numbers, self.constants):
            alias = self.aliases.get(output, passed_on(node))
            if alias is not None and alias in numbers:
                numbers[output] = numbers[alias]
            else:
                numbers[output] = self._intern(known)
            # What asks for the shape of equal values is to be equal too.
            _share_type(self._typed.setdefault(numbers[output], output), output)

    def _number_after(self, node: Node) -> None:
        form = self.result.forms_after[node] = self._form(node, self.result.after, "after")
        for output, known in self._known_as(node, form, self.result.after, self.constants_after):
            passed = passed_on(node)
            if passed is not None:
                self.result.after[output] = self.result.after[passed]
            elif output in self.aliases:
                self.result.after[output] = self.result.before[self.aliases[output]]
            else:
                self.result.after[output] = self._look_up(output, known)

    def _look_up_leaf(self, value: Value) -> int:
        """Number an input or tensor; a tensor that bears a name of before but holds something else is new."""
        namesake = self.before.named.get(value.name) if value.name else None
        if namesake is not None and namesake not in self.before.maker and not same_tensor(namesake, value):
            leaf = value.leaf if value.leaf != namesake.leaf else ("changed", value.leaf)
            return self._intern(leaf)
        return self._look_up(value, value.leaf)

    def _look_up(self, value: Value, form: Hashable) -> int:
        """Number a value by how it is computed; one that nothing before is computed like, by its name or as new."""
        if form in self._numbers:
            return self._numbers[form]
        namesake = self.before.named.get(value.name) if value.name else None
        if namesake is not None and (same_type(namesake, value) or self._is_rounded(namesake, value)):
            return self.result.before[namesake]
        return self._intern(form)

    def _is_rounded(self, namesake: Value, value: Value) -> bool:
        """Whether a value is its namesake in another precision: computed by the same operation."""
        made, known = self.after.maker.get(value), self.before.maker.get(namesake)
        if made is None or known is None or not _same_operator(made, known):
            return False
        floating = all(dtype is not None and dtype.is_floating_point() for dtype in (namesake.dtype, value.dtype))
        return floating and same_type(replace(namesake, dtype=value.dtype), value)


def passed_on(node: Node) -> Value | None:
    """Return the value that a node hands on under another name."""
    return node.inputs[0] if node.operator == ("", "Identity", "") else None


def _aliases(before: Flat, after: Flat, numbering: Numbering, preserving: Preserving) -> Iterator[tuple[Value, Value]]:
    """Find what is one value under two names.

    A value before that lost its maker and lives on as one of its own ancestors or as another constant is given with
    that; a new value after that stands in the place of a lost one is given with the lost one.
    """
    for node in after.nodes:
        twin = namesake(before, node)
        if twin is None:
            continue
        yield from _renamed_outputs(before, numbering, node, twin)
        if numbering.forms_after[node] != numbering.forms_before[twin] and _same_operator(node, twin):
            yield from _bypassed_inputs(before, numbering, node, twin, preserving)


def namesake(before: Flat, node: Node) -> Node | None:
    """Return the node before whose first output bears the name of this one's."""
    named = before.named.get(node.outputs[0].name) if node.outputs and node.outputs[0].name else None
    return before.maker.get(named) if named is not None else None


def _same_operator(a: Node, b: Node) -> bool:
    return a.operator == b.operator and a.attributes == b.attributes and len(a.inputs) == len(b.inputs)


def _renamed_outputs(before: Flat, numbering: Numbering, node: Node, twin: Node) -> Iterator[tuple[Value, Value]]:
    """A value that took the name of another: the other's maker is gone, and what it made lives on in this one."""
    for made, named in zip(node.outputs, twin.outputs, strict=False):
        if numbering.after[made] != numbering.before[named]:
            source = _ancestor(before, numbering, named, numbering.after[made])
            if source is not None:
                yield named, source


def _bypassed_inputs(
    before: Flat, numbering: Numbering, node: Node, twin: Node, preserving: Preserving
) -> Iterator[tuple[Value, Value]]:
    """A twin that differs by what it reads alone: what was lost is the value that is read in its place."""
    changed = [
        (reads, read)
        for reads, read in zip(node.inputs, twin.inputs, strict=True)
        if reads is None or read is None or numbering.after[reads] != numbering.before[read]
    ]
    found: list[tuple[Value, Value]] = []
    source: Value | None
    for reads, read in changed:
        if reads is None or read is None or numbering.before[read] in numbering.alive:
            return
        wanted = numbering.after[reads]
        if wanted not in numbering.known:
            # A value that nothing before is like: what was lost has a new maker.
            if not same_type(reads, read):
                return
            found.append((reads, read))
            continue
        source = _ancestor(before, numbering, read, wanted) if reads.varying else numbering.known[wanted]
        if source is None or not same_type(source, read):
            return
        if reads.varying and preserving.shows(source, read) is False:
            return
        found.append((read, source))
    # A constant that changed beside another input went into the operation: that is a fusion.
    if len({reads is not None and reads.varying for reads, _ in changed}) == 1:
        yield from found


def _ancestor(before: Flat, numbering: Numbering, value: Value, wanted: int) -> Value | None:
    """Return the value of that number and of `value`'s type from which `value` is computed."""
    at, seen = [value], {value}
    for _ in range(_CHAIN):
        following: list[Value] = []
        for current in at:
            maker = before.maker.get(current)
            for source in maker.reads if maker is not None else ():
                if source in seen:
                    continue
                if numbering.before[source] == wanted and same_type(source, value):
                    return source
                seen.add(source)
                following.append(source)
        at = following
    return None
