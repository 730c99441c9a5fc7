"""The formats in which `benchmarks/replay.py` keeps graphs: ONNX without large tensors, fx graphs as JSON.

Nothing here knows the package, so that a stored graph outlives every change of it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import _disable_current_modes

__all__ = ["STACK", "Blobs", "fx_from_json", "fx_to_json", "pack", "unpack"]

INLINE = 1024
"""Bytes of the largest tensor that stays in a stored graph; a larger one is named by its digest."""
LARGEST = 1 << 27
"""Bytes of all tensors of a case that are kept."""
STACK = "nn_module_stack"


class Blobs:
    """Large tensors by the digest of their bytes: those of a model, which is built again, and those in a folder."""

    def __init__(self, folder: Path, model: torch.nn.Module) -> None:
        """Find the tensors of the model's state, matrices as they are and transposed, as optimizers fold them."""
        self.folder = folder
        self.written = 0
        state = [tensor.detach() for tensor in model.state_dict().values() if isinstance(tensor, torch.Tensor)]
        transposed = [tensor.t() for tensor in state if tensor.dim() == 2]  # a matrix
        held = [TorchTensor(tensor) for tensor in (*state, *transposed) if not tensor.is_complex()]
        self._held = {_digest(tensor.tobytes()): tensor for tensor in held if tensor.nbytes > INLINE}

    def keep(self, tensor: ir.TensorProtocol) -> str:
        """Return a tensor's digest; write what the model does not hold.

        Raises:
            ValueError: It is more than is worth keeping.
        """
        data = tensor.tobytes()
        digest = _digest(data)
        path = self.folder / digest
        if digest not in self._held and not path.exists():
            self.written += len(data)
            if self.written > LARGEST:
                raise ValueError(f"more than {LARGEST >> 20} MiB of tensors that are not the model's own")
            self.folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(data)
            part.rename(path)
        return digest

    def load(self, stub: ir.ExternalTensor) -> ir.TensorProtocol:
        """Return the tensor that a stub names by its digest.

        Raises:
            FileNotFoundError: Neither the model nor the folder holds it.
        """
        digest = Path(stub.location).name
        held = self._held.get(digest)
        data = held.tobytes() if held is not None else (self.folder / digest).read_bytes()
        array = np.frombuffer(data, stub.dtype.numpy()).reshape(stub.shape.numpy())
        return ir.Tensor(array, dtype=stub.dtype, shape=stub.shape, name=stub.name)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def pack(model: ir.Model, blobs: Blobs) -> bytes:
    """Return a model as ONNX without metadata, its large initializers in `blobs`; the model is not changed."""
    copy = model.clone()
    for nodes in (copy.graph.all_nodes(), *(function.all_nodes() for function in copy.functions.values())):
        for node in nodes:
            node.metadata_props.clear()
            node.doc_string = None
            for value in node.outputs:
                value.metadata_props.clear()
    for graph in copy.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and tensor.nbytes > INLINE and tensor.dtype != ir.DataType.STRING:
                value.const_value = ir.ExternalTensor(
                    blobs.keep(tensor),
                    0,
                    tensor.nbytes,
                    tensor.dtype,
                    shape=ir.Shape(tensor.shape.numpy()),
                    name=value.name or "",
                )
    return bytes(ir.to_proto(copy).SerializeToString())


def unpack(data: bytes, blobs: Blobs) -> ir.Model:
    """Return the model that :func:`pack` stored, with all its tensors."""
    model: ir.Model = ir.from_proto(onnx.ModelProto.FromString(data))
    for graph in model.graphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = blobs.load(value.const_value)
    return model


def fx_to_json(graph: torch.fx.Graph) -> dict[str, Any]:
    """Return operators, arguments, module stacks and value types of an fx graph, with its small constants.

    It may be called while torch traces, of which it leaves no trace.
    """
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return _fx_to_json(graph)


def _fx_to_json(graph: torch.fx.Graph) -> dict[str, Any]:
    stacks: dict[str, dict[str, Any]] = {}
    nodes = []
    for node in graph.nodes:
        stack = {key: [path, str(cls)] for key, (path, cls) in (node.meta.get(STACK) or {}).items()}
        name = _digest(repr(stack).encode())
        stacks[name] = stack
        val = _encode_val(node.meta.get("val"))
        nodes.append([node.name, node.op, _target(node), _encode(node.args), _encode(dict(node.kwargs)), name, val])
    constants = {str(node.target): _constant(node) for node in graph.nodes if node.op == "get_attr"}
    return {"nodes": nodes, "stacks": stacks, "constants": constants}


def fx_from_json(stored: Mapping[str, Any]) -> tuple[torch.fx.Graph, dict[str, torch.fx.Node]]:
    """Return the graph that :func:`fx_to_json` stored, and its nodes by the names that they had."""
    root = torch.nn.Module()
    for path, constant in stored["constants"].items():
        if constant is not None:
            *parents, name = path.split(".")
            holder = functools.reduce(_child, parents, root)
            setattr(holder, name, _filled(constant))
    graph = torch.fx.Graph(owning_module=root)  # type: ignore[arg-type]  # it is only asked for attributes
    nodes: dict[str, torch.fx.Node] = {}
    for name, op, target, args, kwargs, stack, val in stored["nodes"]:
        found = _resolve(target) if op == "call_function" else target
        node = graph.create_node(op, found, _decode(args, nodes), _decode(kwargs, nodes), name)
        node.meta["val"] = _decode_val(val)
        node.meta[STACK] = {key: (path, cls) for key, (path, cls) in stored["stacks"][stack].items()}
        nodes[name] = node
    return graph, nodes


