"""Formats the table of models and rules, for the terminal and for Markdown."""

from __future__ import annotations

import html
from collections.abc import Sequence

from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._report.results import Model, Results, Status, remarks_of, warnings_of
from pytest_hierexport._text import PLAIN, inline_code, one_line, printable

__all__ = ["as_lines", "as_markdown"]

_WORDS = {
    Status.PASSED: "pass",
    Status.FAILED: "FAIL",
    Status.KNOWN: "known",
    Status.SKIPPED: "skip",
    Status.NOT_RUN: "-",
    Status.INAPPLICABLE: "",
}
_SIGNS = {
    Status.PASSED: "✅",
    Status.FAILED: "❌",
    Status.KNOWN: "⚠️ known",
    Status.SKIPPED: "skipped",
    Status.NOT_RUN: "not run",
    Status.INAPPLICABLE: "",
}


def as_lines(results: Results) -> list[str]:
    """Return the table for a terminal and the remarks below it; warnings, which are red there, are left out."""
    rows = [
        ["model", "exporter", "nodes", *_headings(results.columns)],
        *([one_line(cell) for cell in _row(results, model, _WORDS)] for model in results.models),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, *remarks_of(results)]


def as_markdown(results: Results) -> str:
    """Return a summary for a pull request: the table, the failures, the warnings and remarks."""
    header = ["model", "exporter", "nodes", *results.columns]
    rows = [list(map(_cell, header)), ["---"] * len(header)]
    for model in results.models:
        name, exporter, *others = _row(results, model, _SIGNS)
        rows.append([_cell(name), _cell(exporter) if model.exporter else exporter, *others])
    lines = [
        f"<!-- generator: {GENERATOR} -->",
        "## hierexport",
        "",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]
    for model, name, check in results.failures():
        lines += [
            f"<details><summary>{_html(model.name)}: {_html(name)}</summary>",
            "",
            *_fenced(printable(check.message)),
            "",
            "</details>",
            "",
        ]
    lines += [f"- 🔴 **{inline_code(warning)}**" for warning in warnings_of(results)]
    lines += [f"- {inline_code(remark)}" for remark in remarks_of(results)]
    return "\n".join(lines).rstrip() + "\n"


def _headings(columns: Sequence[str]) -> list[str]:
    """Shorten ids that begin like the one before, so that ten rules fit a terminal's line."""
    families = [column.rpartition("-")[0] for column in columns]
    before = [None, *families]
    return [
        column.rpartition("-")[2] if family and family == last else column
        for column, family, last in zip(columns, families, before, strict=False)
    ]


def _row(results: Results, model: Model, words: dict[Status, str]) -> list[str]:
    verdicts = [words[model.status(column)] for column in results.columns]
    return [model.name, model.exporter or "-", str(model.nodes or "-"), *verdicts]


def _cell(text: str) -> str:
    """Return text for a cell of a table, where a bar ends the cell even in code."""
    return inline_code(text).replace("|", "\\|")


def _html(text: str) -> str:
    """Return HTML that shows text literally, like :func:`inline_code`."""
    shown = one_line(text)
    return shown if PLAIN.fullmatch(shown) else f"<code>{html.escape(shown)}</code>"


def _fenced(text: str) -> list[str]:
    """Fence a text that may hold fences itself."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence + "text", *text.splitlines(), fence]
