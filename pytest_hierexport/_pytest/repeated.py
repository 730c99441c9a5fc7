"""Tells a failure that several tests of a model share once: where a model cannot be exported, none of them can run.

    FAILED models.toml::bert::test_snapshot - could not be exported: ...      the first
    1 failed, 10 unchecked                                                    all others

The others are failures for everything else: pytest's exit code, `--maxfail`, `--lf` and the reports.
"""

from __future__ import annotations

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._pytest.messages import CheckFailed
from pytest_hierexport._report.results import without_repeat

_MARK = "hierexport_repeats"
"""The attribute of a report that names the first test; a worker sends it to the controller."""
_CATEGORY = "unchecked"


class RepeatedFailures:
    """The messages that were told, and the hook by which pytest counts the tests that repeat one."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        """The first test that failed with a message, by model and message."""

    def tell_once(self, report: pytest.TestReport, case: Case, error: CheckFailed) -> None:
        """Refer to the first test of a model that failed with the same message; reports keep the whole message."""
        test, message = report.nodeid.rpartition("::")[2], error.msg or ""
        first = self._first.setdefault((case.name, without_repeat(message)), test)
        if first != test:
            title = message.partition("\n")[0]
            report.longrepr = f"{title}\n  see       {first}, which failed with the same message"
            setattr(report, _MARK, first)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """Return the category, the letter and the word of a test that repeats a failure."""
        if report.failed and hasattr(report, _MARK):
            return _CATEGORY, "u", _CATEGORY.upper()
        return None
