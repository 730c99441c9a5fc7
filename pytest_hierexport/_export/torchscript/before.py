"""The graph as torch first converted it, to carry from: nothing is merged, fused or folded in it.

Its values bear the names that torch gives when all is done. They are found by following each value to the end: it is
what its readers read there in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._export.torchscript.graph import Block, Graph, Operation

__all__ = ["before"]

Origins = Mapping[int, tuple[str, ...]]

_BRANCHES: Mapping[str, Sequence[str]] = {"onnx::If": ("then_branch", "else_branch"), "onnx::Loop": ("body",)}
"""What ONNX calls the subgraphs of a node; torch's graph numbers them."""


def before(
    converted: Graph, final: Graph, origins: Origins, parameters: Mapping[str, ir.TensorProtocol]
) -> tuple[ir.Graph, dict[ir.Node, str | None]]:
    """Return the graph before torch changed it, and the call of each node; None where it is not known.

    Args:
        converted: The graph as converted.
        final: The graph as written, with the same numbers.
        origins: The calls of each node of `converted`.
        parameters: By name: what the inputs of `converted` hold that are none of the user's, and those of `final`.
    """
    grafted = _Graft(converted, final, origins)
    return _Builder(grafted, converted, final, parameters).build()


class _Graft:
    """Puts into the graph what torch made of its own lists and tuples, which ONNX cannot hold, and of its results."""

    def __init__(self, converted: Graph, final: Graph, origins: Origins) -> None:
        self.origins = dict(origins)
        self._kept = {op.key: op for op in final.block.all_operations()}
        self._made = _producers(final.block)
        self._known = _producers(converted.block)
        self._taken: set[int] = set()
        self.block = _without_leftovers(self._grafted(converted.block, final.block, ROOT))
        self._place_additions(self.block, (ROOT,), {})

    def _grafted(self, block: Block, final: Block | None, results_of: str) -> Block:
        operations: list[Operation] = []
        for operation in block.operations:
            kept = self._kept.get(operation.key)
            if kept is not None:
                operation = self._rewired(operation, kept, operations)  # noqa: PLW2901  # the same node, rewired
            holder = next(iter(self.origins.get(operation.key, ())), results_of)
            inner = kept.blocks if kept is not None and len(kept.blocks) == len(operation.blocks) else ()
            pairs = zip(operation.blocks, inner or (None,) * len(operation.blocks), strict=True)
            operations.append(replace(operation, blocks=tuple(self._grafted(b, f, holder) for b, f in pairs)))
        outputs = block.outputs
        if final is not None and len(final.outputs) == len(outputs):
            outputs = tuple(map(self._result, outputs, final.outputs))
            operations += self._additions(outputs, (results_of,))
        return Block(block.inputs, tuple(operations), outputs)

    def _rewired(self, operation: Operation, kept: Operation, operations: list[Operation]) -> Operation:
        """Let an operation read what it reads in the end, where it read one of torch's lists."""
        lists = [self._known[v] for v in operation.inputs if v in self._known and not self._known[v].is_onnx]
        if not lists:
            return operation
        inputs = kept.inputs
        if len(kept.inputs) == len(operation.inputs):
            pairs = zip(operation.inputs, kept.inputs, strict=True)
            inputs = tuple(now if was in self._known and not self._known[was].is_onnx else was for was, now in pairs)
        origins = self.origins.get(lists[0].key) or self.origins.get(operation.key, ())
        operations += self._additions(inputs, origins)
        return replace(operation, inputs=inputs)

    def _result(self, was: int | None, now: int | None) -> int | None:
        """Return what the graph gives: torch may put a copy in the place of a value that is given already."""
        producer = None if now is None else self._made.get(now)
        return now if producer is not None and producer.key not in self.origins and now not in self._known else was

    def _additions(self, values: Sequence[int | None], origins: tuple[str, ...]) -> list[Operation]:
        """Return the operations that torch added to make the values, and have them belong to the calls."""
        added: list[Operation] = []
        for value in values:
            producer = None if value is None else self._made.get(value)
            if producer is None or value in self._known or producer.key in self._taken:
                continue
            self._taken.add(producer.key)
            self.origins[producer.key] = origins
            added += [*self._additions(producer.inputs, origins), producer]
        return added

    def _place_additions(self, block: Block, holder: tuple[str, ...], readers: dict[int, set[tuple[str, ...]]]) -> None:
        """Have what torch put in front of one operation, to convert what it reads, belong to that one's call."""
        _add_readers(readers, block.outputs, holder)
        for operation in reversed(block.operations):
            if not self.origins.get(operation.key):
                found = {by[:1] for value in operation.outputs for by in readers.get(value, ())}
                if len(found) == 1:
                    self.origins[operation.key] = found.pop()
            origins = self.origins.get(operation.key, ())
            _add_readers(readers, operation.inputs, origins)
            for inner in operation.blocks:
                self._place_additions(inner, origins, readers)


def _add_readers(
    readers: dict[int, set[tuple[str, ...]]], values: Sequence[int | None], origins: tuple[str, ...]
) -> None:
    for value in values:
        if value is not None:
            readers.setdefault(value, set()).add(origins)


def _producers(block: Block) -> dict[int, Operation]:
    return {value: operation for operation in block.all_operations() for value in operation.outputs}


