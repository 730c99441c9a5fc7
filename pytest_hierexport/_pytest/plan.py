"""Plans a run: from the options to the selected cases, the path that each case's items belong to, and the rules."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.case import Step
from pytest_hierexport._cases.factories import line_of
from pytest_hierexport._cases.in_code import check_case
from pytest_hierexport._cases.manifest import line_of_model
from pytest_hierexport._cases.steps import exported_case, with_deployed
from pytest_hierexport._errors import UsageError, proposals
from pytest_hierexport._files.paths import relative
from pytest_hierexport._files.unrecorded import unrecorded
from pytest_hierexport._pytest.ids import snapshot_file
from pytest_hierexport._pytest.options import TIMEOUT, Settings
from pytest_hierexport._pytest.shards import in_shard, read_durations
from pytest_hierexport._report.results import SNAPSHOT, item_name
from pytest_hierexport._requests import check_fields
from pytest_hierexport._rules import registry
from pytest_hierexport._rules.base import NEEDS, Rule
from pytest_hierexport._text import escape

if TYPE_CHECKING:
    import pytest


def selected_cases(settings: Settings, own: Mapping[str, Case] | None = None) -> tuple[Case, ...]:
    """Return the selected cases with the options applied: the command line, then the manifest, then the ini.

    A case is followed by those of the results of its steps. The cases that the project defines in code, `own`, are
    selected where the command line selects no models, else by their names. The result is empty where neither the
    options nor the project's code name a model.

    Raises:
        HierexportError: A selector matches nothing.
    """
    defined = own or {}
    added = defined if settings.given.models is None else ()
    if not defined and settings.given.models is settings.stated.models is None:
        return ()
    cases = select([*settings.selectors, *added], settings.base, defined, settings.manifests)
    return tuple(deployed for case in cases for deployed in with_deployed(_with_options(case, settings)))


def _with_options(case: Case, settings: Settings) -> Case:
    given, stated = settings.given, settings.stated
    has_exporter = "exporter" in case.stated or case.exporter != "auto"
    has_steps = "after" in case.stated or bool(case.after)
    return replace(
        case,
        exporter=given.exporter or (case.exporter if has_exporter else stated.exporter or "auto"),
        opset=given.opset or case.opset or stated.opset,
        details=bool(given.details or (stated.details if case.details is None else case.details)),
        strict=bool(given.strict or (stated.strict if case.strict is None else case.strict)),
        after=tuple(map(Step, given.after or (None if has_steps else stated.after) or ())) or case.after,
        timeout=next(limit for limit in (given.timeout, case.timeout, stated.timeout, TIMEOUT) if limit is not None),
    )


def planned(config: pytest.Config, settings: Settings, relay: Path) -> Plan:
    """Plan a run by its options.

    Raises:
        HierexportError: A selector matches nothing, or an option's value makes no sense.
    """
    own = _own_cases(config)
    with unrecorded():
        # What a manifest states is in its cases; the source of a factory counts when it is imported.
        cases = selected_cases(settings, own)
    plan = Plan(config, settings, cases, cases, relay, frozenset(own))
    shard = settings.chosen.shard
    return plan if shard is None else replace(plan, cases=in_shard(cases, shard, plan.durations()))


@dataclass(frozen=True)
class Plan:
    """The models of a session and the rules on them."""

    config: pytest.Config
    settings: Settings
    cases: tuple[Case, ...]
    """Those of this shard, where there are several."""
    selected: tuple[Case, ...]
    """All cases, those of other shards included."""
    relay: Path
    """A file outside the project: pytest's argument for the anchors that it would not collect by their own path."""
    in_code: frozenset[str]
    """The names of the cases that the project defines in code."""

    @cached_property
    def anchors(self) -> dict[Path, tuple[Case, ...]]:
        """The cases by their anchor, the path that their items' ids begin with, in the order of the selectors.

        All cases of an anchor may be in other shards.
        """
        anchors: dict[Path, tuple[Case, ...]] = {self.anchor(case): () for case in self.selected}
        for case in self.cases:
            anchors[self.anchor(case)] += (case,)
        return anchors

    def conftests(self, *hooks: str) -> list[Path]:
        """Return the conftests that have these hooks; pytest loads those that the paths on its command line need."""
        found = [each for hook in hooks for each in getattr(self.config.hook, hook).get_hookimpls()]
        paths = {Path(getattr(each.plugin, "__file__", None) or "") for each in found}
        return sorted(path for path in paths if path.name == "conftest.py")

    def durations(self) -> dict[str, float]:
        """Return the seconds that the tests of each case took, of the cases in the file of durations."""
        recorded = read_durations(self.settings.durations)
        found: dict[str, float] = {}
        for case in self.cases:
            start = self.item_id(case, "")
            seconds = [duration for item, duration in recorded.items() if item.startswith(start)]
            if seconds:
                found[case.name] = sum(seconds)
        return found

    def anchor(self, case: Case) -> Path:
        """Return the manifest, else the configuration file, else the factory's file, else the root directory."""
        root = self.config.rootpath
        candidates = (case.manifest, self.config.inipath, case.anchor)
        # The ids of a file outside the root directory would have no path.
        return next((path for path in candidates if path is not None and path.is_relative_to(root)), root)

    @unrecorded()
    def place(self, case: Case) -> tuple[Path, int]:
        """Return the file and line where a case is stated: its factory or its table in a manifest, else the anchor.

        A case that no file of the project states has the root directory.
        """
        root, anchor = self.config.rootpath, self.anchor(case)
        file = case.anchor if case.anchor is not None and case.anchor.is_relative_to(root) else anchor
        return (file, _line(case, file)) if file.is_file() else (root, 1)

    def snapshot(self, case: Case) -> Path:
        """Return the snapshot of a case: beside its manifest, be that outside the root directory, else its anchor."""
        return snapshot_file(case.manifest or self.anchor(case), case.name)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the run, the project's own after the built-in ones.

        Raises:
            UsageError: A rule that was asked for, or is known to fail, does not exist, or two share an id.
        """
        hook = self.config.hook.pytest_hierexport_rules
        own = [rule for returned in hook(config=self.config) for rule in _checked(returned, Rule, _RULES)]
        for rule in own:
            _check_rule(rule)
        self._check_known_failures(registry.rules(None, own))
        return tuple(registry.rules(self.settings.chosen.rules, own))

    def applicable(self, case: Case) -> tuple[Rule, ...]:
        """Return the rules that can be checked on a case: on the result of a step, those that hold for one."""
        return tuple(rule for rule in self.rules if _can_check(rule, case))

    def rules_on(self, case: Case) -> tuple[Rule, ...]:
        """Return the rules that are checked on a case, the cheap ones first."""
        ordered = sorted(self.applicable(case), key=lambda rule: NEEDS.index(rule.needs))
        return tuple(rule for rule in ordered if rule.needs == "file" or not self.settings.chosen.fast)

    def limit(self, case: Case) -> float:
        """Return the seconds that a test of a case may take; infinite in a session that may stop in a debugger."""
        debugs = any(self.config.getoption(name, default=False) for name in ("usepdb", "trace"))
        seconds = math.inf if debugs else case.timeout or math.inf
        return seconds if seconds < _LONGEST else math.inf

    def _check_known_failures(self, known_rules: Sequence[Rule]) -> None:
        """Check that each known failure names a rule of the case: else it would excuse nothing, unnoticed."""
        unknown: dict[str, tuple[str, list[str]]] = {}
        for case in self.cases:
            rules = [rule.id for rule in known_rules if _can_check(rule, case)]
            for i, known in enumerate(case.known_failures):
                if known.rule not in rules:
                    unknown[f"{_place(case)}.known_failures.{i}.rule in {self.stated_in(case)}"] = known.rule, rules
        if unknown:
            raise UsageError(
                "ids of rules in the known failures",
                found=", ".join(f"{rule!r} at {place}" for place, (rule, _) in unknown.items()),
                do=proposals(unknown.values()),
            )

    @staticmethod
    def stated_in(case: Case) -> str:
        """Return the place that states the options of a case, as messages name it."""
        return str(case.manifest or _MODELS[0])

    def item_id(self, case: Case, test: str, start: Path | None = None) -> str:
        """Return the id of an item, its path relative to a folder: the root directory, as in pytest's own ids."""
        anchor = relative(self.anchor(case), start or self.config.rootpath)
        return f"{anchor}::{escape(case.name)}::{test}"

    def shown(self, path: Path) -> str:
        """Return a path as messages show it: from the folder that pytest was started in."""
        return relative(path, self.settings.here)

    @cached_property
    def checks(self) -> dict[str, tuple[Case, str, str]]:
        """By the id of each item of this run, its case, test and check."""
        checks = (SNAPSHOT, *(rule.id for rule in self.rules))
        found = ((case, item_name(check), check) for case in self.cases for check in checks)
        return {self.item_id(case, test): (case, test, check) for case, test, check in found}


