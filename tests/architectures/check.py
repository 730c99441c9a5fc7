"""The MUST rules on a random architecture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import torch

from architectures.program import Program
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._rules.base import ExportedCase, Rule

__all__ = ["refusal", "violations"]


def violations(program: Program, rules: Sequence[Rule], folder: Path) -> list[str]:
    """Export a program's model and return what the rules have against it, one text per violation.

    Args:
        program: The architecture.
        rules: The rules to hold it to.
        folder: Where the file and its sidecar are written.
    """
    case = program.case()
    example = case.load()
    path = folder / "model.onnx"
    export_case(case, example, path)
    exported = ExportedCase(case, path, example, exporter_name=case.exporter)
    return [
        f"{rule.id} at {found.where}: expected {found.expected}; found {found.found}"
        for rule in rules
        for found in rule.check(exported)
    ]


def refusal(program: Program) -> str:
    """Return why torch alone cannot export a program: it raises, or makes no valid graph; empty where it can."""
    example = program.build()
    try:
        made = torch.onnx.export(example.model, example.args, kwargs=dict(example.kwargs), dynamo=True, verbose=False)
        if made is not None:
            onnx.checker.check_model(made.model_proto, full_check=True)
    except Exception as error:  # noqa: BLE001  # torch raises what it pleases
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
