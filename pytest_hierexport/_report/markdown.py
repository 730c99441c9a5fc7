"""Formats the results as Markdown: the page of a CI job, or a comment on a pull request, whose length is limited."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from itertools import accumulate

from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._report.results import SNAPSHOT, Model, Results, Status, remarks_of, warnings_of
from pytest_hierexport._report.table import cells_of
from pytest_hierexport._snapshot.tree_diff import tree_diff
from pytest_hierexport._text import PLAIN, inline_code, one_line, printable

_SIGNS = {
    Status.PASSED: "✅",
    Status.FAILED: "❌",
    Status.KNOWN: "⚠️ known",
    Status.SKIPPED: "skipped",
    Status.NOT_RUN: "not run",
    Status.INAPPLICABLE: "",
}
_LONGEST = 60_000
"""The characters of a summary: GitHub takes comments of up to 65,536."""
_LONGEST_TABLE = 20_000
_LONGEST_MESSAGE = 6_000
_LONGEST_REMARK = 400
_LONGEST_REMARKS = 20_000
_MOST_REMARKS = 40
_FOR_THE_REST = 100
"""The characters of the lines that count what is left out."""


def as_markdown(results: Results) -> str:
    """Return a summary for a pull request: the table, the failures, changed trees, warnings and remarks.

    It has at most 60,000 characters; what is left out is counted.
    """
    head = [f"<!-- generator: {GENERATOR} -->", "## hierexport", "", *_table(results), ""]
    tail = list(_remarks(results))
    room = _LONGEST - _length(head) - _length(tail) - _FOR_THE_REST
    return "\n".join([*head, *_within(list(_details(results)), room), *tail]).rstrip() + "\n"


def _length(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _table(results: Results) -> list[str]:
    """Return the table; where it is long, with the models that fail first, and without the last ones."""
    header = ["model", "exporter", "nodes", *results.columns]
    lines = [_row(list(map(_cell, header))), _row(["---"] * len(header))]
    rows = [(_model_row(results, model), _fails(model)) for model in results.models]
    if _length([row for row, _ in rows]) > _LONGEST_TABLE:
        rows.sort(key=lambda each: not each[1])
    shown = _fitting([row for row, _ in rows], _LONGEST_TABLE)
    lines += [row for row, _ in rows[:shown]]
    if shown < len(rows):
        failing = sum(fails for _, fails in rows[shown:])
        lines += ["", f"… and {len(rows) - shown} more models, of which {failing} fail"]
    return lines


def _fails(model: Model) -> bool:
    return any(check.status is Status.FAILED for check in model.checks.values())


def _model_row(results: Results, model: Model) -> str:
    name, exporter, *others = cells_of(results, model, _SIGNS)
    return _row([_cell(name), _cell(exporter) if model.exporter else exporter, *others])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _details(results: Results) -> Iterator[list[str]]:
    """Yield a collapsed block per failure, of those of a model with one message a single one, and per changed tree."""
    for model, names, message in results.distinct_failures():
        yield _collapsed(
            f"{_html(model.name)}: {_html(', '.join(names))}", _fenced(_cut(message, _LONGEST_MESSAGE, "\n…"))
        )
        if SNAPSHOT in names and model.committed and (tree := tree_diff(model.committed, model.hierarchy)):
            changes = _cut("\n".join(tree), _LONGEST_MESSAGE, "\n…")
            yield _collapsed(f"{_html(model.name)}: changes as a tree", _fenced(changes, "diff"))


def _within(blocks: Sequence[list[str]], room: int) -> list[str]:
    """Return the lines of the blocks that have room, and the number of those that have none."""
    shown: list[str] = []
    for i, block in enumerate(blocks):
        room -= _length(block)
        if room < 0:
            return [*shown, f"… and {len(blocks) - i} more failures: see the report", ""]
        shown += block
    return shown


def _collapsed(summary: str, content: Sequence[str]) -> list[str]:
    return [f"<details><summary>{summary}</summary>", "", *content, "", "</details>", ""]


def _remarks(results: Results) -> Iterator[str]:
    lines = [f"- 🔴 **{inline_code(_cut(warning, _LONGEST_REMARK))}**" for warning in warnings_of(results)]
    lines += [f"- {inline_code(_cut(remark, _LONGEST_REMARK))}" for remark in remarks_of(results)]
    shown = _fitting(lines[:_MOST_REMARKS], _LONGEST_REMARKS)
    yield from lines[:shown]
    if len(lines) > shown:
        yield f"- … and {len(lines) - shown} more remarks"


def _fitting(lines: Sequence[str], room: int) -> int:
    """Return how many of the lines, from the first on, have room."""
    return sum(total <= room for total in accumulate(len(line) + 1 for line in lines))


def _cut(text: str, most: int, end: str = " …") -> str:
    """Return the beginning of a text that is too long for a summary."""
    shown = printable(text)
    return shown if len(shown) <= most else f"{shown[:most]}{end}"


def _cell(text: str) -> str:
    """Return text for a cell of a table, where a bar ends the cell even in code."""
    return inline_code(text).replace("|", "\\|")


def _html(text: str) -> str:
    """Return HTML that shows text literally, like :func:`inline_code`."""
    shown = one_line(text)
    return shown if PLAIN.fullmatch(shown) else f"<code>{html.escape(shown)}</code>"


def _fenced(text: str, language: str = "text") -> list[str]:
    """Fence a text that may hold fences itself."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence + language, *text.splitlines(), fence]
