"""The results of a run for people and programs: a table, Markdown, JSON, a page of HTML."""

from __future__ import annotations

from pytest_hierexport._report.data import as_json
from pytest_hierexport._report.page import as_html
from pytest_hierexport._report.table import as_lines, as_markdown

__all__ = ["as_html", "as_json", "as_lines", "as_markdown"]
