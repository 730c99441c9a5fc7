"""Defines the test items: a class per case, a test per rule, a snapshot test."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from pytest_hierexport._errors import HierexportError, NoVerdictError
from pytest_hierexport._pytest.failures import CheckFailed, RuleBroken
from pytest_hierexport._pytest.messages import crash_error, error_message, rule_message
from pytest_hierexport._pytest.reads import unrecorded
from pytest_hierexport._pytest.run import RUN, Run
from pytest_hierexport._pytest.snapshots import check_snapshot
from pytest_hierexport._text import one_line, printable

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.outcome import ExportOutcome
    from pytest_hierexport._rules.base import Rule

__all__ = ["ModelSuite"]


@pytest.mark.hierexport
class ModelSuite:
    """The tests of one model; its subclasses carry the case."""

    case: ClassVar[Case]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of every rule of the run."""
        if "must" in metafunc.fixturenames:
            rules = metafunc.config.stash[RUN].plan.rules
            metafunc.parametrize("must", [_parameter(self.case, rule) for rule in rules])

    def test_must(self, must: Rule, request: pytest.FixtureRequest) -> None:
        """The model keeps the rule."""
        run, test = request.config.stash[RUN], f"test_must[{must.id}]"
        self._exported(run, test)
        try:
            violations = run.store.violations(self.case, must)
        except NoVerdictError as error:
            pytest.skip(printable(one_line(error.found)))
        except HierexportError as error:
            raise CheckFailed(error_message(run, self.case, test, f"{must.id} could not be checked", error)) from None
        if violations:
            raise RuleBroken(rule_message(run, self.case, must, violations))

    def test_snapshot(self, request: pytest.FixtureRequest) -> None:
        """The model's hierarchy is the one that was committed."""
        run, test = request.config.stash[RUN], "test_snapshot"
        outcome = self._exported(run, test)
        try:
            with unrecorded():
                check_snapshot(request, run, self.case, outcome.hierarchy)
        except HierexportError as error:
            raise CheckFailed(error_message(run, self.case, test, "the snapshot could not be checked", error)) from None

    def _exported(self, run: Run, test: str) -> ExportOutcome:
        crash = run.crashes.of(self.case.name)
        if crash is not None:
            error = crash_error(run, self.case, crash)
            raise CheckFailed(error_message(run, self.case, test, "not checked, it ended its process", error))
        try:
            outcome = run.store.outcome(self.case)
        except HierexportError as error:
            raise CheckFailed(error_message(run, self.case, test, "could not be exported", error)) from None
        if outcome.error is not None:
            raise CheckFailed(error_message(run, self.case, test, "could not be exported", outcome.error)) from None
        return outcome

    # A project may choose other names for test functions (`python_functions`); these remain tests.
    test_must.__test__ = True  # type: ignore[attr-defined]
    test_snapshot.__test__ = True  # type: ignore[attr-defined]


def _parameter(case: Case, rule: Rule) -> object:
    known = case.known_failure(rule.id)
    marks = []
    if known is not None and not known.expired:
        reason = one_line(f"known failure until {known.until}: {known.reason}")
        marks.append(pytest.mark.xfail(strict=True, raises=RuleBroken, reason=reason))
    return pytest.param(rule, id=rule.id, marks=marks)
