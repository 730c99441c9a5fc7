"""The results of a run for people and programs: a table, Markdown, JSON, a page of HTML."""

from __future__ import annotations

from pytest_hierexport.report.data import as_json
from pytest_hierexport.report.page import as_html
from pytest_hierexport.report.table import as_lines, as_markdown

__all__ = ["as_html", "as_json", "as_lines", "as_markdown"]
