"""Writes a hierarchy as the text of a snapshot, and compares two such texts."""

from __future__ import annotations

from pytest_hierexport._snapshot.details import details, is_detailed
from pytest_hierexport._snapshot.rendering import has_conflict, is_hierarchy, is_snapshot, text, tree

__all__ = ["details", "has_conflict", "is_detailed", "is_hierarchy", "is_snapshot", "text", "tree"]