def _child(module: torch.nn.Module, name: str) -> torch.nn.Module:
    if not hasattr(module, name):
        setattr(module, name, torch.nn.Module())
    child: torch.nn.Module = getattr(module, name)
    return child


def _target(node: torch.fx.Node) -> str:
    if isinstance(node.target, str):
        return node.target
    if isinstance(node.target, torch._ops.OpOverload):
        return f"torch.ops:{node.target}"
    return f"{getattr(node.target, '__module__', '')}:{getattr(node.target, '__qualname__', node.target)}"


@functools.cache
def _resolve(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    try:
        if module == "torch.ops":
            found = functools.reduce(getattr, name.split("."), torch.ops)
        else:
            found = pkgutil.resolve_name(target)
    except (ImportError, AttributeError, ValueError):
        found = None

    def unknown(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(target)

    return found if callable(found) else unknown


def _encode(part: Any) -> Any:
    """Return an argument as JSON; what is no number or text is an object with one key, its kind."""
    for types, encode in _ENCODERS:
        if isinstance(part, types):
            return encode(part)
    return {"other": repr(part)}


def _all(parts: Iterable[Any]) -> list[Any]:
    return [_encode(part) for part in parts]


_ENCODERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((NoneType, bool, int, float, str), lambda part: part),
    (torch.fx.Node, lambda part: {"node": part.name}),
    (tuple, lambda part: {"tuple": _all(part)}),
    (list, lambda part: {"list": _all(part)}),
    (dict, lambda part: {"dict": [_all(item) for item in part.items()]}),
    (slice, lambda part: {"slice": _all((part.start, part.stop, part.step))}),
    ((torch.SymInt, torch.SymFloat, torch.SymBool), lambda part: part.node.hint),
    ((torch.dtype, torch.layout, torch.memory_format), lambda part: {"torch": str(part).removeprefix("torch.")}),
    (torch.device, lambda part: {"device": str(part)}),
)


def _decode(part: Any, nodes: Mapping[str, torch.fx.Node]) -> Any:
    if not isinstance(part, dict):
        return part
    ((kind, held),) = part.items()
    if kind == "node":
        return nodes[held]
    if kind in _PLAIN:
        return _PLAIN[kind](held)
    if kind == "dict":
        return {_decode(key, nodes): _decode(value, nodes) for key, value in held}
    return _CONTAINERS[kind]([_decode(item, nodes) for item in held])


_PLAIN: Mapping[str, Callable[[str], Any]] = {
    "torch": lambda name: getattr(torch, name),
    "device": torch.device,
    "other": str,
}
_CONTAINERS: Mapping[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "slice": lambda items: slice(*items),
}


def _encode_val(value: Any) -> Any:
    """Return shape and dtype of a tensor, sizes as in the example; the same for each part of a tuple."""
    if isinstance(value, tuple | list):
        return [_encode_val(part) for part in value]
    if isinstance(value, torch.Tensor):
        return {"shape": [_encode(size) for size in value.shape], "dtype": str(value.dtype).removeprefix("torch.")}
    return _encode(value) if isinstance(value, int | torch.SymInt) else None


def _decode_val(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decode_val, value))
    if not isinstance(value, dict):
        return value
    shape, dtype = value["shape"], getattr(torch, value["dtype"])
    if None not in shape:
        return torch.empty(shape, dtype=dtype, device="meta")
    env = ShapeEnv()
    with torch._subclasses.FakeTensorMode(shape_env=env):
        return torch.empty([env.create_unbacked_symint() if size is None else size for size in shape], dtype=dtype)


_HOLDING = (torch.Tensor, torch.nn.Parameter)


def _constant(node: torch.fx.Node) -> Any:
    """Return a tensor that the graph's module holds: a small one's elements, a large one's digest; None for others."""
    try:
        tensor = functools.reduce(getattr, str(node.target).split("."), node.graph.owning_module)
    except AttributeError:
        return None
    # A tensor of another class stands for one while torch traces, and holds no elements.
    if not isinstance(tensor, torch.Tensor) or type(tensor) not in _HOLDING or tensor.is_complex():
        return None
    plain = tensor.detach()
    small = plain.numel() * plain.element_size() <= INLINE
    return {
        **_encode_val(plain),
        "elements": plain.flatten().tolist() if small else None,
        "digest": _digest(plain.contiguous().flatten().view(torch.uint8).numpy().tobytes()),
    }


def _filled(constant: Mapping[str, Any]) -> torch.Tensor:
    """Return a constant; of a large one random elements, the same for the same digest."""
    dtype = getattr(torch, constant["dtype"])
    if constant["elements"] is not None:
        return torch.tensor(constant["elements"], dtype=dtype).reshape(constant["shape"])
    generator = torch.Generator().manual_seed(int(constant["digest"][:12], 16))
    return torch.randn(constant["shape"], generator=generator).to(dtype)
