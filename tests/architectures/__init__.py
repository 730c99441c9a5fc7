"""Random module trees, each a short program that a person can read, run and paste into an issue."""

from __future__ import annotations

from architectures.features import Features, features
from architectures.generate import generate
from architectures.program import Program

__all__ = ["Features", "Program", "features", "generate"]
