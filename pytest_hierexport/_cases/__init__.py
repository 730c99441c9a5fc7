"""Turns selectors into cases: models with example inputs, and the options of their export."""

from __future__ import annotations

from pytest_hierexport._cases.case import Case, KnownFailure, Step
from pytest_hierexport._cases.example import Example
from pytest_hierexport._cases.selectors import select, select_one

__all__ = ["Case", "Example", "KnownFailure", "Step", "select", "select_one"]
