"""Retries a TorchScript export with operators traced as the operators that they are composed of.

A trace has each operator as the model called it, also one that torch composes of others. If torch cannot convert such
an operator to ONNX in the requested opset, the export fails, although the parts could be converted. Then the export is
run again, and the parts are traced in place of the operator.
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
    """Run a TorchScript export; repeat it, with more operators in parts, while it fails on a composed operator.

    Raises:
        Exception: The error of the export, if it fails for another reason.
    """
    try:
        return export()
    except UnsupportedOperatorError as error:
        failure = error
    parts: dict[torch._ops.OpOverload, Callable[..., Any]] = {}
    # torch's attention has several kernels; only this one is composed of other operators.
    with sdpa_kernel(SDPBackend.MATH):
        while more := {overload: how for overload, how in _composed(failure) if overload not in parts}:
            parts |= more
            try:
                return _with_parts(parts, export)
            except UnsupportedOperatorError as error:
                failure = error
            except Exception:  # noqa: BLE001  # a composition is Python code, which may be impossible to trace
                break
    raise failure from None


def _composed(failure: UnsupportedOperatorError) -> Iterator[tuple[torch._ops.OpOverload, Callable[..., Any]]]:
    """Yield the overloads of the operator that an export failed on, each with the function that composes it."""
    named = _NAME.search(str(failure))
    if named is None or named[1] != _NAMESPACE:
        return
    packet = getattr(torch.ops.aten, named[2])
    for name in packet.overloads():
        overload = getattr(packet, name)
        how = overload.decompose if overload._can_decompose() else decomposition_table.get(overload)
        # Some overloads exist in TorchScript only; the dispatcher has no kernel for them.
        if how is not None and not overload._schema.is_mutable and torch._C._dispatch_has_kernel(overload.name()):
            yield overload, how


def _with_parts(parts: Mapping[torch._ops.OpOverload, Callable[..., Any]], export: Callable[[], T]) -> T:
    """Run an export in which these operators are traced in parts."""
    with torch.library._scoped_library(_NAMESPACE, "IMPL") as library:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that a kernel is replaced, which is intended
            for overload, how in parts.items():
                library.impl(overload, how, "Tracer")
        return export()
