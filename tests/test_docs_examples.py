"""Runs what the pages show, as a reader would who copies it into an empty folder."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from pages import DIRECTIVE, follow, in_fork
from pytest_hierexport import export

DOCS = Path(__file__).parents[1] / "docs"
SHOWING = [page for page in sorted(DOCS.rglob("*.md")) if DIRECTIVE.search(page.read_text(encoding="utf-8"))]


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """Import here what the commands import: each of them runs in a fork of this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        export(torch.nn.Linear(1, 1), (torch.ones(1, 1),))


@pytest.mark.parametrize("page", SHOWING, ids=[str(page.relative_to(DOCS)) for page in SHOWING])
def test_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    assert follow(page, tmp_path, in_fork)
