"""Runs what the pages show, as a reader would who copies it into an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import DIRECTIVE, follow, in_fork

DOCS = Path(__file__).parents[1] / "docs"
SHOWING = [page for page in sorted(DOCS.rglob("*.md")) if DIRECTIVE.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", SHOWING, ids=[str(page.relative_to(DOCS)) for page in SHOWING])
def test_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    assert follow(page, tmp_path, in_fork)
