"""Copies a model for a tool that changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir
from onnx_ir.passes.common import TopologicalSortPass

from pytest_hierexport._errors import UsageError, gist
from pytest_hierexport._onnx.models import as_ir

if TYPE_CHECKING:
    from pytest_hierexport._onnx.models import Model


def working_copy(model: Model) -> ir.Model:
    """Return a copy of a model with its nodes in topological order; it shares the tensors.

    Raises:
        UsageError: The graph has a cycle, or the file is not ONNX.
    """
    try:
        copied = model.clone() if isinstance(model, ir.Model) else as_ir(model)
        TopologicalSortPass()(copied)
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            "a graph without a cycle, each value with one producer", found=gist(error), do="check it with onnx.checker"
        ) from error
    return copied
