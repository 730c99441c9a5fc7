"""Runs the graph and the model on the same input and shows, call by call, that the tags are right.

In go an example, its graph and the attribution; out comes a `Proof`, by `prove.prove`. An example is in :mod:`verdict
<pytest_hierexport._proof.verdict>`. The steps:

1. `feeds`: pair the inputs of the example with those of the graph. `inlining`, `in_functions`, `owners`: put functions,
   and the branches that are taken, into the main graph; note the owners of nodes.
2. `eager`, `call_values`, `shared`, `values`: run the model; give each value that a call takes or gives a number, equal
   ones one.
3. `session`, `candidates`: run the graph on the same inputs; find which of these numbers its values may have.
4. `matching`, `both_runs`: put the calls of the model beside those of the graph.
5. `verdict`, `lost_values`, `loose`: judge each call by the values that enter and leave its nodes.
6. `prove`: does all this, and does it again in other ways while a call is left unproven (`crossings`, `choices`,
   `precision`, `in_float64`).

Values are compared by `fingerprints` and `tolerance`; close ones are told apart by `directions`, other forms of one are
found by `arrangements`. `state` and `unfollowed` answer questions of rules alone.
"""

from __future__ import annotations

from pytest_hierexport._proof.loose import LooseOwner
from pytest_hierexport._proof.prove import Proof, prove
from pytest_hierexport._proof.verdict import Verdict, VerdictKind

__all__ = ["LooseOwner", "Proof", "Verdict", "VerdictKind", "prove"]
