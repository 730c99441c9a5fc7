"""Operators traced in parts.

TorchScript writes an operator down as it was called, also one that is composed of others. Where it has no translation
of such an operator to ONNX, in the opset asked for at least, the export fails, though the parts could be exported. It
is run again, then, with the parts written down in the operator's place.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch._decomp import decomposition_table
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.onnx.errors import UnsupportedOperatorError

T = TypeVar("T")

_NAMESPACE = "aten"
_NAME = re.compile(r"'(\w+)::(\w+)'")


def in_parts(export: Callable[[], T]) -> T:
    """Run an export by TorchScript, again and again while it fails of an operator that is composed of others.

    Raises:
        Exception: What the export raised, where that cannot be helped so.
    """
    try:
        return export()
    except UnsupportedOperatorError as error:
        failure = error
    parts: dict[torch._ops.OpOverload, Callable[..., Any]] = {}
    # torch's attention is one of several kernels otherwise, of which one alone is composed of other operators.
    with sdpa_kernel(SDPBackend.MATH):
        while more := {overload: how for overload, how in _composed(failure) if overload not in parts}:
            parts |= more
            try:
                return _parting(parts, export)
            except UnsupportedOperatorError as error:
                failure = error
            except Exception:  # noqa: BLE001  # a composition in Python may not be one that can be traced
                break
    raise failure from None


def _composed(failure: UnsupportedOperatorError) -> Iterator[tuple[torch._ops.OpOverload, Callable[..., Any]]]:
    """Yield the overloads of the operator that an export failed of, each with its composition of others."""
    named = _NAME.search(str(failure))
    if named is None or named[1] != _NAMESPACE:
        return
    packet = getattr(torch.ops.aten, named[2])
    for name in packet.overloads():
        overload = getattr(packet, name)
        how = overload.decompose if overload._can_decompose() else decomposition_table.get(overload)
        # Some overloads are TorchScript's own, of which the dispatcher knows nothing.
        if how is not None and not overload._schema.is_mutable and torch._C._dispatch_has_kernel(overload.name()):
            yield overload, how


def _parting(parts: Mapping[torch._ops.OpOverload, Callable[..., Any]], export: Callable[[], T]) -> T:
    """Run an export in which these operators are traced in parts."""
    with torch.library._scoped_library(_NAMESPACE, "IMPL") as library:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced, which is what is meant
            for overload, how in parts.items():
                library.impl(overload, how, "Tracer")
        return export()
