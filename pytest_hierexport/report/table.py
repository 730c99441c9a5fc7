"""The table of models and rules, for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_hierexport.report.results import Model, Results, Verdict, cardinal_line, notes_of, orphans_line, warnings_of

__all__ = ["as_lines", "as_markdown"]

_WORDS = {
    Verdict.PASSED: "pass",
    Verdict.FAILED: "FAIL",
    Verdict.KNOWN: "known",
    Verdict.SKIPPED: "skip",
    Verdict.NOT_RUN: "-",
}
_SIGNS = {
    Verdict.PASSED: "✅",
    Verdict.FAILED: "❌",
    Verdict.KNOWN: "⚠️ known",
    Verdict.SKIPPED: "skipped",
    Verdict.NOT_RUN: "not run",
}


def as_lines(results: Results) -> list[str]:
    """Return the table for a terminal, with what must be said below it but for warnings, which are red there."""
    rows = [
        ["model", "exporter", "nodes", *_headings(results.columns)],
        *(_row(results, model, _WORDS) for model in results.models),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, *_remarks(results)]


def as_markdown(results: Results) -> str:
    """Return a summary for a pull request: the table, the failures, what must be said."""
    header = ["model", "exporter", "nodes", *results.columns]
    rows = [header, ["---"] * len(header), *(_row(results, model, _SIGNS) for model in results.models)]
    lines = ["## hierexport", "", *("| " + " | ".join(map(_cell, row)) + " |" for row in rows), ""]
    for model, name, check in results.failures():
        lines += [
            f"<details><summary>{_cell(model.name)}: {name}</summary>",
            "",
            *_fenced(check.message),
            "",
            "</details>",
            "",
        ]
    lines += [f"- 🔴 **{_cell(warning)}**" for warning in warnings_of(results)]
    lines += [f"- {remark}" for remark in _remarks(results)]
    return "\n".join(lines).rstrip() + "\n"


def _headings(columns: Sequence[str]) -> list[str]:
    """Leave out what an id has in common with the one before it: ten rules fit a terminal's line."""
    families = [column.rpartition("-")[0] for column in columns]
    before = [None, *families]
    return [
        column.rpartition("-")[2] if family and family == last else column
        for column, family, last in zip(columns, families, before, strict=False)
    ]


def _row(results: Results, model: Model, words: dict[Verdict, str]) -> list[str]:
    verdicts = [words[model.verdict(column)] for column in results.columns]
    return [model.name, model.exporter or "-", str(model.nodes or "-"), *verdicts]


def _remarks(results: Results) -> list[str]:
    return [*notes_of(results), *filter(None, (cardinal_line(results), orphans_line(results)))]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _fenced(text: str) -> list[str]:
    """Fence a text that may hold fences itself."""
    fence = "```"
    while fence in text:
        fence += "`"
    return [fence + "text", *text.splitlines(), fence]
