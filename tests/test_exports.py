from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from pytest_hierexport._cache.cache import Cache
from pytest_hierexport._cache.reads import Reads
from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.exporting import module_of
from pytest_hierexport._errors import CollectError, CrashError, ExportError
from pytest_hierexport._pytest.store import ExportStore
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation


class Doubler(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


class Counted:
    """A factory that counts its calls."""

    def __init__(self, make: Callable[[], object] | None = None) -> None:
        self.calls = 0
        self.make = make or (lambda: (Doubler().eval(), (torch.ones(2),)))

    def __call__(self) -> object:
        self.calls += 1
        return self.make()

    def case(self, **options: object) -> Case:
        return Case("doubler", self, "m.py::build", **options)  # type: ignore[arg-type]


def test_all_requests_of_a_run_share_one_export(tmp_path: Path) -> None:
    factory = Counted()
    stores = [ExportStore(tmp_path) for _ in range(2)]
    outcomes = [store.outcome(factory.case()) for store in stores for _ in range(2)]
    assert factory.calls == 1
    assert {outcome.path for outcome in outcomes} == {outcomes[0].path}
    assert outcomes[0].path.exists()
    assert outcomes[0].hierarchy == "/Doubler: Add 1\n"
    assert outcomes[0].coverage["traced"] == 1
    assert outcomes == [outcomes[0]] * 4


def test_export_that_ended_its_process_is_not_retried(tmp_path: Path) -> None:
    factory = Counted(lambda: os._exit(3))
    child = os.fork()
    if child == 0:
        try:
            ExportStore(tmp_path).outcome(factory.case())
        finally:
            os._exit(70)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    error = ExportStore(tmp_path).outcome(factory.case()).error
    assert isinstance(error, CrashError)
    assert error.found == "a process of this run ended, or did not finish, while it exported it"
    assert factory.calls == 0


def test_processes_that_ask_at_once_wait_for_one_export(tmp_path: Path) -> None:
    factory = Counted()
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda _: ExportStore(tmp_path).outcome(factory.case()), range(4)))
    assert factory.calls == 1
    assert all(outcome.error is None for outcome in outcomes)


def test_exporting_process_reuses_the_model_and_others_rebuild_it(tmp_path: Path) -> None:
    factory = Counted()
    first, second = (ExportStore(tmp_path).exported(factory.case()) for _ in range(2))
    assert isinstance(first.example.model, Doubler)
    assert factory.calls == 1
    assert isinstance(second.example.model, Doubler)
    assert factory.calls == 2


def test_other_options_are_another_export(tmp_path: Path) -> None:
    store, factory = ExportStore(tmp_path), Counted()
    assert store.outcome(factory.case()).path != store.outcome(factory.case(opset=20)).path


def test_a_failing_export_is_remembered_with_its_words(tmp_path: Path) -> None:
    def fail() -> object:
        raise ValueError("no such weights")

    factory = Counted(fail)
    for _ in range(2):
        with pytest.raises(CollectError, match="ValueError: no such weights"):
            ExportStore(tmp_path).exported(factory.case())
    assert factory.calls == 1


def test_what_a_model_cannot_do_is_an_error_of_ours(tmp_path: Path) -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.ones(3, 3)

    outcome = ExportStore(tmp_path).outcome(Counted(lambda: (Broken(), (torch.ones(2),))).case())
    assert isinstance(outcome.error, ExportError)
    line = Broken.forward.__code__.co_firstlineno + 1
    assert f"test_exports.py, line {line})" in outcome.error.found
    assert "in forward" in (outcome.folder / "traceback.txt").read_text()


def test_unexpected_error_is_one_too_and_leaves_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("pytest_hierexport._pytest.outcome.export_case", explode)
    outcome = ExportStore(tmp_path).outcome(Counted().case())
    assert isinstance(outcome.error, ExportError)
    assert outcome.error.found == "ZeroDivisionError: a bug"
    assert "in explode" in (outcome.folder / "traceback.txt").read_text()


