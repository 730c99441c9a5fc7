"""A run: the selected cases, the rules, the exports, and where everything hangs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.names import one_line
from pytest_hierexport._cases import Case, select
from pytest_hierexport._errors import HierexportError, UsageError, nearest, raise_if_disk_full
from pytest_hierexport._files.ownership import make_folder, replace_files
from pytest_hierexport._pytest.crashes import Crashes
from pytest_hierexport._pytest.ids import escape, file_name
from pytest_hierexport._pytest.settings import Settings, arguments_of
from pytest_hierexport._pytest.store import ExportStore
from pytest_hierexport._report.results import SNAPSHOT
from pytest_hierexport._rules.messages import aligned, broken

if TYPE_CHECKING:
    import pytest

    from pytest_hierexport._cases.case import KnownFailure
    from pytest_hierexport._pytest.store import Entry
    from pytest_hierexport._rules.base import Rule, Violation

__all__ = ["KEPT", "Run", "failure", "failure_of_rule", "known_failure_over", "selected_cases"]

KEPT = ".hierexport"
"""The folder in the root directory where a failing item's files are kept."""


def selected_cases(settings: Settings) -> list[Case]:
    """Return the selected cases with the options applied: the command line, then the manifest, then the ini.

    Raises:
        HierexportError: A selector stands for nothing.
    """
    return [
        replace(
            case,
            exporter=settings.exporter or (case.exporter if case.exporter != "auto" else settings.default_exporter),
            opset=settings.opset or case.opset or settings.default_opset,
            strict=settings.strict or (settings.default_strict if case.strict is None else case.strict),
        )
        for case in select(settings.selectors, settings.base)
    ]


@dataclass(frozen=True)
class Run:
    """What a session does about models."""

    config: pytest.Config
    settings: Settings
    cases: tuple[Case, ...]
    scratch: Path
    """A folder of the run's own, outside the project, which every process of the run is given."""
    store: ExportStore

    @cached_property
    def anchors(self) -> dict[Path, tuple[Case, ...]]:
        """The cases by the path that their items hang on, in the order of the selectors."""
        anchors: dict[Path, list[Case]] = {}
        for case in self.cases:
            anchors.setdefault(self.anchor(case), []).append(case)
        return {anchor: tuple(cases) for anchor, cases in anchors.items()}

    @cached_property
    def crashes(self) -> Crashes:
        """The models that ended a process of this run."""
        return Crashes(self.scratch / "crashes")

    @property
    def relay(self) -> Path:
        """The file that stands for the root directory among pytest's arguments where that is an anchor."""
        return self.scratch / "models"

    def anchor(self, case: Case) -> Path:
        """Return the manifest, else the configuration file, else the factory's file, else the root directory.

        What lies outside the root directory cannot be an anchor: pytest would give its items ids without a path.
        """
        root = self.config.rootpath
        candidates = (case.manifest, self.config.inipath, case.anchor)
        return next((path for path in candidates if path is not None and path.is_relative_to(root)), root)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the run, the project's own after the built-in ones.

        Raises:
            UsageError: A rule that was asked for, or is known to fail, does not exist, or two share an id.
        """
        from pytest_hierexport._rules import registry

        own = [rule for rules in self.config.hook.pytest_hierexport_rules(config=self.config) for rule in _rules(rules)]
        self._check_known_failures([rule.id for rule in registry.rules(None, own)])
        return tuple(registry.rules(self.settings.rules, own))

    def _check_known_failures(self, rules: Sequence[str]) -> None:
        """See that no known failure is of a rule that there is not: it would excuse nothing, in silence."""
        for case in self.cases:
            for known in case.known_failures:
                if known.rule not in rules:
                    raise UsageError(
                        f"the id of a rule at models.{case.name}.known_failures in {case.manifest}",
                        found=repr(known.rule),
                        do=f"choose from {nearest(known.rule, rules)}",
                    )

    def check(self, case: Case, rule: Rule) -> list[Violation]:
        """Return where a case breaks a rule.

        Raises:
            HierexportError: The case could not be exported, the rule returns something else, or there is no room for
                what it writes.
        """
        try:
            return self.store.verdict(case, rule, lambda: rule.violations(self.store.exported(case)))
        except OSError as error:
            raise_if_disk_full(error)
            raise

    def entry(self, case: Case) -> Entry:
        """Return what became of a case's export.

        Raises:
            DiskFullError: There is no room for it.
        """
        try:
            return self.store.entry(case)
        except OSError as error:
            raise_if_disk_full(error)
            raise

    def node_id(self, case: Case, test: str) -> str:
        """Return the id of an item as pytest writes it."""
        anchor = os.path.relpath(self.anchor(case), self.config.rootpath)
        return f"{Path(anchor).as_posix()}::{escape(case.name)}::{test}"

    def check_of(self, node_id: str) -> tuple[Case, str, str] | None:
        """Return the case, the test and the check that an id stands for; None where it is no item of this run."""
        tests = {"test_snapshot": SNAPSHOT, **{f"test_must[{rule.id}]": rule.id for rule in self.rules}}
        found = ((case, test, check) for case in self.cases for test, check in tests.items())
        return next((each for each in found if self.node_id(each[0], each[1]) == node_id), None)

    def repeat(self, case: Case, test: str, *more: str) -> str:
        """Return the command that runs one item again, from the folder that pytest was started in.

        Args:
            case: The item's model.
            test: The item's name.
            more: Further options.
        """
        anchor = os.path.relpath(self.anchor(case), self.config.invocation_params.dir)
        item = f"{Path(anchor).as_posix()}::{escape(case.name)}::{test}"
        return shlex.join(["pytest", *more, *self.options(case.source), item])

    def options(self, *sources: str) -> list[str]:
        """Return the options that make the same run of these selectors, of all where none is given."""
        file, root = self.config.getoption("inifilename"), self.config.getoption("rootdir")
        told = [*(["-c", str(file)] if file else []), *([f"--rootdir={root}"] if root else [])]
        return [*told, *arguments_of(self.settings, sources or self.settings.selectors)]

    def keep(self, case: Case) -> str:
        """Keep a failing case's files in the root directory and say where, or why not."""
        from filelock import FileLock

        entry = self.store.known(case)
        home = self.config.rootpath / KEPT
        folder = home / file_name(case.name)
        files = [] if entry is None else [path for path in sorted(entry.folder.glob("*")) if _is_kept(path)]
        if entry is None or not files:
            return "nothing: the model was not exported"
        try:
            with FileLock(self.store.folder / f"{entry.folder.name}.keep.lock"):
                if _stamps(files) != _stamps(folder / path.name for path in files):
                    make_folder(home)
                    make_folder(folder)
                    replace_files(folder, files, case.name)
        except OSError as error:
            return f"nothing (not copied: {error})"
        shown = os.path.relpath(folder, self.config.invocation_params.dir)
        return ", ".join(f"{shown}/{path.name}" for path in files)

    def title(self) -> str:
        """Return the line that pytest prints at the start of the run."""
        names = ", ".join(case.name for case in self.cases[:8])
        more = f" and {len(self.cases) - 8} more" if len(self.cases) > 8 else ""
        return one_line(f"hierexport: {names}{more}")


