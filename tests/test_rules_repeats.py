"""Second exports of MUST-008: a file or a reason for each case, whatever becomes of the second process."""

from __future__ import annotations

import errno
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_hierexport._cases import Case, Example
from pytest_hierexport._child import ChildEndedError
from pytest_hierexport._errors import DiskFullError, ExportError, UsageError
from pytest_hierexport._proof.state import state_digests
from pytest_hierexport._rules import must_008 as repeats
from pytest_hierexport._rules.base import ExportedCase


def nothing() -> object:
    return None


def case_of(name: str, factory: Callable[[], object] = nothing) -> ExportedCase:
    example = Example(None)  # type: ignore[arg-type]  # any object
    return ExportedCase(Case(name, factory, "a test"), "model.onnx", example, f"exporter of {name}")


class InThisProcess:
    """Answers as the second process does."""

    def ask(self, **request: Any) -> Any:
        return json.loads(json.dumps(repeats.answer(**request)))


def export(case: Case, _: object, path: Path, _first: Path) -> dict[str, Any]:
    if case.name == "deadly":
        raise ChildEndedError("ended with -11: Segmentation fault")
    if case.name == "hopeless":
        raise ExportError("a graph", found="none", do="nothing")
    if case.name == "full":
        raise ExportError("a file", found="an error", do="nothing") from OSError(errno.ENOSPC, "No space left", "f")
    path.parent.mkdir()
    path.write_text(case.exporter)
    return {"state": {"all": str(case.factory())}, "changed": [path.name]}


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "_second_process", InThisProcess)
    monkeypatch.setattr(repeats, "_export", export)
    monkeypatch.setattr(repeats, "keep_temporary_files_in", lambda _: None)


def test_case_is_exported_by_the_capture_that_served() -> None:
    with repeats.repeat_of(case_of("a")) as repeat:
        assert (repeat.folder / "model.onnx").read_text() == "exporter of a"
        assert (repeat.state, repeat.changed, repeat.error) == ({"all": "None"}, ["model.onnx"], "")
    assert not repeat.folder.exists()


def test_factory_that_cannot_be_sent_is_replaced_by_its_example() -> None:
    with repeats.repeat_of(case_of("a", factory=lambda: None)) as repeat:
        assert repeat.state == {"all": str(Example(None))}  # type: ignore[arg-type]  # any object


def test_example_that_is_sent_keeps_its_weights() -> None:
    local = Case("a", lambda: (torch.nn.Linear(4, 4), (torch.ones(2, 4),)), "a test")
    exported = ExportedCase(local, "model.onnx", local.load())
    _, sent, _ = pickle.loads(repeats._task(exported))  # noqa: S301  # our own
    assert state_digests(sent.load()) == state_digests(exported.example)


def test_second_process_has_the_same_default_dtype(tmp_path: Path) -> None:
    task, before = tmp_path / "task", torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        task.write_bytes(repeats._task(case_of("a")))
        torch.set_default_dtype(before)
        repeats.answer(str(task), str(tmp_path / "made" / "model.onnx"), str(tmp_path))
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("hopeless", "expected a graph; found none"),
        ("deadly", "the process ended with -11: Segmentation fault"),
    ],
)
def test_missing_file_has_a_reason(name: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "Exception", ExportError, raising=False)
    with repeats.repeat_of(case_of(name)) as repeat:
        assert error in repeat.error


def test_model_that_cannot_be_sent_is_a_usage_error() -> None:
    exported = case_of("bad", factory=lambda: None)
    exported.example.args = (lambda: None,)
    with (
        pytest.raises(UsageError, match="bad to be a model that another process"),
        repeats.repeat_of(exported),
    ):
        pass


def test_full_disk_is_no_fault_of_the_case() -> None:
    with pytest.raises(DiskFullError, match="No space left: f"), repeats.repeat_of(case_of("full")):
        pass


@pytest.mark.parametrize(("ours", "theirs"), [("1", "2"), ("2", "1"), ("random", "1")])
def test_second_process_has_another_hash_seed(ours: str, theirs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PYTHONHASHSEED", ours)
    assert repeats._second_process.__wrapped__()._environment == {"PYTHONHASHSEED": theirs}
