"""Merges the reports of a run's shards into one, and finds the shards and models that no report holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_hierexport._errors import UsageError
from pytest_hierexport._grouping import grouped
from pytest_hierexport._report.results import Part, Results
from pytest_hierexport._text import first_names


def merge(named: Sequence[tuple[str, Results]]) -> Results:
    """Merge the reports of one run's shards, in any order, each with its name for messages.

    Raises:
        UsageError: They are not of one run: two reports of one shard or with one model, or other rules or models.
    """
    parts = _parts_of_one_run(named)
    by_shard = sorted(zip(parts, named, strict=True), key=lambda each: each[0].index)
    reports = [report for _, (_, report) in by_shard]
    models = {model.name: model for report in reports for model in report.models}
    if len(models) < sum(len(report.models) for report in reports):
        raise _refused("a model in two reports: the shards were made with different files of durations")
    deselected = {name for report in reports for name in report.deselected}
    selected, count = parts[0].selected, parts[0].count
    reported = {*models, *deselected}
    missing = sorted({*range(1, count + 1)} - {part.index for part in parts})
    return replace(
        reports[0],
        models=tuple(models[name] for name in selected if name in models),
        versions=_versions(reports),
        started=min(report.started for report in reports),
        ended=max(report.ended for report in reports),
        part=None,
        deselected=tuple(name for name in selected if name in deselected),
        commit=" ".join(dict.fromkeys(report.commit for report in reports if report.commit)),
        interrupted=any(report.interrupted for report in reports),
        missing_shards=tuple(f"{index}/{count}" for index in missing),
        unreported=tuple(name for name in selected if name not in reported),
    )


def _versions(reports: Sequence[Results]) -> dict[str, str]:
    """Return the version of each package; all of them where the shards ran with several."""
    stated = grouped((pair for report in reports for pair in report.versions.items()), lambda pair: pair[0])
    return {name: ", ".join(dict.fromkeys(version for _, version in pairs)) for name, pairs in stated.items()}


def _parts_of_one_run(named: Sequence[tuple[str, Results]]) -> list[Part]:
    """Return the part of the run that each report is of.

    Raises:
        UsageError: The reports are not of one run, or two are of one shard.
    """
    whole = [name for name, report in named if report.part is None]
    if whole:
        found = f"no report of a shard, but one of a whole run or a merged one: {first_names(whole)}"
        raise _refused(found, "leave it out" if len(whole) < len(named) else "")
    parts = [(name, report.part) for name, report in named if report.part is not None]
    if len({(part.count, part.selected) for _, part in parts}) > 1:
        raise _refused("reports of shards of different runs: other models or another number of shards")
    if len({report.rules for _, report in named}) > 1:
        raise _refused("reports of shards that ran different rules")
    for index, same in grouped(parts, lambda each: each[1].index).items():
        if len(same) > 1:
            names = first_names([name for name, _ in same])
            raise _refused(f"two reports of shard {index}/{parts[0][1].count}: {names}", "leave one of them out")
    return [part for _, part in parts]


def _refused(found: str, do: str = "") -> UsageError:
    again = "run every shard on the same commit, with the same options and --hierexport-report=FILE.json"
    return UsageError("one JSON report of each shard of a run", found=found, do=do or again)
