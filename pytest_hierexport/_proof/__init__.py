"""Runs the graph and the model on the same input and shows, call by call, that the tags are right."""

from __future__ import annotations

from pytest_hierexport._proof.loose import LooseOwner
from pytest_hierexport._proof.prove import Proof, prove
from pytest_hierexport._proof.verdict import Verdict, VerdictKind

__all__ = ["LooseOwner", "Proof", "Verdict", "VerdictKind", "prove"]
