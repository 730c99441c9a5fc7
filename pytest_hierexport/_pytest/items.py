"""The test items: a class per case, a test per rule, a snapshot test."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from pytest_hierexport._calls.names import one_line, printable
from pytest_hierexport._errors import HierexportError, NoVerdictError
from pytest_hierexport._pytest.failures import CheckFailed, RuleBroken
from pytest_hierexport._pytest.reads import unrecorded
from pytest_hierexport._pytest.run import Run, failure, failure_of_rule
from pytest_hierexport._pytest.snapshots import check_snapshot

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.store import Entry
    from pytest_hierexport._rules.base import Rule

__all__ = ["RUN", "ModelSuite"]

RUN: pytest.StashKey[Run] = pytest.StashKey()
"""Where a session's configuration keeps its run."""


@pytest.mark.hierexport
class ModelSuite:
    """The tests of one model; its subclasses carry the case."""

    case: ClassVar[Case]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test of every rule of the run."""
        if "must" in metafunc.fixturenames:
            rules = metafunc.config.stash[RUN].rules
            metafunc.parametrize("must", [_parameter(self.case, rule) for rule in rules])

    def test_must(self, must: Rule, request: pytest.FixtureRequest) -> None:
        """The model keeps the rule."""
        run, test = request.config.stash[RUN], f"test_must[{must.id}]"
        self._exported(run, test)
        try:
            violations = run.check(self.case, must)
        except NoVerdictError as error:
            pytest.skip(printable(one_line(error.found)))
        except HierexportError as error:
            raise CheckFailed(failure(run, self.case, test, f"{must.id} could not be checked", error)) from None
        if violations:
            raise RuleBroken(failure_of_rule(run, self.case, must, violations))

    def test_snapshot(self, request: pytest.FixtureRequest) -> None:
        """The model's hierarchy is the one that was committed."""
        run, test = request.config.stash[RUN], "test_snapshot"
        entry = self._exported(run, test)
        try:
            with unrecorded():
                check_snapshot(request, run, self.case, entry.hierarchy)
        except HierexportError as error:
            raise CheckFailed(failure(run, self.case, test, "the snapshot could not be checked", error)) from None

    def _exported(self, run: Run, test: str) -> Entry:
        crash = run.crashes.of(self.case.name)
        if crash is not None:
            ended = crash.error(run.repeat(self.case, crash.test, "-n0"))
            raise CheckFailed(failure(run, self.case, test, "not checked, it ended its process", ended))
        try:
            entry = run.entry(self.case)
        except HierexportError as error:
            raise CheckFailed(failure(run, self.case, test, "could not be exported", error)) from None
        if entry.error is not None:
            raise CheckFailed(failure(run, self.case, test, "could not be exported", entry.error)) from None
        return entry

    # A project may name its test functions as it likes (`python_functions`); these stay tests.
    test_must.__test__ = True  # type: ignore[attr-defined]
    test_snapshot.__test__ = True  # type: ignore[attr-defined]


def _parameter(case: Case, rule: Rule) -> object:
    known = case.known_failure(rule.id)
    marks = []
    if known is not None and not known.expired:
        reason = one_line(f"known failure until {known.until}: {known.reason}")
        marks.append(pytest.mark.xfail(strict=True, raises=RuleBroken, reason=reason))
    return pytest.param(rule, id=rule.id, marks=marks)