def _rules(returned: object) -> list[Rule]:
    """Return what an implementation of the hook gives.

    Raises:
        UsageError: It is no list of rules.
    """
    from pytest_hierexport._rules.base import Rule

    rules = returned if isinstance(returned, (list, tuple)) else [returned]
    wrong = [rule for rule in rules if not isinstance(rule, Rule)]
    if not wrong and rules is returned:
        return list(rules)
    raise UsageError(
        "pytest_hierexport_rules to return a list of Rule",
        found=f"{(wrong or rules)[0]!r}" + ("" if wrong else ", not in a list"),
        do='return [Rule("TEAM-1", "what holds", check)]',
    )


def _is_kept(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and not path.name.endswith(("export.json", ".verdict.json"))


def _stamps(files: Iterable[Path]) -> list[tuple[int, int]]:
    """Return the size and time of each file: several items of a model fail over the same files."""
    return [(status.st_size, status.st_mtime_ns) for path in files if path.is_file() and (status := path.stat())]


def failure(run: Run, case: Case, test: str, what: str, error: HierexportError) -> str:
    """Return what a failing item shows where an error of ours kept it from its check."""
    stated = [("expected", error.expected), ("found", error.found), ("to do", error.do)]
    parts = [(label, one_line(text)) for label, text in stated]
    parts += [("kept", run.keep(case)), ("repeat", run.repeat(case, test))]
    return "\n".join([one_line(f"{case.name}: {what}"), *aligned(parts)])


def known_failure_over(run: Run, case: Case, known: KnownFailure) -> str:
    """Return what a failing item shows where a rule holds that is known to fail."""
    parts = [
        ("expected", f"{known.rule} to fail, as is known until {known.until}: {known.reason}"),
        ("found", "it holds"),
        ("to do", f"remove the known failure from {case.manifest}"),
        ("repeat", run.repeat(case, f"test_must[{known.rule}]")),
    ]
    return "\n".join([one_line(f"{case.name}: the known failure of {known.rule} is over"), *aligned(parts)])


def failure_of_rule(run: Run, case: Case, rule: Rule, violations: Sequence[Violation]) -> str:
    """Return what a failing item shows where a rule is broken."""
    lines = [broken(rule, case.name, violations), ""]
    known = case.known_failure(rule.id)
    if known is not None and known.expired:
        lines.append(f"  the known failure ({known.reason}) expired on {known.until}")
    test = f"test_must[{rule.id}]"
    return "\n".join([*lines, *aligned([("kept", run.keep(case)), ("repeat", run.repeat(case, test))])])
