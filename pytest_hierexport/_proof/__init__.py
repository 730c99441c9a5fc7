"""Running the graph and the model on the same input, to show call by call that the tags are right."""

from __future__ import annotations

from pytest_hierexport._proof.prove import Proof, prove
from pytest_hierexport._proof.verdict import Kind, Verdict

__all__ = ["Kind", "Proof", "Verdict", "prove"]
