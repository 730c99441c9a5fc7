"""Holds the result of an export."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.entries import trainable_elements
from pytest_hierexport._calls.hierarchy import ROOT, Call
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._display import Shown, Table
from pytest_hierexport._onnx.codec import Tags
from pytest_hierexport._text import one_line

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class Export(Shown):
    """A tagged ONNX model."""

    model: ir.Model
    """The graph with its tags. Its tensors may share the memory of the model's weights: save it before these change."""
    attribution: Attribution
    """The origins of every node and initializer."""
    modules: tuple[Module, ...]
    """All module instances with their parameters, also those that were not called; empty for an ExportedProgram."""
    exporter: str
    """The name of the capture that succeeded, such as `dynamo`, or the function of the project."""
    notes: tuple[str, ...] = ()
    """What the user should know: that the model was exported in eval mode, which captures failed."""
    tags: Tags = "both"
    """Where the tags are written: `both`, `metadata`, `doc_string` or `none`."""
    warnings: tuple[str, ...] = ()
    """Why the graph may compute something else than the model: a fallback to an exporter that records one run."""
    path: Path | None = None
    """The file; None where none was written."""

    def __repr__(self) -> str:
        """Return the root's class, the exporter, the size of the graph and the file."""
        hierarchy, opset = self.attribution.hierarchy, self.model.opset_imports.get("")
        of = f" of {hierarchy[ROOT].cls}" if hierarchy else ""
        parts = [f"{len(self.attribution.nodes)} nodes", *([f"opset {opset}"] if opset else [])]
        parts += [f"{len(hierarchy)} calls", *([str(self.path)] if self.path else [])]
        return f"<export{of} by {self.exporter}: {', '.join(parts)}>"

    def tree(self) -> str:
        """Return the module tree as text: a line per module with its operators, runs of equal siblings folded."""
        from pytest_hierexport._onnx.graph import operators
        from pytest_hierexport._snapshot import tree

        return tree(self.attribution, operators(self.model))

    def summary(self) -> str:
        """Return a few lines: what was exported, the nodes by evidence, parameters, notes and warnings."""
        coverage = ", ".join(f"{kind} {count}" for kind, count in self.attribution.coverage().items() if count)
        trained = sum(map(trainable_elements, self.modules))
        lines = [repr(self).strip("<>"), f"nodes: {coverage or 'none'}"]
        if self.modules:
            lines.append(f"modules: {len(self.modules)}, with {trained:,} trainable parameters")
        lines += [f"note: {note}" for note in self.notes] + [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(map(one_line, lines))

    def nodes_of(self, call: str | Call, *, primary: bool = False) -> list[str]:
        """Return the keys of a call's nodes; see :meth:`Attribution.nodes_of`."""
        return self.attribution.nodes_of(call, primary=primary)

    def _table(self) -> Table:
        return replace(self.attribution._table(), title=one_line(repr(self)))

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
