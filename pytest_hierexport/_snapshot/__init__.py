"""A hierarchy as the text that is committed, and what changed from one text to another."""

from __future__ import annotations

from pytest_hierexport._snapshot.rendering import is_snapshot, text

__all__ = ["is_snapshot", "text"]
