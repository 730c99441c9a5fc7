"""Formats the results of a run: a table, Markdown, JSON, a page of HTML, annotations of a pull request."""

from __future__ import annotations

from pathlib import Path

from pytest_hierexport._report.annotations import error_commands
from pytest_hierexport._report.ctrf import as_ctrf
from pytest_hierexport._report.data import as_json
from pytest_hierexport._report.markdown import as_markdown
from pytest_hierexport._report.page import as_html
from pytest_hierexport._report.results import Results
from pytest_hierexport._report.table import as_lines

__all__ = ["FORMATS", "as_ctrf", "as_html", "as_json", "as_lines", "as_markdown", "error_commands", "rendered"]

FORMATS = {".ctrf.json": as_ctrf, ".json": as_json, ".html": as_html, ".md": as_markdown}
"""The formats of reports, by the ending of the file's name."""


def rendered(results: Results, path: Path) -> str:
    """Return the results in the format that a file's name ends with, in capitals or not."""
    return next(form for ending, form in FORMATS.items() if path.name.lower().endswith(ending))(results)
