"""A small model exported, and the same file damaged: what the counterexamples of the rules are made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import toy_models
from pytest_hierexport._cases import Case
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._rules import registry
from pytest_hierexport._rules.base import ExportedCase, Exporter, Violation

if TYPE_CHECKING:
    import onnx

__all__ = ["breaks", "case_of", "damaged", "exported", "with_metadata"]


def case_of(factory: Callable[[], object], **options: Any) -> Case:
    """Return a case of a factory, whose weights stay as they are."""
    return Case(name="toy", factory=factory, source="toys", exporter="dynamo", randomise=False, **options)


def exported(
    folder: Path,
    factory: Callable[[], object] = toy_models.build,
    exporter: Exporter = export_case,
    **options: Any,
) -> ExportedCase:
    """Export what a factory makes."""
    case = case_of(factory, **options)
    example = case.load()
    path = folder / "model.onnx"
    exporter(case, example, path)
    return ExportedCase(case, path, example, "dynamo", exporter=exporter)


def damaged(
    whole: ExportedCase, folder: Path, damage: Callable[[onnx.ModelProto], None], **options: Any
) -> ExportedCase:
    """Return the same case with a file that something was done to by hand."""
    shutil.copytree(whole.path.parent, folder, dirs_exist_ok=True)
    path = folder / whole.path.name
    proto = load_proto(path)
    damage(proto)
    path.write_bytes(proto.SerializeToString(deterministic=True))
    case = case_of(whole.case.factory, **options)
    return ExportedCase(case, path, whole.example, whole.exporter_name)


def breaks(rule: str, case: ExportedCase) -> list[Violation]:
    """Return where a case breaks a rule."""
    (found,) = (known for known in registry.rules([rule]) if known.id == rule)
    return found.violations(case)


def with_metadata(message: Any, key: str, value: str | None) -> None:
    """Replace one metadata entry; None removes it."""
    for entry in [entry for entry in message.metadata_props if entry.key == key]:
        message.metadata_props.remove(entry)
    if value is not None:
        message.metadata_props.add(key=key, value=value)
