"""Merges the reports of a run's shards into one, and finds the shards and models that no report holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_hierexport._errors import UsageError
from pytest_hierexport._report.results import Part, Results


def merge(reports: Sequence[Results]) -> Results:
    """Merge the reports of one run's shards, in any order.

    Raises:
        UsageError: They are not of one run: two reports of one shard or with one model, or other rules or models.
    """
    parts = _parts_of_one_run(reports)
    models = {model.name: model for report in reports for model in report.models}
    if len(models) < sum(len(report.models) for report in reports):
        raise _refused("a model in two reports: the shards were made with different files of durations")
    deselected = {name for report in reports for name in report.deselected}
    selected, count = parts[0].selected, parts[0].count
    missing = [index for index in range(1, count + 1) if index not in {part.index for part in parts}]
    return replace(
        reports[0],
        models=tuple(models[name] for name in selected if name in models),
        versions={name: version for report in reports for name, version in report.versions.items()},
        started=min(report.started for report in reports),
        ended=max(report.ended for report in reports),
        part=None,
        deselected=tuple(name for name in selected if name in deselected),
        commit=" ".join(dict.fromkeys(report.commit for report in reports if report.commit)),
        interrupted=any(report.interrupted for report in reports),
        missing_shards=tuple(f"{index}/{count}" for index in missing),
        unreported=tuple(name for name in selected if name not in {*models, *deselected}),
    )


def _parts_of_one_run(reports: Sequence[Results]) -> list[Part]:
    """Return the part of the run that each report is of.

    Raises:
        UsageError: The reports are not of one run, or two are of one shard.
    """
    parts = [report.part for report in reports if report.part is not None]
    if len(parts) != len(reports) or not parts:
        raise _refused("a report of a run without --hierexport-shard")
    if len({(part.count, part.selected) for part in parts}) > 1:
        raise _refused("reports of shards of different runs: other models or another number of shards")
    if len({report.rules for report in reports}) > 1:
        raise _refused("reports of shards that ran different rules")
    [(index, times)] = Counter(part.index for part in parts).most_common(1)
    if times > 1:
        raise _refused(f"two reports of shard {index}/{parts[0].count}", "leave one of them out")
    return parts


def _refused(found: str, do: str = "") -> UsageError:
    again = "run every shard on the same commit, with the same options and --hierexport-report=FILE.json"
    return UsageError("one JSON report of each shard of a run", found=found, do=do or again)
