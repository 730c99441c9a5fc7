"""Loose owners: calls that own a node without consuming it or returning it."""

from __future__ import annotations

import pytest

from pytest_hierexport._proof.loose import loose_owners, pairs
from test_proof_verdict import runs_of

CHAIN = "g (float[2] x) => (float[2] z) { t = Exp(x) h = Neg(t) z = Relu(h) }"
CALLS = {"/": ("x", "z"), "a": ("x", "h"), "b": ("h", "z")}


def loose(tags: dict[str, str], text: str = CHAIN) -> list[tuple[str, str]]:
    return [(each.node, each.call) for each in loose_owners(runs_of(text, tags, CALLS))]


def test_owner_that_does_not_consume_the_node_is_loose() -> None:
    assert loose({"t": "a b", "h": "a", "z": "b"}) == [("t", "b")]


@pytest.mark.parametrize(
    "tags",
    [
        {"t": "a", "h": "a", "z": "b"},
        {"t": "a", "h": "a b", "z": "b"},
        {"t": "a /", "h": "a", "z": "b"},
    ],
)
def test_owner_that_consumes_or_returned_it_is_not_loose(tags: dict[str, str]) -> None:
    assert loose(tags) == []


def test_pairs_count_each_owner_of_each_node() -> None:
    assert pairs(runs_of(CHAIN, {"t": "a b", "h": "a", "z": "b"}, CALLS)) == 4
