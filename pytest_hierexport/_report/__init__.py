"""Formats the results of a run: a table, Markdown, JSON, a page of HTML, annotations of a pull request."""

from __future__ import annotations

from pytest_hierexport._report.annotations import error_commands
from pytest_hierexport._report.data import as_json
from pytest_hierexport._report.page import as_html
from pytest_hierexport._report.table import as_lines, as_markdown

__all__ = ["as_html", "as_json", "as_lines", "as_markdown", "error_commands"]
