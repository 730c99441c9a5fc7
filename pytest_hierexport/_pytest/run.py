"""Bundles what the items, fixtures and hooks of a session share: the plan, the store of exports, the crashes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_hierexport._pytest.crashes import Crashes
from pytest_hierexport._pytest.plan import Plan
from pytest_hierexport._pytest.store import ExportStore

__all__ = ["RUN", "Run"]


@dataclass(frozen=True)
class Run:
    """A session with models."""

    plan: Plan
    store: ExportStore
    crashes: Crashes
    folder: Path
    """The run folder, outside the project, which all processes of the run share."""


RUN: pytest.StashKey[Run] = pytest.StashKey()
"""Where a session's configuration keeps its run."""
