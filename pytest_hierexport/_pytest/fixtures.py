"""Implements the plugin's fixtures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.example import check_model
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._cases.in_code import check_stated
from pytest_hierexport._errors import CrashError, HierexportError, NoVerdictError
from pytest_hierexport._export.choices import as_inputs
from pytest_hierexport._pytest.ids import file_name
from pytest_hierexport._pytest.messages import CheckFailed
from pytest_hierexport._pytest.run import RUN
from pytest_hierexport._pytest.snapshots import hierarchy_snapshot
from pytest_hierexport._requests import check_arguments
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._text import one_line, printable

if TYPE_CHECKING:
    import torch
    from syrupy.assertion import SnapshotAssertion


def exported(config: pytest.Config, case: Case) -> ExportedCase:
    """Return the shared export of a case; a failing export fails the test with its message alone.

    Raises:
        pytest.skip.Exception: The model's own code skipped it, or the case before a step could not be exported.
    """
    __tracebackhide__ = True
    run = config.stash[RUN]
    try:
        with run.limited(case, "hierexport_export"):
            run.succeeded(case)
            return run.store.exported(case)
    except NoVerdictError as error:
        pytest.skip(printable(one_line(error.found)))
    except CrashError as error:
        raise CheckFailed(str(error)) from None
    except HierexportError as error:
        raise CheckFailed(f"{case.name} could not be exported: {error}") from None


def exporter(request: pytest.FixtureRequest) -> Callable[..., ExportedCase]:
    """Return the function that exports models into the test's own temporary folder."""
    folder: Path = request.getfixturevalue("tmp_path")

    def hierexport(
        model: torch.nn.Module,
        args: Any = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        exporter: str = "auto",
        opset: int | None = None,
        dynamic_shapes: Any = None,
        keep: Sequence[str] = (),
        strict: bool = False,
        allow_derived: int = 0,
        tolerances: Mapping[str, float] | None = None,
    ) -> ExportedCase:
        """Export a model as it is, its weights untouched, and return what the rules and assertions see."""
        __tracebackhide__ = True
        check_arguments(hierexport, locals())
        example = Example(model, *as_inputs(args, kwargs), dynamic_shapes)
        case = Case(
            name or type(model).__name__,
            lambda: example,
            request.node.nodeid,
            exporter=exporter,
            opset=opset,
            dynamic_shapes=dynamic_shapes,
            randomise=False,
            tolerances=tolerances or {},
            allow_derived=allow_derived,
            strict=strict,
            keep=tuple(keep),
        )
        try:
            check_stated(case)
            check_model(model, "a model to export and run", f"a {type(model).__name__}")
            path = Path(tempfile.mkdtemp(prefix=f"{file_name(case.name)}-", dir=folder)) / "model.onnx"
            return ExportedCase(case, path, example, export_case(case, example, path).exporter)
        except HierexportError as error:
            # The user can correct the test's own line, not the frames below it.
            raise error.with_traceback(None) from None

    return hierexport


def snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return the snapshot of the test; syrupy switched off fails the test with that message alone."""
    try:
        return hierarchy_snapshot(request)
    except HierexportError as error:
        raise CheckFailed(str(error)) from None
