"""Runs the graph and the model on the same input and shows, call by call, that the tags are right.

An example is in :mod:`verdict <pytest_hierexport._proof.verdict>`. The steps, each in modules of its own:

1. `inlining`, `owners`: put functions, and the branches that are taken, into the main graph; note the owners of nodes.
2. `eager`, `call_values`, `values`: run the model; give each value that a call takes or gives a number, equal ones one.
3. `feeds`, `session`, `candidates`: run the graph on the same inputs; find which of these numbers its values may have.
4. `matching`, `both_runs`: put the calls of the model beside those of the graph.
5. `verdict`, `lost_values`, `loose`: judge each call by the values that enter and leave its nodes.
6. `prove`: does all this, and does it again in other ways while a call is left unproven (`choices`, `precision`).
"""

from __future__ import annotations

from pytest_hierexport._proof.loose import LooseOwner
from pytest_hierexport._proof.prove import Proof, prove
from pytest_hierexport._proof.verdict import Verdict, VerdictKind

__all__ = ["LooseOwner", "Proof", "Verdict", "VerdictKind", "prove"]
