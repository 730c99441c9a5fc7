"""Holds a graph as one flat list of nodes, subgraphs and function calls expanded.

`copying.flat_copy` makes the list of a model. The functions here compare nodes and values of two graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx_ir as ir

from pytest_hierexport._grouping import by_key
from pytest_hierexport._onnx.absent import is_absent
from pytest_hierexport._onnx.operators import reads_elements


@dataclass(eq=False, slots=True)
class Value:
    """A value of the graph."""

    name: str
    """Unique in the model; empty inside the body of a function, where a name means nothing outside."""
    dtype: Any
    shape: tuple[int | str | None, ...] | None
    varying: bool
    """Whether it depends on an input of the model; all others are constants."""
    leaf: Hashable | None = None
    """Identifies a value that no node computes: an input, or a constant by its content."""
    tensor: Any = None
    """The tensor of an initializer or a `Constant`."""


@dataclass(eq=False, slots=True)
class Node:
    """A node with all values that it takes, those that its subgraphs take from outside included."""

    key: str
    """The node key; two calls of a function have nodes of the same keys."""
    operator: Hashable
    """Domain, name and overload."""
    stated: Mapping[str, ir.Attr]
    """Its attributes; in a function's body, those in place that the call passes to the function."""
    attributes: tuple[tuple[str, str], ...]
    """The attributes in a comparable form, without those that have their default value."""
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    outer: tuple[Value, ...]
    """The values that its subgraphs take from outside."""
    arity: int
    """The number of its outputs, without unused optional ones at the end."""
    pure: bool
    """Whether its operator, attributes and inputs determine its outputs: no random numbers, no subgraphs."""
    parent: Node | None
    """The node that holds the subgraph, or calls the function, that this one is in."""
    source: ir.Node = field(repr=False)
    """The onnx_ir node; a transformation of the graph may change it."""
    body_inputs: tuple[Value, ...] = ()
    """The inputs of its subgraphs, in order."""
    body_outputs: tuple[Value, ...] = ()
    """The outputs of its subgraphs, in order."""

    @property
    def first_name(self) -> str:
        """The name of the first output; empty where there is none."""
        return self.outputs[0].name if self.outputs else ""

    @property
    def identity_input(self) -> Value | None:
        """The value that an `Identity` passes through, or a `Cast` to the type that the value has; None for others."""
        if self.operator == ("", "Identity", "") or (self.operator == ("", "Cast", "") and self._keeps_type):
            return self.inputs[0]
        return None

    @property
    def _keeps_type(self) -> bool:
        taken = self.inputs[0]
        return taken is not None and taken.dtype is not None and taken.dtype == self.outputs[0].dtype

    @property
    def varying(self) -> bool:
        """Whether it computes a value that depends on an input of the model."""
        return any(output.varying for output in self.outputs)

    @property
    def around(self) -> Iterator[Node]:
        """The nodes that hold the subgraph, or call the function, that this one is in: the innermost first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs; the node's key where one has none."""
        return [output.name or self.key for output in self.outputs]

    @property
    def operands(self) -> Iterator[Value]:
        """Every value that the node takes, those that its subgraphs take from outside included."""
        yield from (value for value in self.inputs if value is not None)
        yield from self.outer

    @property
    def data_operands(self) -> Iterator[Value]:
        """Every operand of which the node takes elements, not the shape or type alone."""
        domain, name, _ = self.source.op_identifier()
        yield from (v for i, v in enumerate(self.inputs) if v is not None and reads_elements(domain, name, i))
        yield from self.outer


@dataclass
class Flat:
    """The nodes of a model in file order, and its values."""

    nodes: list[Node] = field(default_factory=list)
    named: dict[str, Value] = field(default_factory=dict)
    """The values by name; a value that a tool renamed has its old name, too."""
    initializers: dict[str, Value] = field(default_factory=dict)
    """By key: the main graph's by their own names, those of subgraphs as :mod:`pytest_hierexport._onnx.graph` says."""
    leaves: list[Value] = field(default_factory=list)
    """The values that no node computes: inputs and initializers, also of subgraphs, and inputs left out of calls."""
    inputs: list[Value] = field(default_factory=list)
    """The inputs of the model that have no initializer, in order."""
    outputs: list[Value] = field(default_factory=list)
    """The outputs of the model, in order."""
    opsets: dict[str, int] = field(default_factory=dict)
    never_used: frozenset[Node] = frozenset()
    """The nodes that no output depended on when torch had just inlined functions, such as results of `nn.EmbeddingBag`
    that nothing asks for. One that is gone was dropped, not merged."""

    @cached_property
    def producer(self) -> Mapping[Value, Node]:
        """The node that computes each value that one computes."""
        return {value: node for node in self.nodes for value in node.outputs}

    @cached_property
    def consumers(self) -> Mapping[Value, list[Node]]:
        """The nodes that take each value."""
        return by_key((value, node) for node in self.nodes for value in node.operands)

    @cached_property
    def initializer_keys(self) -> Mapping[Value, str]:
        """The key of every initializer."""
        return {value: key for key, value in self.initializers.items()}

    @property
    def stored(self) -> Iterator[Value]:
        """Every value that has a tensor: initializers, and what `Constant` nodes give."""
        yield from self.initializers.values()
        yield from (value for node in self.nodes for value in node.outputs if value.tensor is not None)

    def producer_of(self, name: str) -> Node | None:
        """Return the node that computes the value of a name."""
        value = self.named.get(name)
        return None if value is None else self.producer.get(value)

    def namesake(self, node: Node) -> Node | None:
        """Return the node that has the operator, and the first output's name or the keys, of one of another graph."""
        found = self.producer_of(node.first_name) or self._by_keys.get(_keys(node))
        return found if found is not None and found.operator == node.operator else None

    @cached_property
    def _by_keys(self) -> Mapping[tuple[str, ...], Node]:
        """By keys, the nodes that have no expression to compare (random numbers, subgraphs), or call a function."""
        return {_keys(node): node for node in self.nodes if not node.pure or not node.outputs}

    def consumers_of(self, node: Node) -> list[Node]:
        """Return the nodes that take an output of a node."""
        return [consumer for output in node.outputs for consumer in self.consumers.get(output, ())]

    def own_consumers(self, value: Value) -> list[Node]:
        """Return the nodes that take a value themselves, not only in a body that they hold."""
        return [node for node in self.consumers.get(value, ()) if value in node.inputs]

    def names_of_consumers(self, value: Value) -> set[str]:
        """Return the output names of the nodes that consume a value: names can be compared across graphs."""
        return {name for consumer in self.consumers.get(value, ()) for name in consumer.output_names}

    @cached_property
    def order(self) -> Mapping[Node, int]:
        """The position of every node."""
        return {node: i for i, node in enumerate(self.nodes)}

    @cached_property
    def by_elements(self) -> frozenset[Value]:
        """The values that depend on the elements of an input, not on its shape alone."""
        found = {leaf for leaf in self.leaves if leaf.varying}
        for node in self.nodes:
            if not found.isdisjoint(node.data_operands):
                found.update(node.outputs)
        return frozenset(found)

    @cached_property
    def unused(self) -> frozenset[Node]:
        """The nodes whose values no output of the model depends on, with all in their subgraphs."""
        outputs, unused = set(self.outputs), set[Node]()
        for node in reversed(self.nodes):
            users = {outermost(consumer) for consumer in self.consumers_of(node)}
            if node.outputs and users <= unused and outputs.isdisjoint(node.outputs):
                unused.add(node)
        return frozenset(node for node in self.nodes if outermost(node) in unused)


