"""Holds the result of an export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import Module
from pytest_hierexport._onnx.codec import Tags

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["Export"]


@dataclass(frozen=True)
class Export:
    """A tagged ONNX model."""

    model: ir.Model
    """The graph, with its tags attached."""
    attribution: Attribution
    """The origins of every node and initializer."""
    modules: tuple[Module, ...]
    """The module tree, called or not, with parameters; empty for an ExportedProgram, which has none."""
    exporter: str
    """The capture that served: `dynamo`, `transformers` or `torchscript`."""
    notes: tuple[str, ...] = ()
    """What the user should know: a model exported in eval mode though it was training, captures that failed."""
    tags: Tags = "both"
    """Where the tags stand: `both`, `metadata`, `doc_string` or `none`."""
    warnings: tuple[str, ...] = ()
    """What may make the graph another than the model: a fallback to an exporter that records one run of it."""

    def save(self, path: str | Path, *, external_data: bool | None = None) -> Path:
        """Write the model, its external data and its sidecar, each atomically, the sidecar last.

        Args:
            path: Where the ONNX file shall be.
            external_data: Whether tensors go to a file of their own; None decides by their size.

        Raises:
            ExportError: The folder cannot be written.
        """
        from pytest_hierexport._onnx import storage

        return storage.save(
            self.model,
            self.attribution,
            path,
            modules=self.modules,
            exporter=self.exporter,
            external_data=external_data,
        )
