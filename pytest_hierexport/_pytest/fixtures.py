"""Implements the plugin's fixtures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.models import check_model
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._pytest.failures import CheckFailed
from pytest_hierexport._pytest.ids import file_name
from pytest_hierexport._pytest.messages import crash_error
from pytest_hierexport._pytest.run import RUN

if TYPE_CHECKING:
    import pytest
    import torch
    from syrupy.assertion import SnapshotAssertion

    from pytest_hierexport._rules.base import ExportedCase

__all__ = ["exported", "exporter", "selected", "snapshot"]


def selected(config: pytest.Config) -> tuple[Case, ...]:
    """Return the selected cases, none where no models are asked for."""
    return config.stash[RUN].plan.cases if RUN in config.stash else ()


def exported(config: pytest.Config, case: Case) -> ExportedCase:
    """Return the shared export of a case; a failing export fails the test with its message alone."""
    __tracebackhide__ = True
    run = config.stash[RUN]
    crash = run.crashes.of(case.name)
    if crash is not None:
        raise CheckFailed(str(crash_error(run, case, crash)))
    try:
        return run.store.exported(case)
    except HierexportError as error:
        raise CheckFailed(f"{case.name} could not be exported: {error}") from None


def exporter(request: pytest.FixtureRequest) -> Callable[..., ExportedCase]:
    """Return the function that exports models into the test's own temporary folder."""
    folder: Path = request.getfixturevalue("tmp_path")

    def hierexport(
        model: torch.nn.Module,
        args: Sequence[Any] = (),
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
        example = Example(model, tuple(args) if isinstance(args, (tuple, list)) else (args,), dict(kwargs or {}))
        example.dynamic_shapes = dynamic_shapes
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
            check_model(model, "a model to export and run", f"a {type(model).__name__}")
            return _exported(case, example, _free_folder(folder, case.name))
        except HierexportError as error:
            # The user can correct the test's own line, not the frames below it.
            raise error.with_traceback(None) from None

    return hierexport


def _exported(case: Case, example: Example, folder: Path) -> ExportedCase:
    from pytest_hierexport._cases.exporting import export_case
    from pytest_hierexport._rules.base import ExportedCase

    path = folder / "model.onnx"
    return ExportedCase(case, path, example, export_case(case, example, path).exporter)


def _free_folder(home: Path, name: str) -> Path:
    """Make a folder for the next export of that name within a test."""
    names = (file_name(name) if i == 0 else f"{file_name(name)}-{i}" for i in range(10_000))
    folder = next(path for path in map(home.joinpath, names) if not path.exists())
    folder.mkdir()
    return folder


def snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return the snapshot of the test; syrupy switched off fails the test with that message alone."""
    from pytest_hierexport._pytest.snapshots import hierarchy_snapshot

    try:
        return hierarchy_snapshot(request)
    except HierexportError as error:
        raise CheckFailed(str(error)) from None
