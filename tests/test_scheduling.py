"""The scheduler, with workers that do what a test tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_hierexport._pytest.scheduling import ByModel, ByScope, scheduler
from pytest_hierexport._report.results import SNAPSHOT, item_name

MODEL = [f"models.toml::one::{item_name(check)}" for check in (SNAPSHOT, "MUST-001", "OWN[2]")]
OWN = ["test_own.py::test_a", "test_own.py::test_b"]


class Worker:
    """Takes orders; a dead one takes none."""

    def __init__(self, name: str) -> None:
        self.gateway = type("Gateway", (), {"id": name})
        self.orders: list[int] = []
        self.shutting_down = False
        self.dead = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        if self.dead:
            raise OSError("cannot send (already closed?)")
        self.orders += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def configuration(real: pytest.Config, workers: int, dist: str = "load") -> Any:
    """Return what xdist asks a configuration for."""
    config: Any = type("Config", (), {"option": real.option, "hook": real.hook})
    config.getvalue, config.getoption = {"tx": ["popen"] * workers}.get, {"dist": dist}.get
    return config


class Session:
    """A scheduler with its workers; all collect the same tests."""

    def __init__(self, pytestconfig: pytest.Config, tests: list[str], workers: int) -> None:
        self.tests = tests
        self.scheduler = ByModel(configuration(pytestconfig, workers))
        self.workers = [self.started(f"gw{i}") for i in range(workers)]
        for worker in self.workers:
            self.collect(worker)

    def started(self, name: str) -> Worker:
        worker = Worker(name)
        self.scheduler.add_node(worker)
        return worker

    def collect(self, worker: Worker) -> None:
        self.scheduler.add_node_collection(worker, self.tests)
        if self.scheduler.collection_is_completed:
            self.scheduler.schedule()

    def complete(self, worker: Worker, *tests: str) -> None:
        for test in tests:
            self.scheduler.mark_test_complete(worker, self.tests.index(test))

    def ordered(self, worker: Worker) -> list[str]:
        return [self.tests[index] for index in worker.orders]


@pytest.fixture
def session(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Session:
    tests, workers = request.param
    return Session(pytestconfig, tests, workers)


@pytest.mark.parametrize("session", [(MODEL + OWN, 1)], indirect=True)
def test_a_replacement_gets_neither_what_was_finished_nor_what_killed(session: Session) -> None:
    (worker,) = session.workers
    session.complete(worker, MODEL[0])
    assert session.scheduler.remove_node(worker) == MODEL[1]
    replacement = session.started("gw1")
    session.collect(replacement)
    assert set(session.ordered(replacement)) <= {MODEL[2], *OWN}
    session.complete(replacement, *session.ordered(replacement))
    session.complete(replacement, *session.ordered(replacement)[2:])
    assert sorted(session.ordered(replacement)) == sorted([MODEL[2], *OWN])
    assert session.scheduler.tests_finished


@pytest.mark.parametrize("session", [(OWN, 1)], indirect=True)
def test_replacement_worker_with_one_test_gets_an_end(session: Session) -> None:
    (worker,) = session.workers
    assert session.scheduler.remove_node(worker) == OWN[0]
    replacement = session.started("gw1")
    session.collect(replacement)
    assert session.ordered(replacement) == [OWN[1]]
    assert replacement.shutting_down


@pytest.mark.parametrize("session", [(MODEL + OWN, 2)], indirect=True)
def test_all_tests_of_a_model_go_to_one_worker(session: Session) -> None:
    first, second = session.workers
    assert session.ordered(first) == MODEL
    assert session.ordered(second) == OWN


@pytest.mark.parametrize("session", [(MODEL + OWN, 2)], indirect=True)
def test_a_replacement_that_is_still_collecting_gets_nothing(session: Session) -> None:
    first, second = session.workers
    session.scheduler.remove_node(first)
    replacement = session.started("gw2")
    session.complete(second, *session.ordered(second))
    assert session.ordered(replacement) == []
    session.scheduler.schedule()
    assert session.ordered(replacement) == []


@pytest.mark.parametrize("session", [([*MODEL, *OWN, "test_own.py::test_c", "test_own.py::test_d"], 1)], indirect=True)
def test_worker_death_during_assignment_loses_no_test(session: Session) -> None:
    (worker,) = session.workers
    worker.dead = True
    session.complete(worker, *MODEL)
    crashed = session.scheduler.remove_node(worker)
    replacement = session.started("gw1")
    session.collect(replacement)
    session.complete(replacement, *session.ordered(replacement)[:1])
    assert sorted([*session.ordered(replacement), str(crashed)]) == session.tests[3:]


@pytest.mark.parametrize("session", [(OWN, 1)], indirect=True)
def test_a_replacement_that_collects_other_tests_ends_the_run(session: Session) -> None:
    session.scheduler.remove_node(session.workers[0])
    replacement = session.started("gw1")
    with pytest.raises(pytest.exit.Exception, match="worker gw1 replaces one that died and collected other tests"):
        session.scheduler.add_node_collection(replacement, [*OWN, "test_own.py::test_new"])


@pytest.mark.parametrize("session", [(OWN, 1)], indirect=True)
def test_a_worker_that_finished_all_died_of_nothing(session: Session) -> None:
    (worker,) = session.workers
    session.complete(worker, *OWN)
    assert session.scheduler.remove_node(worker) is None
    assert not session.scheduler.has_pending


def test_worker_dead_before_collection_no_longer_counts(pytestconfig: pytest.Config) -> None:
    scheduler = ByModel(configuration(pytestconfig, 2))
    first, second, replacement = Worker("gw0"), Worker("gw1"), Worker("gw2")
    for worker in (first, second):
        scheduler.add_node(worker)
    scheduler.add_node_collection(first, OWN)
    assert scheduler.remove_node(first) is None
    scheduler.add_node(replacement)
    scheduler.add_node_collection(second, OWN)
    assert not scheduler.collection_is_completed


@pytest.mark.parametrize("dist", ["load", "loadscope", "loadfile", "loadgroup"])
def test_every_way_by_scope_survives(dist: str, pytestconfig: pytest.Config) -> None:
    assert isinstance(scheduler(configuration(pytestconfig, 1, dist), None), ByScope)


def test_other_ways_are_xdist_s_own(pytestconfig: pytest.Config) -> None:
    assert scheduler(configuration(pytestconfig, 1, "worksteal"), None) is None
