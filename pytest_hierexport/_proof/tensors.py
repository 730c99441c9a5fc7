"""Finds the tensors and numbers of a module and of its arguments and results, and takes their fingerprints."""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from pytest_hierexport._export.state import slots_of
from pytest_hierexport._proof.fingerprints import Fingerprint, fingerprint
from pytest_hierexport._proof.tolerance import Array

Number = bool | int | float
_PLAIN = (
    *(str, bytes, type(None), type, torch.dtype, torch.device, torch.nn.Module),
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType),
)


def walk(holder: Any, label: str = "") -> Iterator[tuple[str, torch.Tensor | Number]]:
    """Yield every tensor and number with the place where it was found: `kwargs['mask']`, `args[0].layers[1].keys`.

    Containers, dataclasses and objects with attributes are searched, each once; modules are not.
    """
    yield from _walk(holder, label, set())


def copied(inputs: Any) -> Any:
    """Copy inputs with all that they hold; tensors without their autograd history, which forbids a copy."""
    tensors = (part for _, part in walk(inputs) if isinstance(part, torch.Tensor))
    return copy.deepcopy(inputs, {id(tensor): tensor.detach().clone() for tensor in tensors})


def flattened(holder: Any) -> Iterator[tuple[str, torch.Tensor | Number]]:
    """Yield every tensor and number in the order in which exporters flatten them, with its place.

    They flatten by torch's trees; :func:`walk` searches the objects that those do not know.
    """
    try:
        leaves = [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_leaves_with_path(holder)]
    except ValueError:  # a registered type has no keys
        leaves = [(f"[{i}]", leaf) for i, leaf in enumerate(pytree.tree_leaves(holder))]
    for place, leaf in leaves:
        yield from walk(leaf, place)


def _walk(holder: Any, label: str, seen: set[int]) -> Iterator[tuple[str, torch.Tensor | Number]]:
    if isinstance(holder, torch.Tensor | bool | int | float):
        yield label, holder
        return
    if isinstance(holder, _PLAIN) or id(holder) in seen:
        return
    seen.add(id(holder))
    for name, part in _parts(holder):
        yield from _walk(part, label + name, seen)


def _parts(holder: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(holder, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in holder.items())
    elif isinstance(holder, list | tuple):
        names = getattr(holder, "_fields", None)
        yield from ((f".{names[i]}" if names else f"[{i}]", part) for i, part in enumerate(holder))
    elif isinstance(holder, AbstractSet):
        yield from (("{}", part) for part in holder)
    else:
        # Attribute access may raise; stored attributes are read directly.
        slots = ((name, getattr(holder, name, None)) for name in slots_of(type(holder)))
        for name, part in (*slots, *getattr(holder, "__dict__", {}).items()):
            # Most numbers of an object are settings; they would make every small number an input of the call.
            if not isinstance(part, bool | int | float):
                yield f".{name}", part


def has_elements(tensor: torch.Tensor) -> bool:
    """Whether a tensor has strided elements to read; none has under `torch.vmap`, or in a model without weights."""
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    lacks = is_wrapped or tensor.is_meta or tensor.is_nested or isinstance(tensor, FakeTensor)
    return tensor.layout is torch.strided and not lacks


def array_of(tensor: torch.Tensor) -> Array:
    """Return a tensor's elements as in ONNX: a complex tensor has a last dimension of two, a quantized one integers."""
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.detach().cpu().resolve_neg().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    # numpy has every type that is not floating. Its name is not looked up: numpy 1 has no `numpy.bool`.
    if not tensor.is_floating_point() or hasattr(np, name):
        return tensor.numpy()
    elements: Array = tensor.reshape(-1).view(torch.uint8).numpy().view(getattr(ml_dtypes, name))
    return elements.reshape(tensor.shape)


def returned_arrays(output: Any, count: int) -> dict[str, Array]:
    """Return the tensors that a model returned by their places, in the order of a graph's outputs.

    Args:
        output: What the model returned.
        count: The number of the graph's outputs; where it has one for each number too, the numbers are among them.
    """
    leaves = {f"output{place}": part for place, part in flattened(output)}
    tensors = {place: leaf for place, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
    counted = leaves if len(tensors) != count == len(leaves) else tensors
    # Without a device, torch copies even a tensor to its default device, which may hold no elements.
    return {place: array_of(torch.as_tensor(leaf, device="cpu")) for place, leaf in counted.items()}


def fingerprint_of(tensor: torch.Tensor, precision: str = "") -> Fingerprint | None:
    """Return a tensor's fingerprint; None where it has no elements."""
    if not has_elements(tensor):
        return None
    return replace(fingerprint(array_of(tensor), precision), quantized=tensor.is_quantized)


def fingerprints_of_number(number: Number, precision: str = "") -> list[Fingerprint]:
    """Return the fingerprints of the scalars that a Python number may have become in a graph."""
    if isinstance(number, bool):
        return [fingerprint(np.array(number))]
    is_index = isinstance(number, int) and -(2**63) <= number < 2**63
    dtypes = [*([np.int64] if is_index else []), np.float32, np.float64]
    return [fingerprint(np.array(number, dtype), precision) for dtype in dtypes]


def version_of(tensor: torch.Tensor) -> int | bytes | None:
    """Return what differs after a write to a tensor; None where it cannot be known."""
    if not tensor.is_inference():
        return tensor._version
    found = fingerprint_of(tensor)  # torch does not count the writes in inference mode
    return None if found is None else found.digest()


def held_by(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors among a module's buffers and plain attributes; parameters never depend on an input."""
    attributes = {name: value for name, value in vars(module).items() if name not in _OWN}
    for name, value in {**module._buffers, **attributes}.items():
        if not isinstance(value, _SETTINGS):
            yield from ((label, part) for label, part in walk(value, name) if isinstance(part, torch.Tensor))


_SETTINGS = (str, bool, int, float, type(None))
_OWN = frozenset(vars(torch.nn.Module()))
"""The attributes of every `torch.nn.Module`: parameters, buffers, submodules, hooks, flags."""