@contextmanager
def store_with_cache(home: Path, run: str) -> Iterator[ExportStore]:
    """Give the store of a run of its own that shares its cache with the other runs."""
    reads = Reads([home / "cache", home / run])
    reads.start()
    try:
        yield ExportStore(home / run, Cache(home / "cache", reads))
    finally:
        reads.stop()


def test_another_run_exports_again_unless_there_is_a_cache(tmp_path: Path) -> None:
    factory = Counted()
    for run, calls in [("1", 1), ("2", 2)]:
        ExportStore(tmp_path / run).outcome(factory.case())
        assert factory.calls == calls
    for run in ("3", "4"):
        with store_with_cache(tmp_path, run) as store:
            store.outcome(factory.case())
        assert factory.calls == 3


def test_a_failure_does_not_outlast_its_run(tmp_path: Path) -> None:
    factory = Counted(lambda: None)
    for run in ("1", "2"):
        with store_with_cache(tmp_path, run) as store:
            assert store.outcome(factory.case()).error is not None
    assert factory.calls == 2


PROJECT = """
from pathlib import Path
import torch
from sizes_of_lasting import SIZE

class Scaler(torch.nn.Module):
    def forward(self, x):
        return x * SIZE

def build():
    with (Path(__file__).parent / "log.txt").open("a") as log:
        log.write("x")
    length = int((Path(__file__).parent / "length.txt").read_text())
    return Scaler().eval(), (torch.ones(length),)
"""


@pytest.mark.parametrize("changed", ["lasting.py", "sizes_of_lasting.py", "length.txt"])
def test_change_of_an_input_ends_a_cached_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "lasting.py").write_text(PROJECT)
    (project / "sizes_of_lasting.py").write_text("SIZE = 2\n")
    (project / "length.txt").write_text("3")

    def exports(run: str) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "modules", {**sys.modules})
            patch.setattr(sys, "path", [*sys.path])
            (case,) = select(["lasting.py::build"], project)
            with store_with_cache(tmp_path, run) as store:
                assert store.outcome(case).error is None
        return len((project / "log.txt").read_text())

    assert [exports("1"), exports("2")] == [1, 1]
    (project / changed).write_text((project / changed).read_text() + "\n")
    assert [exports("3"), exports("4")] == [2, 2]


class Checked:
    """A rule that counts its checks."""

    def __init__(self) -> None:
        self.calls = 0

    def check(self, exported: ExportedCase) -> list[Violation]:
        self.calls += 1
        return [Violation("here", "a", "b", "c")]

    @property
    def rule(self) -> Rule:
        return Rule("OWN-001", "counts", self.check)


def verdict(store: ExportStore, case: Case, checked: Checked) -> list[Violation]:
    return store.violations(case, checked.rule)


def test_without_a_cache_a_rule_is_checked_in_every_run(tmp_path: Path) -> None:
    checked = Checked()
    for run in ("1", "2"):
        verdict(ExportStore(tmp_path / run), Counted().case(), checked)
    assert checked.calls == 2


def test_code_of_a_partial_check_is_that_of_its_function() -> None:
    assert module_of(json.dumps) == module_of(partial(partial(json.dumps), indent=1)) == "json"


def test_a_verdict_is_found_in_the_cache(tmp_path: Path) -> None:
    factory, checked = Counted(), Checked()
    for run in ("1", "2"):
        with store_with_cache(tmp_path, run) as store:
            assert verdict(store, factory.case(), checked) == [Violation("here", "a", "b", "c")]
    assert checked.calls == 1


def test_change_of_allowances_ends_a_cached_verdict(tmp_path: Path) -> None:
    factory, checked = Counted(), Checked()
    with store_with_cache(tmp_path, "1") as store:
        for allowed in (0, 1):
            verdict(store, factory.case(allow_derived=allowed), checked)
    assert checked.calls == 2
