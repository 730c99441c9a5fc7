"""Holds the results of a run: the status of every check on every model, and the lines below their table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from textwrap import shorten

from pytest_hierexport._calls.entries import ModuleEntry
from pytest_hierexport._grouping import grouped
from pytest_hierexport._report.failures import Failure
from pytest_hierexport._text import first_names

SNAPSHOT = "snapshot"
"""The name of the check that is no rule."""
_SNAPSHOT_ITEM = "test_snapshot"
_RULE_ITEM = "test_must"
_MANY = 5
"""The number of models beyond which all of them are not listed by name."""
_MANY_UNREPORTED = 100
"""The same of models that no shard reported: each has to be looked for."""


def item_name(check: str) -> str:
    """Return the name of the test item of a check: the id of a rule, or the snapshot."""
    return _SNAPSHOT_ITEM if check == SNAPSHOT else f"{_RULE_ITEM}[{check}]"


def is_item(name: str) -> bool:
    """Whether a name is one of :func:`item_name`, also with further parameters, from fixtures of the project."""
    with_parameters = name.startswith((f"{_SNAPSHOT_ITEM}[", f"{_RULE_ITEM}[")) and name.endswith("]")
    return name == _SNAPSHOT_ITEM or with_parameters


def without_repeat(message: str) -> str:
    """Return a message without the command that repeats it, which differs from check to check."""
    return "\n".join(line for line in message.splitlines() if not line.lstrip().startswith("repeat"))


class Status(str, Enum):
    """The status of a check."""

    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known failure"
    SKIPPED = "skipped"
    NOT_RUN = "not run"
    INAPPLICABLE = "does not apply"


@dataclass(frozen=True)
class Check:
    """One rule, or the snapshot, on one model."""

    status: Status
    message: str = ""
    """The message of a failure, or the reason for a skip."""
    seconds: float = 0.0
    failure: Failure | None = None
    """The parts of the message of a failure; None where only the message is known."""


@dataclass(frozen=True)
class RuleText:
    """A rule as reports show it."""

    id: str
    promise: str
    cardinal: bool = False


@dataclass(frozen=True)
class Model:
    """The results of one model."""

    name: str
    source: str
    anchor: str
    file: str
    """The file that defines the model, else its anchor, else the root: relative to `$GITHUB_WORKSPACE` where that is
    set, else to the root."""
    line: int = 1
    checks: dict[str, Check] = field(default_factory=dict)
    inapplicable: tuple[str, ...] = ()
    """The rules that do not hold for it: those on an export, where it is the result of a step after one."""
    exporter: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Why the exported graph may differ from the model: shown in red."""
    coverage: dict[str, int] = field(default_factory=dict)
    hierarchy: str = ""
    stages: dict[str, float] = field(default_factory=dict)
    """The seconds that each stage took, in the order in which they came."""
    modules: tuple[ModuleEntry, ...] = ()
    """Its module instances, each before those below it; empty where it was not exported."""
    committed: str = ""
    """The text of the snapshot that the hierarchy differs from; empty where it does not."""

    def status(self, check: str) -> Status:
        """Return the status of a check."""
        if check in self.checks:
            return self.checks[check].status
        return Status.INAPPLICABLE if check in self.inapplicable else Status.NOT_RUN

    @property
    def skip_reason(self) -> str:
        """Why the model's own code skipped all of its checks; empty where it did not."""
        checks = [(check.status, check.message) for check in self.checks.values()]
        is_skipped = len(checks) > 1 and len(set(checks)) == 1 and checks[0][0] is Status.SKIPPED
        return checks[0][1] if is_skipped else ""

    @property
    def seconds(self) -> float:
        """The sum of the durations of its checks."""
        return sum(check.seconds for check in self.checks.values())

    @property
    def nodes(self) -> int:
        """The number of nodes of its graph; 0 where it was not exported."""
        return sum(self.coverage.values())


@dataclass(frozen=True)
class Part:
    """The shard of a run that results are of."""

    index: int
    """From 1 on."""
    count: int
    selected: tuple[str, ...]
    """The names of the models of all shards, in their order."""


