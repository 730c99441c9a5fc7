"""Packs results for the page: every text once, and each tree of modules as columns of numbers.

Names and messages are data that may hold any character; they are packed as people are to see them, with control
characters escaped. In a tree, `parent` holds the row of the module above (the root's is -1); `name`, `class` and `tag`
hold positions in `strings`, `profile` positions in `profiles`: the nodes of a module by operator and by evidence, and
those that it co-owns by evidence. A tag is stored whole, or as its last segment where it continues that of the nearest
module above that has one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_hierexport._calls.entries import ModuleEntry
from pytest_hierexport._report.results import Model, Results, Status, remarks_of, warnings_of
from pytest_hierexport._text import one_line, printable

_STATUSES = tuple(Status)


def _numbering(first: Any) -> defaultdict[Any, int]:
    """Return a mapping that gives each value that it is asked for a number, 0 to the first."""
    numbers: defaultdict[Any, int] = defaultdict(lambda: len(numbers), {first: 0})
    return numbers


class _Packer:
    """Packs the models of one page, which share their texts and profiles."""

    def __init__(self) -> None:
        self.strings = _numbering("")
        self.profiles = _numbering(((), (), ()))

    def tree(self, entries: Sequence[ModuleEntry]) -> dict[str, list[int]]:
        """Pack the modules of a model; one whose module above is not listed goes below the first."""
        columns: dict[str, list[int]] = {
            key: [] for key in ("parent", "name", "class", "tag", "calls", "profile", "parameters", "bytes")
        }
        rows: dict[str, int] = {}
        tags: dict[str, str] = {}
        for row, entry in enumerate(entries):
            above, _, name = entry.path.rpartition(".")
            rows[entry.path] = row
            known = tags.get(above, tags.get("", "")) if row else ""
            tags[entry.path] = entry.tag or known
            values = (
                rows.get(above, 0) if row else -1,
                self._text(name),
                self._text(entry.cls),
                self._text(_continued(entry.tag, known)),
                entry.calls,
                self.profiles[tuple(map(self._counts, (entry.operators, entry.evidence, entry.co_owned)))],
                entry.parameters,
                entry.bytes,
            )
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        return columns

    def _text(self, text: str) -> int:
        return self.strings[one_line(text)]

    def _counts(self, counts: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(number for key, count in counts.items() for number in (self._text(key), count))


def _continued(tag: str, above: str) -> str:
    segment = tag.removeprefix(f"{above}/")
    return tag if not above or segment == tag or "/" in segment else segment


def packed(results: Results) -> dict[str, Any]:
    """Return what the page shows, as JSON can hold it."""
    packer = _Packer()
    models = [_model(results, model, packer) for model in results.models]
    return {
        "statuses": [status.value for status in _STATUSES],
        "columns": list(map(one_line, results.columns)),
        "rules": [
            {"id": one_line(rule.id), "promise": one_line(rule.promise), "cardinal": rule.cardinal}
            for rule in results.rules
        ],
        "run": {
            "started": results.started,
            "ended": results.ended,
            "commit": one_line(results.commit),
            "versions": {one_line(name): one_line(version) for name, version in results.versions.items()},
            "shard": "" if results.part is None else f"{results.part.index}/{results.part.count}",
            "warnings": [one_line(line) for line in warnings_of(results)],
            "remarks": [one_line(line) for line in remarks_of(results)],
        },
        "models": models,
        "strings": list(packer.strings),
        "profiles": list(packer.profiles),
    }


def _model(results: Results, model: Model, packer: _Packer) -> dict[str, Any]:
    return {
        "name": one_line(model.name),
        "source": one_line(model.source),
        "place": one_line(f"{model.file}:{model.line}" if model.line > 1 else model.file),
        "exporter": one_line(model.exporter),
        "notes": [one_line(note) for note in model.notes],
        "warnings": [one_line(warning) for warning in model.warnings],
        "coverage": {one_line(kind): count for kind, count in model.coverage.items() if count},
        "seconds": round(model.seconds, 3),
        "stages": [[one_line(stage), seconds] for stage, seconds in model.stages.items()],
        "checks": [_check(model, column) for column in results.columns],
        "text": printable(model.hierarchy),
        "tree": packer.tree(model.modules),
    }


def _check(model: Model, column: str) -> list[Any]:
    status = _STATUSES.index(model.status(column))
    if column not in model.checks:
        return [status]
    check = model.checks[column]
    stated = [status, round(check.seconds, 3)]
    return stated if check.status is Status.PASSED else [*stated, printable(check.message), check.failure]
