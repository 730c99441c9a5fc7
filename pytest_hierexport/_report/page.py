"""Formats the results as one self-contained page of HTML."""

from __future__ import annotations

import html

from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._report.results import Model, Results, Status, remarks_of, warnings_of
from pytest_hierexport._text import one_line, printable

__all__ = ["as_html"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1c2024; }
table { border-collapse: collapse; }
th, td { border: 1px solid #d4d8dd; padding: .3rem .6rem; text-align: left; }
th { background: #f3f5f7; }
pre { background: #f3f5f7; padding: .8rem; overflow: auto; }
td.passed { background: #e3f5e6; } td.failed { background: #fde3e3; font-weight: bold; }
p.warning { color: #c0232c; font-weight: bold; }
td.known { background: #fdf3d8; } td.skipped, td.not { color: #6b7280; }
"""


def as_html(results: Results) -> str:
    """Return a page that needs no other file: the table, the failures, the hierarchy of every model."""
    rules = "".join(f"<dt>{_escape(rule.id)}</dt><dd>{_escape(rule.promise)}</dd>" for rule in results.rules)
    counts = ", ".join(f"{results.count(s)} {s.value}" for s in Status if results.count(s))
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{GENERATOR}">',
        "<title>hierexport</title>",
        f"<style>{_STYLE}</style></head><body>",
        "<h1>hierexport</h1>",
        f"<p>{_escape(counts)}</p>",
        *(f'<p class="warning">{_escape(warning)}</p>' for warning in warnings_of(results)),
        *(f"<p>{_escape(remark)}</p>" for remark in remarks_of(results)),
        _table(results),
        f"<details><summary>The rules</summary><dl>{rules}</dl></details>",
        *(_failure(model, name, check.message) for model, name, check in results.failures()),
        *(
            f"<details><summary>{_escape(model.name)}: hierarchy</summary>{_block(model.hierarchy)}</details>"
            for model in results.models
            if model.hierarchy
        ),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _table(results: Results) -> str:
    head = "".join(f"<th>{_escape(column)}</th>" for column in ("model", "exporter", "nodes", *results.columns))
    rows = "\n".join(f"<tr>{_row(results, model)}</tr>" for model in results.models)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"


def _row(results: Results, model: Model) -> str:
    cells = [f"<td>{_escape(model.name)}</td><td>{_escape(model.exporter)}</td><td>{model.nodes or ''}</td>"]
    for column in results.columns:
        status = model.status(column)
        word = status.value
        link = f'<a href="#{_escape(_anchor(model, column))}">{word}</a>' if status is Status.FAILED else word
        cells.append(f'<td class="{word}">{link}</td>')
    return "".join(cells)


def _failure(model: Model, check: str, message: str) -> str:
    heading = f"{_escape(model.name)}: {_escape(check)}"
    return f'<h2 id="{_escape(_anchor(model, check))}">{heading}</h2>\n{_block(message)}'


def _escape(text: str) -> str:
    """Return HTML that shows a line of text literally, its control characters escaped."""
    return html.escape(one_line(text))


def _block(text: str) -> str:
    """Return text of several lines as HTML; see :func:`_escape`."""
    return f"<pre>{html.escape(printable(text))}</pre>"


def _anchor(model: Model, check: str) -> str:
    return f"{model.name}--{check}".replace(" ", "-")
