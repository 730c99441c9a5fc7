"""A torch graph as plain data, taken at one moment: torch's passes change and destroy its nodes in place.

A value is known by the number that torch gives it, which it keeps while the graph lives; a node by its first output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype

__all__ = ["Block", "Graph", "Operation", "numbers"]


@dataclass(frozen=True)
class Operation:
    """A node of torch's graph."""

    kind: str
    """The operator behind its domain: `onnx::Gemm`."""
    attributes: tuple[ir.Attr, ...]
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    blocks: tuple[Block, ...] = ()

    @property
    def key(self) -> int:
        """The number of its first output."""
        return self.outputs[0]

    @property
    def is_onnx(self) -> bool:
        """Whether ONNX can hold it; torch's own operators for lists and tuples are on their way out."""
        return not self.kind.startswith("prim::")


@dataclass(frozen=True)
class Block:
    """The graph itself, or a branch or body in it."""

    inputs: tuple[int, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[int | None, ...]

    def all_operations(self) -> Iterator[Operation]:
        """Yield every operation, those of the blocks in it after the one that holds them."""
        for operation in self.operations:
            yield operation
            for block in operation.blocks:
                yield from block.all_operations()


@dataclass(frozen=True)
class Graph:
    """A graph with what is known of its values."""

    block: Block
    types: dict[int, tuple[ir.DataType | None, ir.Shape | None]] = field(default_factory=dict)
    """The element type and shape of each value, as far as torch knows them."""
    names: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: torch._C.Graph, *, typed: bool) -> Graph:
        """Copy a graph of torch's, with the types of its values or without."""
        return _Reader(typed=typed).read(graph)

    def renumbered(self, numbers: dict[int, int]) -> Graph:
        """Return the graph with other numbers; a value that has none gets one below zero."""

        def new(number: int) -> int:
            return numbers.get(number, -1 - number)

        def operation(op: Operation) -> Operation:
            inputs = tuple(None if value is None else new(value) for value in op.inputs)
            blocks = tuple(map(block, op.blocks))
            return replace(op, inputs=inputs, outputs=tuple(map(new, op.outputs)), blocks=blocks)

        def block(old: Block) -> Block:
            outputs = tuple(None if value is None else new(value) for value in old.outputs)
            return Block(tuple(map(new, old.inputs)), tuple(map(operation, old.operations)), outputs)

        types = {new(number): known for number, known in self.types.items()}
        names = {new(number): name for number, name in self.names.items()}
        return Graph(block(self.block), types, names)


class _Reader:
    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._types: dict[int, tuple[ir.DataType | None, ir.Shape | None]] = {}
        self._names: dict[int, str] = {}
        self._none: set[int] = set()

    def read(self, graph: torch._C.Graph) -> Graph:
        return Graph(self._block(graph), self._types, self._names)

    def _block(self, block: Any) -> Block:
        inputs = tuple(self._number(value) for value in block.inputs())
        operations = tuple(op for node in block.nodes() if (op := self._operation(node)) is not None)
        return Block(inputs, operations, tuple(self._input(value) for value in block.outputs()))

    def _operation(self, node: Any) -> Operation | None:
        outputs = tuple(self._number(value) for value in node.outputs())
        if node.mustBeNone():
            # It stands for an input that is left out.
            self._none.update(outputs)
            return None
        if not outputs:
            return None
        attributes = tuple(attr for name in node.attributeNames() if (attr := _attribute(node, name)) is not None)
        inputs = tuple(self._input(value) for value in node.inputs())
        return Operation(node.kind(), attributes, inputs, outputs, tuple(self._block(b) for b in node.blocks()))

    def _input(self, value: Any) -> int | None:
        number: int = value.unique()
        return None if number in self._none else number

    def _number(self, value: Any) -> int:
        number: int = value.unique()
        if self._typed:
            self._types[number] = _type(value.type())
        self._names[number] = value.debugName()
        return number


def _type(kind: Any) -> tuple[ir.DataType | None, ir.Shape | None]:
    if not isinstance(kind, torch._C.TensorType):
        return None, None
    dtype, sizes = kind.dtype(), kind.varyingSizes()
    return None if dtype is None else from_torch_dtype(dtype), None if sizes is None else ir.Shape(sizes)


def _attribute(node: Any, name: str) -> ir.Attr | None:
    kind = node.kindOf(name)
    make = None if name == _NODE_NAME else _ATTRIBUTES.get(kind)
    return None if make is None else make(name, getattr(node, kind)(name))


_NODE_NAME = "onnx_name"
"""Where torch keeps the name of a node until it writes it."""


def _float(value: float) -> float:
    """Round as an ONNX file does."""
    return float(np.float32(value))


_ATTRIBUTES: dict[str, Any] = {
    "i": ir.AttrInt64,
    "is": ir.AttrInt64s,
    "f": lambda name, value: ir.AttrFloat32(name, _float(value)),
    "fs": lambda name, values: ir.AttrFloat32s(name, [_float(value) for value in values]),
    "s": ir.AttrString,
    "ss": ir.AttrStrings,
    "t": lambda name, value: ir.AttrTensor(name, TorchTensor(value)),
    "ts": lambda name, values: ir.AttrTensors(name, [TorchTensor(value) for value in values]),
}


def numbers(block: Any) -> Iterator[int]:
    """Yield the number of every value that a graph or block of torch's defines, in order."""
    yield from (value.unique() for value in block.inputs())
    for node in block.nodes():
        yield from (value.unique() for value in node.outputs())
        for inner in node.blocks():
            yield from numbers(inner)
