"""Models with their inputs, and what may be asked for to get them."""

from __future__ import annotations

from pytest_hierexport._cases.case import Case, Example, KnownFailure
from pytest_hierexport._cases.selectors import select

__all__ = ["Case", "Example", "KnownFailure", "select"]
