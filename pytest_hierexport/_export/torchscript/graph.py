"""Copies a torch graph into plain data: torch's passes change and destroy its nodes in place.

A value is identified by torch's number for it, which is constant while the graph exists; a node by the number of its
first output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype


@dataclass(frozen=True)
class Operation:
    """A node of torch's graph."""

    kind: str
    """The domain and the operator: `onnx::Gemm`."""
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
        """Whether ONNX has the operator; it has none of torch's operators for lists and tuples, which torch removes."""
        return not self.kind.startswith("prim::")


@dataclass(frozen=True)
class Block:
    """The main graph, a branch or a loop body."""

    inputs: tuple[int, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[int | None, ...]

    def all_operations(self) -> Iterator[Operation]:
        """Yield every operation, each followed by the operations of its blocks."""
        for operation in self.operations:
            yield operation
            for block in operation.blocks:
                yield from block.all_operations()


class Graph:
    """A graph, with the types and names of its values by number."""

    def __init__(self, graph: torch._C.Graph, numbers: Mapping[int, int] | None = None) -> None:
        """Copy a torch graph.

        Args:
            graph: The graph.
            numbers: Other numbers for its values, by torch's; a value that is not in it gets a negative number.
        """
        self._numbers = numbers
        self._none: set[int] = set()
        self.types: dict[int, tuple[ir.DataType | None, ir.Shape | None]] = {}
        self.names: dict[int, str] = {}
        self.block = self._block(graph)

    def _block(self, block: Any) -> Block:
        inputs = tuple(self._defined(value) for value in block.inputs())
        operations = tuple(op for node in block.nodes() if (op := self._operation(node)) is not None)
        return Block(inputs, operations, tuple(self._input(value) for value in block.outputs()))

    def _operation(self, node: Any) -> Operation | None:
        outputs = tuple(self._defined(value) for value in node.outputs())
        if node.mustBeNone():
            # Its output stands for an optional input that is not given.
            self._none.update(outputs)
            return None
        if not outputs:
            return None
        attributes = tuple(attr for name in node.attributeNames() if (attr := _attribute(node, name)) is not None)
        inputs = tuple(self._input(value) for value in node.inputs())
        return Operation(node.kind(), attributes, inputs, outputs, tuple(self._block(b) for b in node.blocks()))

    def _input(self, value: Any) -> int | None:
        number = self._number(value)
        return None if number in self._none else number

    def _defined(self, value: Any) -> int:
        number = self._number(value)
        self.types[number] = _type(value.type())
        self.names[number] = value.debugName()
        return number

    def _number(self, value: Any) -> int:
        number: int = value.unique()
        return number if self._numbers is None else self._numbers.get(number, -1 - number)


def _type(kind: Any) -> tuple[ir.DataType | None, ir.Shape | None]:
    if not isinstance(kind, torch._C.TensorType):
        return None, None
    dtype, sizes = kind.dtype(), kind.varyingSizes()
    return None if dtype is None else from_torch_dtype(dtype), None if sizes is None else ir.Shape(sizes)


def _attribute(node: Any, name: str) -> ir.Attr | None:
    kind = node.kindOf(name)
    if name == "onnx_name" or kind not in _ATTRIBUTES:  # `onnx_name` is no attribute in ONNX, but the node's name
        return None
    attribute: ir.Attr = _ATTRIBUTES[kind](name, getattr(node, kind)(name))
    return attribute


def _float(value: float) -> float:
    """Round to float32, the type of float attributes in ONNX."""
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