def _line(case: Case, file: Path) -> int:
    """Return the line of a case's factory or of its table in a manifest, 1 where the file states neither."""
    if file.suffix == ".py":
        return line_of(file, case.source.rpartition(":")[2])
    if file != case.manifest:
        return 1
    exported = exported_case(case)
    # The selector may give it another name: `other=models.toml::name`.
    return line_of_model(file, exported.source.partition(".toml::")[2] or exported.name)


def _can_check(rule: Rule, case: Case) -> bool:
    return rule.deployed or case.previous is None


def _place(case: Case) -> str:
    """Return the table of a manifest that states a case: a model's, or that of a step below it."""
    steps = 0
    while case.previous is not None:
        case, steps = case.previous, steps + 1
    return f"models.{case.name}" + (f".after.{steps - 1}" if steps else "")


def _own_cases(config: pytest.Config) -> dict[str, Case]:
    """Return the cases that the project defines in code, by name.

    Raises:
        UsageError: The hook returned something else, or two cases of one name.
    """
    hook, cases = config.hook.pytest_hierexport_models, {}
    for case in (case for returned in hook(config=config) for case in _checked(returned, Case, _MODELS)):
        check_case(case, config.rootpath)
        if not case.name:
            raise UsageError(
                "a name for each case of pytest_hierexport_models",
                found=f"an empty one, for {case.factory!r}",
                do=f"name it: {_MODELS[1]}",
            )
        if case.name in cases:
            raise UsageError(
                "a different name for each case of pytest_hierexport_models",
                found=f"two named {case.name}",
                do="rename one of them",
            )
        cases[case.name] = replace(case, source=case.name)
    return cases


