"""Ends a run: updates the lists of snapshots, writes the reports, prints the table and the warnings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._files.ownership import LIST
from pytest_hierexport._pytest.messages import update_command
from pytest_hierexport._pytest.orphans import Orphans, find_orphans, is_complete, removes_orphans, update_lists
from pytest_hierexport._pytest.outputs import write_output
from pytest_hierexport._pytest.recording import relative
from pytest_hierexport._report.results import SNAPSHOT, Results, Status, first_names, warnings_of
from pytest_hierexport._text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from pytest_hierexport._pytest.recording import Recording

__all__ = ["Summary"]


@dataclass
class Summary:
    """The end of a run, in the process that reports."""

    recording: Recording
    warnings: list[str] = field(default_factory=list)
    """Failures of the run outside its checks, such as a report that was not written."""
    orphans: Orphans = field(default_factory=Orphans)
    """The snapshots of models that are gone and were not removed."""
    removed: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)

    @property
    def fails(self) -> bool:
        """Whether the run fails for orphans although every check passed."""
        return bool(self.orphans.files) and self.recording.run.plan.settings.require_snapshots

    def finish(self) -> None:
        """Settle the snapshots and write the reports; do nothing where no check ran."""
        results = self.recording.results()
        if not results.began:
            return
        self._settle_snapshots(results)
        from pytest_hierexport._report import as_html, as_json, as_markdown

        results = self.recording.results(self.orphans.files)
        settings = self.recording.run.plan.settings
        for path in settings.reports:
            self._write(path, as_html(results) if path.suffix == ".html" else as_json(results))
        if settings.summary is not None:
            self._write(settings.summary, as_markdown(results))

    def _settle_snapshots(self, results: Results) -> None:
        plan = self.recording.run.plan
        complete = is_complete(plan, results)
        removes = complete and removes_orphans(plan, results)
        try:
            self.removed = update_lists(plan, results, remove=removes)
            self.orphans = find_orphans(plan) if complete else Orphans()
        except OSError as error:
            self.warnings.append(f"the list of snapshots was not written: {error}")

    def _write(self, path: Path, text: str) -> None:
        try:
            write_output(path, text)
        except OSError as error:
            self.warnings.append(f"{path} was not written: {error.strerror or error}")
        else:
            self.written.append(path)

    def print(self, reporter: pytest.TerminalReporter) -> None:
        """Print the table, the warnings, and the annotations of a pull request."""
        results = self.recording.results(self.orphans.files)
        if not results.began:
            return
        reporter.write_sep("=", "hierexport")
        for line, markup in self._lines(results):
            reporter.write_line(one_line(line), **markup)

    def _lines(self, results: Results) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each line with its markup."""
        from pytest_hierexport._report import as_lines, error_commands

        for line in as_lines(results):
            yield line, {}
        for line in warnings_of(results):
            yield line, {"red": True, "bold": True}
        for line in self._orphans_to_do():
            yield f"  to do  {line}", {"red": self.fails}
        for line in sorted(_skipped_snapshots(results)):
            yield line, {}
        if self.removed:
            yield f"removed snapshots of models that are no longer selected: {', '.join(self.removed)}", {}
        for path in self.written:
            yield f"written: {path}", {}
        for warning in self.warnings:
            yield f"warning: {warning}", {"yellow": True}
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in error_commands(results):
                yield line, {}

    def _orphans_to_do(self) -> Iterator[str]:
        plan = self.recording.run.plan
        if self.orphans.listed:
            yield f"where they are gone for good, remove their snapshots: {update_command(plan)}"
        if self.orphans.unlisted:
            names = first_names([relative(file, plan.config.rootpath) for file in self.orphans.unlisted])
            yield (
                f"an update keeps {names}, because {LIST} does not name the selection: delete what no configuration "
                "selects, and update the rest with the configuration that selects it"
            )


def _skipped_snapshots(results: Results) -> set[str]:
    """Return the reasons why snapshots were skipped."""
    checks = (model.checks.get(SNAPSHOT) for model in results.models)
    return {check.message for check in checks if check is not None and check.status is Status.SKIPPED}
