"""Checks that a thin model has the same modules, calls and operators as the real one; only shapes may differ.

Both are exported without weights, since the real one may be larger than the memory, and their snapshots are compared.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_hierexport._cases.case import Case, thinned
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._errors import ExportError
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._onnx.graph import operators
from pytest_hierexport._snapshot import text
from pytest_hierexport._snapshot.diff import diff

_MOST_SHOWN = 5
"""The most differences that an error shows."""


def check_thin(case: Case) -> None:
    """Compare the hierarchies of a case's model and of its thin model.

    Raises:
        ExportError: They differ.
        HierexportError: One of the models cannot be built or exported.
    """
    real, thin = (_hierarchy(each) for each in (case, thinned(case)))
    if real != thin:
        raise ExportError(
            f"the thin model of {case.name} to have the hierarchy of the real one",
            found="; ".join(diff(real, thin, _MOST_SHOWN)),
            do='name a factory of a smaller model that keeps it: thin = "my_model.py::small" in a manifest',
        )


def _hierarchy(case: Case) -> str:
    bare = replace(case, weights="none", thin=None)
    with temporary_folder() as folder:
        exported = export_case(bare, bare.load(), Path(folder, "model.onnx"))
        return text(exported.attribution, operators(exported.model))
