"""Formats the table of models and rules for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_hierexport._report.results import Model, Results, Status, remarks_of
from pytest_hierexport._text import one_line

_WORDS = {
    Status.PASSED: "pass",
    Status.FAILED: "FAIL",
    Status.KNOWN: "known",
    Status.SKIPPED: "skip",
    Status.NOT_RUN: "-",
    Status.INAPPLICABLE: "",
}


def as_lines(results: Results) -> list[str]:
    """Return the table for a terminal and the remarks below it; warnings, which are red there, are left out."""
    from rich.cells import cell_len, set_cell_size

    rows = [
        ["model", "exporter", "nodes", *_headings(results.columns)],
        *([one_line(cell) for cell in cells_of(results, model, _WORDS)] for model in results.models),
    ]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(set_cell_size, row, widths)).rstrip() for row in rows]
    return [*lines, *remarks_of(results)]


def _headings(columns: Sequence[str]) -> list[str]:
    """Shorten the ids of the first one's family, so that ten rules fit a terminal's line; other ids stay whole."""
    first, *others = columns
    family = f"{first.rpartition('-')[0]}-"
    return [first, *(column.removeprefix(family) for column in others)]


def cells_of(results: Results, model: Model, words: Mapping[Status, str]) -> list[str]:
    """Return the cells of a model's row: its name, its exporter, its nodes, and the word for each verdict."""
    verdicts = [words[model.status(column)] for column in results.columns]
    return [model.name, model.exporter or "-", str(model.nodes or "-"), *verdicts]
