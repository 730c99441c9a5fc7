"""Origins where a tool computes a merged node once for each consumer again."""

from __future__ import annotations

import pytest

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._carry import carry
from test_carry import CALLS, carried, model

MERGED = """g (float[2] x) => (float[2] y, float[2] z) {
    s = Sin(x) m = Exp(s) y = Neg(m) z = Abs(m) }"""
OWNERS = {"s": "ab", "m": "ab", "y": "a", "z": "b"}


def copied(after: str, **owners: str) -> dict[str, list[tuple[str, str]]]:
    """Carry the merged graph with its owners, the first of which is traced; the others were merged into it."""
    kinds = (Evidence.TRACED, Evidence.MERGED, Evidence.MERGED)
    nodes = {
        name: tuple(Origin(call.replace("r", ""), kind) for call, kind in zip(calls, kinds, strict=False))
        for name, calls in {**OWNERS, **owners}.items()
    }
    found = carry(model(MERGED), Attribution(CALLS, nodes, {}), model(after)).nodes
    return {key: [(o.call, o.evidence.value) for o in origins] for key, origins in found.items()}


@pytest.mark.parametrize(("first", "second"), [("m", "copy"), ("copy", "m"), ("one", "other")])
def test_each_copy_keeps_the_owner_whose_consumers_take_it(first: str, second: str) -> None:
    after = MERGED.replace("m = Exp(s)", f"{first} = Exp(s) {second} = Exp(s)")
    found = copied(after.replace("Neg(m)", f"Neg({first})").replace("Abs(m)", f"Abs({second})"))
    assert [[call for call, _ in found[name]] for name in (first, second)] == [["a"], ["b"]]
    assert found["s"] == [("a", "traced"), ("b", "merged")]
    assert ("b", "merged") not in found[second]


def test_chains_of_copies_keep_one_owner_each_all_along() -> None:
    after = """g (float[2] x) => (float[2] y, float[2] z) {
        s = Sin(x) m = Exp(s) y = Neg(m) t = Sin(x) n = Exp(t) z = Abs(n) }"""
    found = copied(after)
    assert found["s"] == found["m"] == [("a", "traced")]
    assert found["t"] == found["n"] == [("b", "fused")]


@pytest.mark.parametrize(("taken", "owners"), [("n", {"y": "c"}), ("n", {"z": "a"}), ("m", {})])
def test_where_an_owner_or_copy_is_left_all_are_kept(taken: str, owners: dict[str, str]) -> None:
    after = MERGED.replace("m = Exp(s)", "m = Exp(s) n = Exp(s)").replace("Abs(m)", f"Abs({taken})")
    found = copied(after, **owners)
    assert {call for call, _ in found["m"]} == {call for call, _ in found["n"]} == {"a", "b"}


def test_equal_nodes_that_are_no_copies_keep_their_own_calls() -> None:
    graph = "g (float[2] x) => (float[2] y, float[2] z) { u = Sin(x) v = Sin(x) y = Neg(u) z = Abs(v) }"
    found = carried(graph, graph, u="a", v="b", y="b", z="a")
    assert found["u"] == [("a", "traced")]
    assert found["v"] == [("b", "traced")]


def test_copy_belongs_to_the_nearest_owner_above_its_consumers() -> None:
    after = MERGED.replace("m = Exp(s)", "m = Exp(s) n = Exp(s)").replace("Abs(m)", "Abs(n)")
    found = copied(after, m="ra", z="r")
    assert [call for call, _ in found["m"]] == ["a"]
    assert [call for call, _ in found["n"]] == [""]
