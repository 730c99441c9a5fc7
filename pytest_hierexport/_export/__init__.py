"""`export()`: any `nn.Module` in, tagged ONNX out."""

from __future__ import annotations

from pytest_hierexport._export.pipeline import export
from pytest_hierexport._export.result import Export

__all__ = ["Export", "export"]
