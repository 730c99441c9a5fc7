"""Exports one case into a folder and records the outcome, success or failure, in a form that all processes can read."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport import _errors as errors
from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.entries import ModuleEntry, from_lines, module_entries, to_lines
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.deploying import deploy
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._cases.thin_check import check_thin
from pytest_hierexport._errors import ExportError, HierexportError, UsageError, in_words
from pytest_hierexport._onnx.graph import initializer_bytes, operators, shaped_operators
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._snapshot import details, text
from pytest_hierexport._stages import stage
from pytest_hierexport._text import escape

if TYPE_CHECKING:
    import onnx_ir as ir

RECORD = "export.json"
"""The file in an export's folder that holds its outcome."""
MODULES = "modules.json"
"""The file in an export's folder that holds its modules, for reports."""
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

    def modules(self) -> tuple[ModuleEntry, ...]:
        """Return the module instances of the export; none where it failed."""
        try:
            return from_lines((self.folder / MODULES).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return ()

    def fields(self) -> dict[str, Any]:
        """Return a successful outcome, without its place, as JSON can hold it."""
        return {name: value for name, value in asdict(self).items() if name not in {"folder", "error", "cached"}}

    def record(self) -> str:
        """Return the outcome as the JSON that the other processes of the run read."""
        if self.error is None:
            return json.dumps({"fields": self.fields(), "cached": self.cached})
        error = {name: getattr(self.error, name) for name in ("expected", "found", "do")}
        return json.dumps({"kind": type(self.error).__name__, "error": error})

    def exported(self, case: Case, example: Example | None) -> ExportedCase:
        """Return the export as the rules take it; without an example they build the model again."""
        return ExportedCase(case, self.path, example, self.exporter)

    @contextmanager
    def keeping_traceback(self, check: str) -> Iterator[None]:
        """Write the traceback of an error that a project's own check raises beside the export."""
        try:
            yield
        except UsageError as error:
            # Named after the check: several may fail on one export.
            _keep_traceback(self.folder, error, f"traceback-{escape(check)[:100]}.txt")
            raise


def from_fields(folder: Path, fields: Mapping[str, Any], cached: str) -> ExportOutcome:
    """Return the outcome with these :meth:`ExportOutcome.fields`."""
    lists = {name: tuple(fields[name]) for name in ("notes", "warnings")}
    return ExportOutcome(folder, **{**fields, **lists}, cached=cached)


def from_record(folder: Path) -> ExportOutcome | None:
    """Return the outcome whose record a folder holds, None where it holds none."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if "error" not in record:
        return from_fields(folder, record["fields"], record["cached"])
    error = record["error"]
    kind: type[HierexportError] = getattr(errors, record["kind"])
    return ExportOutcome(folder, error=kind(**error))


def export_into(folder: Path, case: Case) -> tuple[ExportOutcome, Example | None]:
    """Export a case into a folder; return the outcome and, where it succeeds, the model with its inputs."""
    try:
        example = case.load()
        exported = export_case(case, example, folder / _MODEL)
        shown = _shown(folder, case, exported.model, exported.attribution, exported.modules)
        if case.weights == "thin":
            with stage("comparing with the real model"):
                check_thin(case)
    except BaseException as error:  # noqa: BLE001  # no error of one export may cost the other models their tests
        return _failed(folder, case, error), None
    return ExportOutcome(folder, exported.exporter, exported.notes, exported.warnings, **shown), example


def deploy_into(folder: Path, case: Case, previous: ExportOutcome) -> ExportOutcome:
    """Apply a case's step to the file of the case before it, into a folder; return the outcome."""
    try:
        shown = _shown(folder, case, *deploy(case.step, previous.path, folder / _MODEL))
    except BaseException as error:  # noqa: BLE001  # no error of one step may cost the other models their tests
        return _failed(folder, case, error)
    return ExportOutcome(folder, previous.exporter, **shown)


def _shown(
    folder: Path, case: Case, model: ir.Model, attribution: Attribution, modules: tuple[Module, ...]
) -> dict[str, Any]:
    """Return coverage and snapshot text of a tagged model; write its modules, which are many, into the folder."""
    by_key = operators(model)
    entries = module_entries(attribution, modules, by_key, initializer_bytes(model))
    (folder / MODULES).write_text(to_lines(entries), encoding="utf-8")
    if case.details:
        hierarchy = text(attribution, shaped_operators(model), details(attribution.hierarchy, modules))
    else:
        hierarchy = text(attribution, by_key)
    return {"coverage": attribution.coverage(), "hierarchy": hierarchy}


def _keep_traceback(folder: Path, error: BaseException, name: str = _TRACEBACK) -> None:
    """Write the traceback of an error into an export's folder, where it comes from code outside ours."""
    cause = error.__cause__ if isinstance(error, HierexportError) else error
    if cause is not None:
        (folder / name).write_text("".join(traceback.format_exception(cause)), encoding="utf-8")


def _failed(folder: Path, case: Case, error: BaseException) -> ExportOutcome:
    """Return the outcome of a failure, with its traceback in the folder.

    Raises:
        BaseException: It is no failure: the run is stopped.
    """
    if isinstance(error, errors.STOPS):
        raise error
    _keep_traceback(folder, error)
    return ExportOutcome(folder, error=_as_ours(case, error))


def _as_ours(case: Case, error: BaseException) -> HierexportError:
    """Return an error as its base class in `_errors`: the process that reads the record knows no other."""
    if isinstance(error, errors.skips()):
        return errors.skipped(error)
    if not isinstance(error, HierexportError):
        return ExportError(
            f"{case.name} to be exported",
            found=in_words(error),
            do=f"read {_TRACEBACK} in the kept folder; an error of this kind is worth a report",
        )
    kind: type[HierexportError] = next(base for base in type(error).__mro__ if base.__module__ == errors.__name__)
    return kind(error.expected, found=error.found, do=error.do)