def _check_rule(rule: Rule) -> None:
    """Check a rule of the project's own.

    Raises:
        UsageError: A field of it has another type, or its id is that of no rule.
    """
    check_fields(f"the rule {rule.id}", rule)
    if rule.id in ("", SNAPSHOT):
        raise UsageError("an id of its own for each rule", found=repr(rule.id), do=f"name it: {_RULES[1]}")


_Item = TypeVar("_Item")
_LONGEST = threading.TIMEOUT_MAX / 2
"""Seconds from which on a limit is none: timers take no more, and the watchdog adds to it."""
_MODELS = "pytest_hierexport_models", 'Case("tower", make_tower)'
_RULES = "pytest_hierexport_rules", 'Rule("TEAM-1", "what holds", check)'


def _checked(returned: object, kind: type[_Item], hook: tuple[str, str]) -> list[_Item]:
    """Return the list that one implementation of a hook returned; a hook has a name and an item as code.

    Raises:
        UsageError: It returned no list of these.
    """
    items = returned if isinstance(returned, (list, tuple)) else [returned]
    wrong = [item for item in items if not isinstance(item, kind)]
    if not wrong and items is returned:
        return list(items)
    name, example = hook
    raise UsageError(
        f"{name} to return a list of {kind.__name__}",
        found=f"{(wrong or items)[0]!r}" + ("" if wrong else ", not in a list"),
        do=f"return [{example}]",
    )