def _keys(node: Node) -> tuple[str, ...]:
    """Return the keys of a node and of those around it: two calls of a function have nodes of the same keys."""
    return (node.key, *(each.key for each in node.around))


def outermost(node: Node) -> Node:
    """Return the outermost node that holds a node in a subgraph; the node itself where none does."""
    return [node, *(each for each in node.around if each.outputs)][-1]


def names_inside(flat: Flat, names: Mapping[Value, str]) -> dict[Value, str]:
    """Return new names for the values in subgraphs: theirs begin with that of the first output of the node around."""
    # In order: the name of the innermost holder counts.
    parents = dict.fromkeys(node.parent for node in flat.nodes if node.parent is not None)
    holders = [parent.outputs[0] for parent in parents if parent.outputs]
    starts = {f"{holder.name}/": f"{names[holder]}/" for holder in holders if holder in names}
    return {
        value: new + name.removeprefix(old)
        for old, new in starts.items()
        for name, value in flat.named.items()
        if name.startswith(old)
    }


def drop_prefix(before: Flat, after: Flat) -> None:
    """Remove a prefix that a tool added to all names, as `onnx.compose.add_prefix` does.

    It counts if it is on more inputs and constants than have their old name.
    """
    unknown = [value for value in after.leaves if value.name not in before.named]
    added: Counter[str] = Counter()
    for value in unknown:
        cut = next((i for i in range(1, len(value.name)) if value.name[i:] in before.named), 0)
        if cut and _may_be_one(before.named[value.name[cut:]], value):
            added[value.name[:cut]] += 1
    prefix, count = next(iter(added.most_common(1)), ("", 0))
    if count > len(after.leaves) - len(unknown):
        for name, value in list(after.named.items()):
            # The names of what holds a value in a subgraph are in its own.
            known = "/".join(part.removeprefix(prefix) for part in name.split("/"))
            if known not in after.named:
                value.name = known
                after.named[known] = value


def _may_be_one(a: Value, b: Value) -> bool:
    """Whether a leaf may be the one before, apart from its name.

    An input may have another position (`extract_model`), or have been an initializer.
    """
    return a.leaf == b.leaf or (b.varying and types_may_agree(a, b))


def same_operator(a: Node, b: Node) -> bool:
    """Whether two nodes have the same operator, attributes and number of inputs."""
    return a.operator == b.operator and a.attributes == b.attributes and len(a.inputs) == len(b.inputs)


def tensors_may_agree(a: Value, b: Value) -> bool:
    """Whether two values may have one tensor: not if both tensors are known and differ."""
    # `is` saves reading: most tensors of an export are the same objects as before.
    if a.tensor is None or b.tensor is None or a.tensor is b.tensor:
        return True
    if is_absent(a.tensor) or is_absent(b.tensor):
        return True
    if (a.tensor.dtype, tuple(a.tensor.shape)) != (b.tensor.dtype, tuple(b.tensor.shape)):
        return False
    if a.tensor.dtype == ir.DataType.STRING:
        return bool(a.tensor.string_data() == b.tensor.string_data())
    return bool(a.tensor.tobytes() == b.tensor.tobytes())


def types_may_agree(a: Value, b: Value) -> bool:
    """Whether the element types and shapes of two values agree, as far as they are known."""
    if a.dtype is not None and b.dtype is not None and a.dtype != b.dtype:
        return False
    if a.shape is None or b.shape is None:
        return True
    if len(a.shape) != len(b.shape):
        return False
    pairs = zip(a.shape, b.shape, strict=True)
    return all(not (isinstance(m, int) and isinstance(n, int)) or m == n for m, n in pairs)
