"""Finds the tensors and numbers inside the arguments and results of a module call, and takes their fingerprints."""

from __future__ import annotations

import types
from collections.abc import Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import torch

from pytest_hierexport._proof.fingerprints import Fingerprint, fingerprint
from pytest_hierexport._proof.tolerance import Array

__all__ = ["fingerprint_of", "fingerprints_of_number", "version_of", "walk"]

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
        for key, part in holder.items():
            yield f"[{key!r}]", part
    elif isinstance(holder, list | tuple):
        names = getattr(holder, "_fields", None)
        for i, part in enumerate(holder):
            yield f".{names[i]}" if names else f"[{i}]", part
    elif isinstance(holder, AbstractSet):
        for part in holder:
            yield "{}", part
    else:
        # Attribute access may raise; stored attributes are read directly.
        stored: Mapping[str, Any] = getattr(holder, "__dict__", {})
        for name in (*_slots(type(holder)), *stored):
            part = stored[name] if name in stored else getattr(holder, name, None)
            # Most numbers of an object are settings; they would make every small number an input of the call.
            if not isinstance(part, bool | int | float):
                yield f".{name}", part


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def fingerprint_of(tensor: torch.Tensor) -> Fingerprint | None:
    """Return a tensor's fingerprint; None where it has no strided elements to read.

    A complex tensor gets a last dimension of two, as in ONNX.
    """
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized or tensor.is_nested:
        return None
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None  # under `torch.vmap`, where a tensor has no elements of its own
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    dtype = str(tensor.dtype).removeprefix("torch.")
    tensor = tensor.detach().cpu().resolve_neg()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    return fingerprint(tensor.numpy(), dtype)


def version_of(tensor: torch.Tensor) -> Hashable:
    """Return what changes whenever the tensor's elements are written to."""
    if not tensor.is_inference():
        return tensor._version
    # torch counts no versions in inference mode.
    found = fingerprint_of(tensor)
    return None if found is None else found.digest()


def fingerprints_of_number(number: Number) -> list[Fingerprint]:
    """Return the fingerprints of the scalars that a Python number may have become in a graph."""
    if isinstance(number, bool):
        return [fingerprint(np.array(number))]
    arrays: list[Array] = [np.array(number, np.float32), np.array(number, np.float64)]
    if isinstance(number, int):
        arrays = [np.array(number, np.int64), *arrays] if -(2**63) <= number < 2**63 else arrays
    return [fingerprint(array) for array in arrays]