@dataclass(frozen=True)
class Results:
    """A run: every selected model with every selected rule."""

    rules: tuple[RuleText, ...]
    models: tuple[Model, ...]
    orphans: tuple[str, ...] = ()
    """The snapshots of models that are gone, relative to the root."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of the packages that results depend on."""
    started: float = 0.0
    """Seconds since 1970."""
    ended: float = 0.0
    part: Part | None = None
    """None for a run of all models."""
    commit: str = ""
    """The commit of the project, with `-dirty` where files differ from it; empty where it is not known."""
    deselected: tuple[str, ...] = ()
    """The names of the selected models of which no test was; they are not among the models."""
    missing_shards: tuple[str, ...] = ()
    """Of a merged run, the shards without a report, as `3/8`."""
    unreported: tuple[str, ...] = ()
    """The names of the models that no shard reported."""
    interrupted: bool = False
    """Whether Ctrl-C or SIGTERM ended the run, or a shard of it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The checks in their order."""
        return (*(rule.id for rule in self.rules), SNAPSHOT)

    def without_deselected(self, collected: Collection[str]) -> Results:
        """Return the results with the models of which a test was collected, or has a verdict, and the others' names."""
        kept = tuple(model for model in self.models if model.name in collected or model.checks)
        names = {model.name for model in kept}
        others = tuple(model.name for model in self.models if model.name not in names)
        return replace(self, models=kept, deselected=others)

    def cardinal_not_run(self) -> dict[str, list[str]]:
        """Return the cardinal rules that were left out, by model."""
        cardinal = [rule.id for rule in self.rules if rule.cardinal]
        not_run = (
            (model.name, [id_ for id_ in cardinal if model.status(id_) is Status.NOT_RUN]) for model in self.models
        )
        return {name: rules for name, rules in not_run if rules}

    def failures(self) -> list[tuple[Model, str, Check]]:
        """Return the checks that failed, in the order of the columns, whatever ran first."""
        found = ((model, column) for model in self.models for column in self.columns)
        return [(model, name, model.checks[name]) for model, name in found if model.status(name) is Status.FAILED]

    def distinct_failures(self) -> list[tuple[Model, list[str], str]]:
        """Return the checks of each model that failed with one message, and the message of the first of them."""
        equal = grouped(self.failures(), lambda each: (each[0].name, without_repeat(each[2].message)))
        return [(same[0][0], [name for _, name, _ in same], same[0][2].message) for same in equal.values()]

    def count(self, status: Status) -> int:
        """Count the checks of that status."""
        return sum(model.status(column) is status for model in self.models for column in self.columns)


def cardinal_line(results: Results) -> str:
    """Return the line that says which cardinal rules did not run; empty where all did."""
    left_out = results.cardinal_not_run()
    if not left_out:
        return ""
    names, rules = list(left_out), {", ".join(rules) for rules in left_out.values()}
    if len(rules) == 1:
        on_all = len(names) == len(results.models) and len(names) > _MANY
        where = f"all {len(names)} models" if on_all else first_names(names)
        return f"cardinal rules not run: {rules.pop()} on {where}"
    # Without the models' names, their rules would not be told either.
    each = [f"{name} ({', '.join(left_out[name])})" for name in names]
    return f"cardinal rules not run: {first_names(each)}"


def remarks_of(results: Results) -> list[str]:
    """Return the lines below the table: notes, cardinal rules that did not run, models without tests, orphans."""
    names: dict[str, list[str]] = {}
    for model in results.models:
        for note in (*model.notes, *_skipped(results, model)):
            names.setdefault(note, []).append(model.name)
    notes = [_line(first_names(named), note) for note, named in names.items()]
    gone = f"snapshots of models that are gone: {first_names(results.orphans)}" if results.orphans else ""
    return [*notes, *filter(None, (cardinal_line(results), _deselected_line(results), gone))]


def _deselected_line(results: Results) -> str:
    names = results.deselected
    many = f"{len(names)} models" if len(names) > 1 else "1 model"
    return f"{many} deselected: {first_names(names)}" if names else ""


def warnings_of(results: Results) -> list[str]:
    """Return what an interrupted or merged run lacks, and why graphs may differ from their models, in bounded lines."""
    missing, names = (first_names(each, _MANY_UNREPORTED) for each in (results.missing_shards, results.unreported))
    shards = f"shards without a report: {missing}" if missing else ""
    models = f"models that no shard reported: {names}" if names else ""
    ended = "interrupted: checks that did not run have no verdict" if results.interrupted else ""
    fallbacks = [_line(model.name, warning) for model in results.models for warning in model.warnings]
    return [*filter(None, (ended, shards, models)), *fallbacks]


def slowest_stages(results: Results, most: int, least: float) -> list[str]:
    """Return lines with the stages that took longest: at most so many (0: all), of at least so many seconds."""
    stages = [
        (seconds, model.name, stage)
        for model in results.models
        for stage, seconds in model.stages.items()
        if seconds >= least
    ]
    ordered = sorted(stages, key=lambda each: -each[0])[: most or None]
    return [f"{seconds:8.2f} s  {model}: {stage}" for seconds, model, stage in ordered]


def _skipped(results: Results, model: Model) -> Iterator[str]:
    """Yield a note for each reason why rules gave no verdict."""
    if model.skip_reason:
        yield model.skip_reason
        return
    skipped = (rule.id for rule in results.rules if model.status(rule.id) is Status.SKIPPED)
    for reason, ids in grouped(skipped, lambda rule: model.checks[rule].message).items():
        yield f"{', '.join(ids)} {'is' if len(ids) == 1 else 'are'} neither kept nor broken: {reason}"


def _line(names: str, text: str) -> str:
    return f"{names}: {shorten(text, 200, placeholder=' …')}"