def _without_leftovers(block: Block) -> Block:
    """Drop torch's own operators where nothing reads them any more."""
    read = {value for operation in block.all_operations() for value in operation.inputs}
    read |= {value for operation in block.all_operations() for inner in operation.blocks for value in inner.outputs}
    read |= set(block.outputs)

    def kept(part: Block) -> Block:
        alive = (op for op in part.operations if op.is_onnx or not read.isdisjoint(op.outputs))
        operations = (replace(op, blocks=tuple(map(kept, op.blocks))) for op in alive)
        return Block(part.inputs, tuple(operations), part.outputs)

    return kept(block)


class _Builder:
    """Makes an ONNX graph of it."""

    def __init__(
        self, graft: _Graft, converted: Graph, final: Graph, parameters: Mapping[str, ir.TensorProtocol]
    ) -> None:
        self._graft, self._converted, self._final, self._parameters = graft, converted, final, parameters
        self._types = {**final.types, **converted.types}
        self._names = _names(graft.block, final)
        self._taken = set(final.names.values()) | set(parameters)
        self._values: dict[int, ir.Value] = {}
        self._calls: dict[ir.Node, str | None] = {}

    def build(self) -> tuple[ir.Graph, dict[ir.Node, str | None]]:
        block = self._graft.block
        read = {value for operation in block.all_operations() for value in operation.inputs}
        numbers = dict.fromkeys((*block.inputs, *(number for number in self._final.block.inputs if number in read)))
        initializers = [value for number in numbers if (value := self._parameter(number)) is not None]
        given = set(block.inputs) - set(self._values)
        inputs = [self._value(number) for number in self._final.block.inputs if number in given]
        nodes = list(self._nodes(block))
        outputs = [self._value(number) for number in block.outputs if number is not None]
        return ir.Graph(inputs, outputs, nodes=nodes, initializers=initializers), self._calls

    def _parameter(self, number: int) -> ir.Value | None:
        """Return the initializer that an input of torch's graph stands for; None for an input of the user's."""
        known = self._converted if number in self._converted.names else self._final
        tensor = self._parameters.get(known.names[number])
        if tensor is None:
            return None
        value = self._values[number] = ir.Value(name=known.names[number], const_value=tensor)
        return value

    def _value(self, number: int) -> ir.Value:
        if number not in self._values:
            dtype, shape = self._types.get(number, (None, None))
            kind = None if dtype is None else ir.TensorType(dtype)
            self._values[number] = ir.Value(name=self._name(number), type=kind, shape=shape)
        return self._values[number]

    def _name(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            # The value is gone in the end. Its name must belong to no other.
            name = f"converted.{number}"
            while name in self._taken:
                name += "."
        return name

    def _nodes(self, block: Block) -> Iterator[ir.Node]:
        for operation in block.operations:
            origins = self._graft.origins.get(operation.key, ())
            yield self._node(operation, [self._value(number) for number in operation.outputs], origins[:1])
            for call in origins[1:]:
                # torch dropped this call's equal operation: here it stands beside the one that was kept.
                yield self._node(operation, [ir.Value(name=None) for _ in operation.outputs], (call,))

    def _node(self, operation: Operation, outputs: list[ir.Value], origins: tuple[str, ...]) -> ir.Node:
        domain, _, op_type = operation.kind.partition("::")
        branches = _BRANCHES.get(operation.kind, [f"body_{i}" for i in range(len(operation.blocks))])
        graphs = [
            ir.AttrGraph(name, self._graph(block)) for name, block in zip(branches, operation.blocks, strict=True)
        ]
        inputs = [None if number is None else self._value(number) for number in operation.inputs]
        domain = "" if domain == "onnx" else domain
        node = ir.Node(domain, op_type, inputs, [*operation.attributes, *graphs], outputs=outputs)
        self._calls[node] = next(iter(origins), None)
        return node

    def _graph(self, block: Block) -> ir.Graph:
        inputs = [self._value(number) for number in block.inputs]
        nodes = list(self._nodes(block))
        return ir.Graph(inputs, [self._value(n) for n in block.outputs if n is not None], nodes=nodes)


def _names(block: Block, final: Graph) -> dict[int, str]:
    """Return the final names of values.

    A value that somebody still reads is itself. One whose readers read another in its place bears that one's name,
    unless the other is still itself: then it was dropped as no more than the other. What is left and still made
    keeps the name under which it is made.
    """
    pairs = list(_read_in_place(block, final.block))
    names = {was: final.names[was] for was, now in pairs if was == now}
    claimed = set(names)
    for was, now in pairs:
        if was not in names and now not in claimed and now in final.names:
            names[was] = final.names[now]
            claimed.add(now)
    for number, name in final.names.items():
        if number not in names and number not in claimed:
            names[number] = name
    return names


def _read_in_place(block: Block, final: Block) -> Iterator[tuple[int, int]]:
    """Yield every value that is read, with what is read in its place in the end."""
    kept = {operation.key: operation for operation in final.all_operations()}

    def pairs(was: Sequence[int | None], now: Sequence[int | None]) -> Iterator[tuple[int, int]]:
        if len(was) == len(now):
            yield from ((a, b) for a, b in zip(was, now, strict=True) if a is not None and b is not None)

    yield from pairs(block.outputs, final.outputs)
    for operation in block.all_operations():
        now = kept.get(operation.key)
        if now is None:
            continue
        yield from pairs(operation.inputs, now.inputs)
        for inner, inner_now in zip(operation.blocks, now.blocks, strict=False):
            yield from pairs(inner.outputs, inner_now.outputs)
