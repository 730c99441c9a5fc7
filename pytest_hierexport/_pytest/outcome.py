"""Exports one case into a folder and records the outcome, success or failure, in a form that all processes can read."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport import _errors as errors
from pytest_hierexport._errors import CrashError, ExportError, HierexportError, in_words

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case, Example
    from pytest_hierexport._rules.base import ExportedCase

__all__ = ["RECORD", "ExportOutcome", "crashed", "export_into", "from_fields", "from_record"]

RECORD = "export.json"
"""The file in an export's folder that holds its outcome."""
_MODEL = "model.onnx"
_TRACEBACK = "traceback.txt"


@dataclass(frozen=True)
class ExportOutcome:
    """The outcome of the export of one case."""

    folder: Path
    """Holds `model.onnx` and its sidecar, or neither where the export failed."""
    exporter: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    coverage: Mapping[str, int] = field(default_factory=dict)
    """The number of nodes by evidence."""
    hierarchy: str = ""
    """The text of the hierarchy, as in a snapshot."""
    error: HierexportError | None = None
    cached: str = ""
    """The name of the export in the cache, empty where it is not there."""

    @property
    def path(self) -> Path:
        """The ONNX file."""
        return self.folder / _MODEL

    def fields(self) -> dict[str, Any]:
        """Return a successful outcome, without its place, as JSON can hold it."""
        return {name: value for name, value in asdict(self).items() if name not in {"folder", "error", "cached"}}

    def record(self, run: str) -> str:
        """Return the outcome as the JSON that the other processes of a run read."""
        if self.error is None:
            return json.dumps({"run": run, "fields": self.fields(), "cached": self.cached})
        error = {name: getattr(self.error, name) for name in ("expected", "found", "do")}
        return json.dumps({"run": run, "error": {"kind": type(self.error).__name__, **error}})

    def exported(self, case: Case, example: Example | None) -> ExportedCase:
        """Return the export as the rules take it; without an example they build the model again."""
        from pytest_hierexport._rules.base import ExportedCase

        return ExportedCase(case, self.path, example, self.exporter)


def from_fields(folder: Path, fields: Mapping[str, Any], cached: str) -> ExportOutcome:
    """Return the outcome with these :meth:`ExportOutcome.fields`."""
    lists = {name: tuple(fields[name]) for name in ("notes", "warnings")}
    return ExportOutcome(folder, **{**fields, **lists}, cached=cached)


def from_record(folder: Path, run: str) -> ExportOutcome | None:
    """Return the outcome whose record a folder holds, None where it holds none of this run."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if record["run"] != run:
        return None
    if "error" not in record:
        return from_fields(folder, record["fields"], record["cached"])
    error = record["error"]
    kind: type[HierexportError] = getattr(errors, error["kind"])
    return ExportOutcome(folder, error=kind(error["expected"], found=error["found"], do=error["do"]))


def export_into(folder: Path, case: Case) -> tuple[ExportOutcome, Example | None]:
    """Export a case into a folder; return the outcome and, where it succeeds, the model with its inputs."""
    try:
        example = case.load()
        from pytest_hierexport._cases.exporting import export_case
        from pytest_hierexport._onnx.graph import operators
        from pytest_hierexport._snapshot import text

        exported = export_case(case, example, folder / _MODEL)
        hierarchy = text(exported.attribution, operators(exported.model))
    except HierexportError as error:
        if error.__cause__ is not None:
            (folder / _TRACEBACK).write_text("".join(traceback.format_exception(error.__cause__)), encoding="utf-8")
        return ExportOutcome(folder, error=_plain(error)), None
    except Exception as error:  # noqa: BLE001  # no error of one export may cost the other models their tests
        (folder / _TRACEBACK).write_text(traceback.format_exc(), encoding="utf-8")
        return ExportOutcome(folder, error=_unforeseen(case, error)), None
    coverage = exported.attribution.coverage()
    return (
        ExportOutcome(folder, exported.exporter, exported.notes, exported.warnings, coverage, hierarchy),
        example,
    )


def crashed(folder: Path, case: Case) -> ExportOutcome:
    """Return the outcome of an export in which a process of the run ended."""
    error = CrashError(
        f"{case.name} to run without ending its process",
        found="a process of this run ended while it exported it",
        do="run one of its tests by itself with -n0, where all that it prints is seen",
    )
    return ExportOutcome(folder, error=error)


def _plain(error: HierexportError) -> HierexportError:
    """Return an error as its base class in `_errors`: the process that reads the record knows no other."""
    kind = next(base for base in type(error).__mro__ if base.__module__ == errors.__name__)
    return kind(error.expected, found=error.found, do=error.do)  # type: ignore[no-any-return]


def _unforeseen(case: Case, error: Exception) -> ExportError:
    return ExportError(
        f"{case.name} to be exported",
        found=in_words(error),
        do=f"read {_TRACEBACK} in the kept folder; an error of this kind is worth a report",
    )
