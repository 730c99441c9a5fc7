"""Defines the test items: a class per case, a test per rule, a snapshot test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._errors import CrashError, HangError, HierexportError, NoVerdictError
from pytest_hierexport._pytest.messages import CheckedItem, RuleBroken
from pytest_hierexport._pytest.outcome import ExportOutcome
from pytest_hierexport._pytest.run import RUN, Run
from pytest_hierexport._pytest.snapshots import check_snapshot
from pytest_hierexport._pytest.suite import Suite
from pytest_hierexport._report.results import SNAPSHOT, item_name
from pytest_hierexport._rules.base import Rule
from pytest_hierexport._stages import stage
from pytest_hierexport._text import one_line, printable

_HANG: pytest.StashKey[HangError] = pytest.StashKey()
"""Where an item keeps that the export before it did not finish in time."""


@pytest.mark.hierexport
class ModelSuite(Suite):
    """A test for each rule, and one for the snapshot."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of every rule of the run."""
        if "must" in metafunc.fixturenames:
            rules = metafunc.config.stash[RUN].plan.rules_on(self.case)
            metafunc.parametrize("must", [_parameter(self.case, rule) for rule in rules])

    def test_snapshot(self, request: pytest.FixtureRequest) -> None:
        """The model's hierarchy is the one that was committed."""
        with (
            _exported(self.case, SNAPSHOT, request) as (item, outcome),
            _reported(item, "the snapshot could not be checked"),
            stage("comparing the snapshot"),
        ):
            check_snapshot(request, item, outcome.hierarchy)

    def test_must(self, must: Rule, request: pytest.FixtureRequest) -> None:
        """The model keeps the rule."""
        with (
            _exported(self.case, must.id, request) as (item, _),
            _reported(item, f"{must.id} could not be checked"),
        ):
            violations = item.run.store.violations(self.case, must)
        if violations:
            raise item.broken(must, violations)

    # A project may choose other names for test functions (`python_functions`); these remain tests.
    test_must.__test__ = True  # type: ignore[attr-defined]
    test_snapshot.__test__ = True  # type: ignore[attr-defined]


def export_before(item: pytest.Item, run: Run, case: Case, check: str) -> None:
    """Export the case before its first test runs, as a step with a time of its own: the test's setup.

    An error is reported by every test of the case, when it runs.
    """
    with suppress(HierexportError):
        try:
            with run.limited(case, item_name(check)):
                run.succeeded(case)
        except HangError as error:
            item.stash[_HANG] = error


@contextmanager
def _reported(item: CheckedItem, title: str) -> Iterator[None]:
    """Fail or skip a test whose check could not run."""
    try:
        yield
    except NoVerdictError as error:
        pytest.skip(printable(one_line(error.found)))
    except HierexportError as error:
        shown = f"not checked, it {error.ended}" if isinstance(error, CrashError) else title
        raise item.unchecked(shown, error) from None


@contextmanager
def _exported(case: Case, check: str, request: pytest.FixtureRequest) -> Iterator[tuple[CheckedItem, ExportOutcome]]:
    """Give a test's item and the case's export; fail the test where there is none, or where it takes too long."""
    run = request.config.stash[RUN]
    item = CheckedItem(run, case, request.node.name)
    title = "could not be exported" if case.previous is None else f"the step {case.step} failed"
    try:
        if _HANG in request.node.stash:
            raise request.node.stash[_HANG]
        with run.limited(case, item_name(check)):
            with _reported(item, title):
                outcome = run.succeeded(case)
            yield item, outcome
    except HangError as error:
        raise item.unchecked(error.ended, error) from None


def _parameter(case: Case, rule: Rule) -> object:
    known = case.known_failure(rule.id)
    marks = []
    if known is not None and not known.expired:
        reason = one_line(f"known failure until {known.until}: {known.reason}")
        marks.append(pytest.mark.xfail(strict=True, raises=RuleBroken, reason=reason))
    return pytest.param(rule, id=rule.id, marks=marks)
