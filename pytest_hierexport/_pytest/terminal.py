"""Composes what the terminal shows at the end of a run: the table, what to do about snapshots, warnings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pytest_hierexport._files.ownership import LIST
from pytest_hierexport._files.paths import relative
from pytest_hierexport._pytest.commands import update_command
from pytest_hierexport._pytest.options import is_updating
from pytest_hierexport._pytest.summary import Summary
from pytest_hierexport._report import as_lines, error_commands
from pytest_hierexport._report.results import SNAPSHOT, Results, Status, slowest_stages, warnings_of
from pytest_hierexport._text import first_names, one_line

if TYPE_CHECKING:
    import pytest


def print_summary(summary: Summary, reporter: pytest.TerminalReporter) -> None:
    """Print the table, the warnings, and the annotations of a pull request."""
    if not summary.checks and not summary.interrupted:
        return
    reporter.write_sep("=", "hierexport")
    for lines, markup in _sections(summary, summary.results().without_deselected(summary.collected)):
        for line in lines:
            reporter.write_line(one_line(line), **markup)


def _sections(summary: Summary, results: Results) -> Iterator[tuple[Iterable[str], dict[str, bool]]]:
    """Yield lines with their markup."""
    orphans = summary.orphans
    yield as_lines(results), {}
    yield warnings_of(results), {"red": True, "bold": True}
    yield (f"  to do  {line}" for line in _orphans_to_do(summary, results)), {"red": summary.fails}
    snapshots = (model.checks.get(SNAPSHOT) for model in results.models if not model.skip_reason)
    yield sorted({check.message for check in snapshots if check and check.status is Status.SKIPPED}), {}
    yield _slowest(summary, results), {}
    if orphans.removed:
        yield [f"removed snapshots of models that are no longer selected: {', '.join(orphans.removed)}"], {}
    yield (f"written: {path}" for path in summary.written), {}
    yield (*_expired(summary), *(f"warning: {warning}" for warning in summary.warnings)), {"yellow": True}
    if os.environ.get("GITHUB_ACTIONS") == "true":
        yield error_commands(results), {}


def _expired(summary: Summary) -> Iterator[str]:
    """Yield a line per known failure that has expired although its rule holds."""
    for case in summary.run.plan.cases:
        for known in case.known_failures:
            check = summary.checks.get(case.name, {}).get(known.rule)
            if known.expired and check is not None and check.status is Status.PASSED:
                yield (
                    f"{case.name}: the known failure of {known.rule} expired on {known.until}, and the rule "
                    f"holds: remove it from {summary.run.plan.stated_in(case)}"
                )


def _slowest(summary: Summary, results: Results) -> list[str]:
    """Return the slowest stages, where pytest's `--durations` asks for the slowest tests."""
    option = summary.run.plan.config.option
    if option.durations is None:
        return []
    least = option.durations_min if option.durations_min is not None else 0.005
    lines = slowest_stages(results, option.durations, 0.0 if option.verbose >= 2 else least)
    return ["slowest stages of models:", *lines] if lines else []


def _orphans_to_do(summary: Summary, results: Results) -> Iterator[str]:
    plan, orphans = summary.run.plan, summary.orphans
    if orphans.listed:
        # An update writes the snapshots that another run found changed.
        remains = any(check != SNAPSHOT or is_updating(plan.config) for _, check, _ in results.failures())
        once = ", once no other check fails" if remains else ""
        yield f"where they are gone for good, remove their snapshots{once}: {update_command(plan)}"
    if orphans.unlisted:
        names = first_names([relative(file, plan.config.rootpath) for file in orphans.unlisted])
        yield (
            f"an update keeps {names}, because {LIST} does not name the selection: delete what no configuration "
            "selects, and update the rest with the configuration that selects it"
        )
