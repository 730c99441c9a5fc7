"""What became of every check of a run, as the processes that ran it told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from textwrap import shorten

__all__ = ["SNAPSHOT", "Check", "Model", "Results", "RuleText", "Verdict"]

SNAPSHOT = "snapshot"
"""The name of the check that is no rule."""


class Verdict(str, Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known failure"
    SKIPPED = "skipped"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Check:
    """One rule, or the snapshot, on one model."""

    verdict: Verdict
    message: str = ""
    """What the failure showed, or why it was skipped."""
    seconds: float = 0.0


@dataclass(frozen=True)
class RuleText:
    """A rule, as far as people read it."""

    id: str
    promise: str
    cardinal: bool = False


@dataclass(frozen=True)
class Model:
    """What became of one model."""

    name: str
    source: str
    anchor: str
    file: str
    """The file that makes the model, relative to the root; the anchor where there is none."""
    line: int = 1
    checks: dict[str, Check] = field(default_factory=dict)
    exporter: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What may make the exported graph another than the model: shown in red."""
    coverage: dict[str, int] = field(default_factory=dict)
    hierarchy: str = ""

    def verdict(self, check: str) -> Verdict:
        """Return how a check ended; `not run` where it did not begin."""
        return self.checks[check].verdict if check in self.checks else Verdict.NOT_RUN

    @property
    def nodes(self) -> int:
        """The number of nodes of its graph; 0 where it was not exported."""
        return sum(self.coverage.values())


@dataclass(frozen=True)
class Results:
    """A run: every selected model with every selected rule."""

    rules: tuple[RuleText, ...]
    models: tuple[Model, ...]
    orphans: tuple[str, ...] = ()
    """The snapshots of models that are gone, relative to the root."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The checks in their order."""
        return (*(rule.id for rule in self.rules), SNAPSHOT)

    @property
    def began(self) -> bool:
        """Whether any check ran at all."""
        return any(model.checks for model in self.models)

    def cardinal_not_run(self) -> dict[str, list[str]]:
        """Return the cardinal rules that were left out, by model."""
        cardinal = [rule.id for rule in self.rules if rule.cardinal]
        left_out = {
            model.name: [rule for rule in cardinal if model.verdict(rule) is Verdict.NOT_RUN] for model in self.models
        }
        return {name: rules for name, rules in left_out.items() if rules}

    def failures(self) -> list[tuple[Model, str, Check]]:
        """Return the checks that failed."""
        return [
            (model, name, check)
            for model in self.models
            for name, check in model.checks.items()
            if check.verdict is Verdict.FAILED
        ]

    def count(self, verdict: Verdict) -> int:
        """Count the checks that ended so."""
        return sum(model.verdict(column) is verdict for model in self.models for column in self.columns)


def cardinal_line(results: Results, most: int = 5) -> str:
    """Return the line that says which cardinal rules did not run; empty where all did."""
    left_out = results.cardinal_not_run()
    if not left_out:
        return ""
    if len({tuple(rules) for rules in left_out.values()}) == 1:
        rules = next(iter(left_out.values()))
        return f"cardinal rules not run: {', '.join(rules)} on {_listed(list(left_out), len(results.models), most)}"
    each = [f"{name} ({', '.join(rules)})" for name, rules in left_out.items()]
    return f"cardinal rules not run: {_listed(each, len(results.models), most)}"


def _listed(names: Sequence[str], total: int, most: int) -> str:
    if len(names) == total and total > most:
        return f"all {total} models"
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def notes_of(results: Results) -> Iterable[str]:
    """Return what people should know of an export and its checks, one line each, bounded in length."""
    for model in results.models:
        skipped = (
            f"{rule.id} is neither kept nor broken: {model.checks[rule.id].message}"
            for rule in results.rules
            if model.verdict(rule.id) is Verdict.SKIPPED
        )
        yield from (_line(model, note) for note in (*model.notes, *skipped))


def warnings_of(results: Results) -> list[str]:
    """Return what may make an exported graph another than its model, one line each, bounded in length."""
    return [_line(model, warning) for model in results.models for warning in model.warnings]


def orphans_line(results: Results, most: int = 5) -> str:
    """Return the line that names the snapshots of models that are gone; empty where there are none."""
    if not results.orphans:
        return ""
    return f"snapshots of models that are gone: {_listed(results.orphans, len(results.models) + most, most)}"


def _line(model: Model, text: str) -> str:
    return f"{model.name}: {shorten(text, 200, placeholder=' …')}"
