"""Builds the ONNX graph as torch first converted it, with the names that its values have in the final graph.

In this graph nothing is merged, fused or folded yet, so origins can be carried from it:

    converted, by number        final, by number            before
    5 = MatMul(1, 2)                                        converted.5 = MatMul(x, w)
    6 = Add(5, 3)               9 = Gemm(1, 2, 3)  # "h"    h = Add(converted.5, b)
    7 = Relu(6)                 7 = Relu(9)        # "y"    y = Relu(h)

A value keeps its number while torch changes the graph. A value that torch removed gets the name of the value that its
consumers take in the final graph, unless another value has that name. ONNX has no lists and tuples: torch's operators
for them are replaced by the nodes that torch replaced them by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

import onnx_ir as ir

from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._carry.tensors import constant_tensor, tensor_key
from pytest_hierexport._export.torchscript.graph import Block, Graph, Operation
from pytest_hierexport._export.torchscript.trace import CallNames

_BRANCHES: Mapping[str, Sequence[str]] = {"onnx::If": ("then_branch", "else_branch"), "onnx::Loop": ("body",)}
"""The names of a node's subgraphs in ONNX, in the order of torch's blocks, which have no names."""


def before(
    converted: Graph, final: Graph, owners: Mapping[int, CallNames], parameters: Mapping[str, ir.TensorProtocol]
) -> tuple[ir.Graph, dict[ir.Node, CallNames]]:
    """Return the graph before torch changed it, and the call of each node; none where it is unknown.

    Args:
        converted: torch's graph right after the conversion to ONNX operators.
        final: torch's graph as written to the file, with the same numbers.
        owners: The calls of each node of `converted`.
        parameters: By name: the tensors of the parameters, buffers and constants that `converted` and `final` take as
            inputs.
    """
    return _Builder(_Graft(converted, final, owners), converted, final, parameters).build()


class _Graft:
    """Replaces the operators for lists and tuples in the converted graph by nodes of the final graph.

    It also adds the nodes that torch added for the results of the graph.
    """

    def __init__(self, converted: Graph, final: Graph, owners: Mapping[int, CallNames]) -> None:
        self.owners = dict(owners)
        self._kept = {operation.key: operation for operation in final.block.all_operations()}
        self._final = _producers(final.block)
        self._converted = _producers(converted.block)
        self._lists = {value: operation for value, operation in self._converted.items() if not operation.is_onnx}
        self._added: set[int] = set()
        self.block = _without_unused_lists(self._grafted(converted.block, final.block, ROOT))
        self._place_additions(self.block, (ROOT,), {})

    def _grafted(self, block: Block, final: Block | None, results_of: str) -> Block:
        operations: list[Operation] = []
        for operation in block.operations:
            kept = self._kept.get(operation.key)
            if kept is not None:
                operation = self._rewired(operation, kept, operations)  # noqa: PLW2901  # the same node, rewired
            holder = next(iter(self.owners.get(operation.key, ())), results_of)
            inner = kept.blocks if kept is not None and len(kept.blocks) == len(operation.blocks) else ()
            blocks = tuple(self._grafted(was, now, holder) for was, now in zip_longest(operation.blocks, inner))
            operations.append(replace(operation, blocks=blocks))
        outputs = block.outputs
        if final is not None and len(final.outputs) == len(outputs):
            outputs = tuple(map(self._result, outputs, final.outputs))
            operations += self._additions(outputs, (results_of,))
        return Block(block.inputs, tuple(operations), outputs)

    def _rewired(self, operation: Operation, kept: Operation, operations: list[Operation]) -> Operation:
        """Replace each list among the inputs of an operation by the value that it takes in the final graph."""
        lists = [self._lists[value] for value in operation.inputs if value in self._lists]
        if not lists:
            return operation
        inputs = kept.inputs
        if len(kept.inputs) == len(operation.inputs):
            pairs = zip(operation.inputs, kept.inputs, strict=True)
            inputs = tuple(now if was in self._lists else was for was, now in pairs)
        operations += self._additions(inputs, self._calls_of_additions(operation, lists[0]))
        return replace(operation, inputs=inputs)

    def _calls_of_additions(self, operation: Operation, listed: Operation) -> CallNames:
        """Return the calls of what replaces a list for one operation: those of the list that run it, or all.

        The blocks of Swin pad by one list of sizes, which torch merged, and torch replaces it for each of them.
        """
        own, calls = self.owners.get(operation.key, ()), self.owners.get(listed.key, ())
        return tuple(call for call in calls if call in own) or calls or own

    def _result(self, was: int | None, now: int | None) -> int | None:
        """Return a result of the graph: the final one if torch added its producer, else the converted one.

        torch adds a copy for a value that is a result twice. What it put in the place of an operation is not added.
        """
        producer = None if now is None else self._final.get(now)
        is_added = producer is not None and producer.key not in self.owners and now not in self._converted
        operation = None if was is None else self._converted.get(was)
        is_replaced = operation is not None and operation.is_onnx and operation.key not in self._kept
        return now if is_added and not is_replaced else was

    def _additions(self, values: Sequence[int | None], calls: CallNames) -> list[Operation]:
        """Return the operations that torch added to compute the values; they get `calls` as their owners."""
        added: list[Operation] = []
        for value in values:
            producer = None if value is None else self._final.get(value)
            if producer is not None and value not in self._converted and producer.key not in self._added:
                self._added.add(producer.key)
                self.owners[producer.key] = calls
                added += [*self._additions(producer.inputs, calls), producer]
        return added

    def _place_additions(self, block: Block, holder: CallNames, consumers: dict[int | None, list[CallNames]]) -> None:
        """Give each operation without a call to the call of its consumers, if they have one in common.

        torch inserts such operations to prepare the input of another one. Of equal constants it keeps one, before the
        first call, if it freezes the trace (quantized models): the calls of all consumers own that.
        """
        for value in block.outputs:
            consumers.setdefault(value, []).append(holder)
        for operation in reversed(block.operations):
            if not self.owners.get(operation.key):
                found = (owners[:1] for value in operation.outputs for owners in reversed(consumers.get(value, [])))
                calls = dict.fromkeys(found)
                if len(calls) == 1 or not operation.inputs:
                    self.owners[operation.key] = tuple(chain.from_iterable(calls))
            owners = self.owners.get(operation.key, ())
            for value in operation.inputs:
                consumers.setdefault(value, []).append(owners)
            for inner in operation.blocks:
                self._place_additions(inner, owners, consumers)


def _producers(block: Block) -> dict[int, Operation]:
    return {value: operation for operation in block.all_operations() for value in operation.outputs}


def _without_unused_lists(block: Block) -> Block:
    used = {value for operation in block.all_operations() for value in operation.inputs}
    used |= {value for operation in block.all_operations() for inner in operation.blocks for value in inner.outputs}
    used |= set(block.outputs)

    def kept(part: Block) -> Block:
        operations = (op for op in part.operations if op.is_onnx or not used.isdisjoint(op.outputs))
        return replace(part, operations=tuple(replace(op, blocks=tuple(map(kept, op.blocks))) for op in operations))

    return kept(block)


class _Builder:
    """Builds the ONNX graph."""

    def __init__(
        self, graft: _Graft, converted: Graph, final: Graph, parameters: Mapping[str, ir.TensorProtocol]
    ) -> None:
        self._graft, self._converted, self._final, self._parameters = graft, converted, final, parameters
        self._names = _names(graft.block, final)
        self._taken = set(final.names.values()) | set(parameters)
        self._values: dict[int, ir.Value] = {}
        self._owners: dict[ir.Node, CallNames] = {}

    def build(self) -> tuple[ir.Graph, dict[ir.Node, CallNames]]:
        block = self._graft.block
        used = {value for operation in block.all_operations() for value in operation.inputs}
        numbers = dict.fromkeys((*block.inputs, *(number for number in self._final.block.inputs if number in used)))
        initializers = [value for number in numbers if (value := self._parameter(number)) is not None]
        given = set(block.inputs) - set(self._values)
        inputs = [self._value(number) for number in self._final.block.inputs if number in given]
        graph = ir.Graph(inputs, [], nodes=[*map(self._node, block.operations)], initializers=initializers)
        graph.outputs.extend(self._value(number) for number in block.outputs if number is not None)
        return graph, self._owners

    def _parameter(self, number: int) -> ir.Value | None:
        """Return the initializer for a parameter among the inputs of torch's graph; None for an input of the model."""
        known = self._converted if number in self._converted.names else self._final
        tensor = self._parameters.get(known.names[number])
        if tensor is None:
            return None
        value = self._values[number] = ir.Value(name=known.names[number], const_value=tensor)
        return value

    def _value(self, number: int) -> ir.Value:
        if number not in self._values:
            dtype, shape = self._converted.types.get(number, (None, None))
            kind = None if dtype is None else ir.TensorType(dtype)
            self._values[number] = ir.Value(name=self._name(number), type=kind, shape=shape)
        return self._values[number]

    def _name(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            # The final graph does not have the value. Its name must not be that of another value.
            name = f"converted.{number}"
            while name in self._taken:
                name += "."
        return name

    def _node(self, operation: Operation) -> ir.Node:
        outputs = [self._value(number) for number in operation.outputs]
        domain, _, op_type = operation.kind.partition("::")
        names = _BRANCHES.get(operation.kind, [f"body_{i}" for i in range(len(operation.blocks))])
        graphs = [ir.AttrGraph(name, self._graph(block)) for name, block in zip(names, operation.blocks, strict=True)]
        inputs = [None if number is None else self._value(number) for number in operation.inputs]
        domain = "" if domain == "onnx" else domain
        node = ir.Node(domain, op_type, inputs, [*operation.attributes, *graphs], outputs=outputs)
        calls = self._graft.owners.get(operation.key, ())
        # Small constants are shared freely, which tells nothing of ownership.
        is_small = tensor_key(constant_tensor(node, node.attributes)) is not None
        self._owners[node] = calls[:1] if is_small else calls
        return node

    def _graph(self, block: Block) -> ir.Graph:
        inputs = [self._value(number) for number in block.inputs]
        nodes = [*map(self._node, block.operations)]
        return ir.Graph(inputs, [self._value(number) for number in block.outputs if number is not None], nodes=nodes)


def _names(block: Block, final: Graph) -> dict[int, str]:
    """Return the names of values in the final graph, as the docstring of the module says."""
    pairs = list(_consumed_instead(block, final.block))
    names = {was: final.names[was] for was, now in pairs if was == now}
    claimed = set(names)
    for was, now in pairs:
        if was not in names and now not in claimed and now in final.names:
            names[was] = final.names[now]
            claimed.add(now)
    # A value that is still computed, but unused, keeps its own name.
    return {number: name for number, name in final.names.items() if number not in claimed} | names


def _consumed_instead(block: Block, final: Block) -> Iterator[tuple[int, int]]:
    """Yield every consumed value of the block, with that which its consumer, or its substitute, takes in `final`."""
    kept = {operation.key: operation for operation in final.all_operations()}
    computed = _producers(block)
    gone: dict[int | None, Operation] = {
        value: operation for value, operation in computed.items() if operation.key not in kept
    }
    new = {value: operation for value, operation in _producers(final).items() if value not in computed}

    def pairs(was: Sequence[int | None], now: Sequence[int | None]) -> Iterator[tuple[int, int]]:
        for a, b in zip(was, now, strict=True) if len(was) == len(now) else ():
            while a is not None and b is not None:
                yield a, b
                a, b = _first_taken(gone.get(a), new.get(b), gone)  # noqa: PLW2901  # down a chain of such pairs

    yield from pairs(block.outputs, final.outputs)
    for operation in block.all_operations():
        if (now := kept.get(operation.key)) is not None:
            yield from pairs(operation.inputs, now.inputs)
            for inner, inner_now in zip(operation.blocks, now.blocks, strict=False):
                yield from pairs(inner.outputs, inner_now.outputs)


def _first_taken(
    was: Operation | None, now: Operation | None, gone: Mapping[int | None, Operation]
) -> tuple[int | None, int | None]:
    """Return the first input of the operation that a new one of its kind replaced, and that of the new one.

    torch makes a new `Conv` of a `Conv` and the normalisation behind it, `was`. None where there is none.
    """
    while was is not None and now is not None and was.inputs:
        if was.kind == now.kind:
            return was.inputs[0], now.inputs[0]
        was = gone.get(was.inputs[0])
    return None, None
