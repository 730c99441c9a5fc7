"""Compares two reports of the same models: what an upgrade of torch or transformers, or a change of code, did."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from pytest_hierexport._report.results import Model, Results, Status
from pytest_hierexport._snapshot.diff import diff

_FAILED = frozenset({Status.FAILED})
_KNOWN = frozenset({Status.KNOWN})
_GOOD = frozenset({Status.PASSED, Status.KNOWN, Status.INAPPLICABLE})


@dataclass(frozen=True)
class ModelChange:
    """What differs between the two reports for one model."""

    name: str
    failing: tuple[str, ...] = ()
    """The checks that fail now and did not before, all of a model that the first report does not have."""
    fixed: tuple[str, ...] = ()
    """The checks that failed before, as was known or not, and hold now."""
    known: tuple[str, ...] = ()
    """The checks that are known failures now and were none before."""
    not_checked: tuple[str, ...] = ()
    """The checks that held before and were not made now."""
    exporters: tuple[str, str] | None = None
    """The exporter before and now, where they differ."""
    nodes: tuple[int, int] | None = None
    """The number of nodes before and now, where they differ and both were exported."""
    hierarchy: tuple[str, ...] = ()
    """The changes of the hierarchy, a line per module, where both were exported."""


@dataclass(frozen=True)
class Comparison:
    """The differences between two reports."""

    versions: dict[str, tuple[str, str]]
    """The versions before and now of each package for which they differ; empty where it is not installed."""
    gone: tuple[str, ...]
    """The models that are in the first report alone."""
    new: tuple[str, ...]
    """The models that are in the second report alone."""
    changes: tuple[ModelChange, ...]
    """Of each model with a difference."""
    unchanged: int
    """The number of models without a difference."""
    seconds: tuple[float, float]
    """The sum of all checks' durations on the models of both reports, before and now."""
    stages: dict[str, tuple[float, float]]
    """The same of each stage, such as `exporting`, which no check's duration holds."""

    @property
    def is_worse(self) -> bool:
        """Whether a model is gone, a check newly fails, or one that held was not made."""
        return bool(self.gone) or any(change.failing or change.not_checked for change in self.changes)

    @property
    def differs(self) -> bool:
        """Whether anything about the models differs; versions and durations do not count."""
        return bool(self.gone or self.new or self.changes)


def compare(before: Results, after: Results) -> Comparison:
    """Compare the results of two runs, by the names of models and checks."""
    old, new = ({model.name: model for model in results.models} for results in (before, after))
    both = [name for name in old if name in new]
    changes = [change for name in both if (change := _change(old[name], new[name])) != ModelChange(name)]
    added = [
        ModelChange(name, failing=failed) for name in new if name not in old and (failed := _checks(new[name], _FAILED))
    ]
    omitted_before, omitted = (_left_out(results) for results in (before, after))
    unchecked = {name: held for name in omitted if name in old and (held := _checks(old[name], _GOOD))}
    left_out = [ModelChange(name, not_checked=held) for name, held in unchecked.items()]
    known, found = {*old, *omitted_before}, {*new, *omitted}
    packages = sorted({*before.versions, *after.versions})
    versions = {name: (before.versions.get(name, ""), after.versions.get(name, "")) for name in packages}
    return Comparison(
        versions={name: pair for name, pair in versions.items() if pair[0] != pair[1]},
        gone=tuple(name for name in old if name not in found),
        new=tuple(name for name in new if name not in known),
        changes=(*changes, *added, *left_out),
        unchanged=len(both) - len(changes),
        seconds=(sum(old[name].seconds for name in both), sum(new[name].seconds for name in both)),
        stages=_stages([(old[name].stages, new[name].stages) for name in both]),
    )


def _left_out(results: Results) -> list[str]:
    """Return the selected models without results: deselected ones, and those of shards whose report is missing."""
    selected = (*results.deselected, *results.unreported, *(results.part.selected if results.part else ()))
    there = {model.name for model in results.models}
    return [name for name in dict.fromkeys(selected) if name not in there]


def _checks(model: Model, statuses: Container[Status]) -> tuple[str, ...]:
    """Return the checks of a model that ended in one of these ways."""
    return tuple(check for check in model.checks if model.status(check) in statuses)


def _change(old: Model, new: Model) -> ModelChange:
    held, failed, known = (_checks(old, statuses) for statuses in (_GOOD, _FAILED, _KNOWN))
    exporters, nodes = (old.exporter, new.exporter), (old.nodes, new.nodes)
    exported = all(exporters)
    return ModelChange(
        new.name,
        failing=tuple(check for check in _checks(new, _FAILED) if check not in failed),
        fixed=tuple(check for check in _checks(old, _FAILED | _KNOWN) if new.status(check) is Status.PASSED),
        known=tuple(check for check in _checks(new, _KNOWN) if check not in known),
        not_checked=tuple(check for check in held if new.status(check) in {Status.NOT_RUN, Status.SKIPPED}),
        exporters=exporters if exporters[0] != exporters[1] else None,
        nodes=nodes if exported and nodes[0] != nodes[1] else None,
        hierarchy=tuple(diff(old.hierarchy, new.hierarchy)) if exported and old.hierarchy != new.hierarchy else (),
    )


def _stages(pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> dict[str, tuple[float, float]]:
    names = dict.fromkeys(stage for pair in pairs for stages in pair for stage in stages)
    return {
        name: (sum(old.get(name, 0.0) for old, _ in pairs), sum(new.get(name, 0.0) for _, new in pairs))
        for name in names
    }
