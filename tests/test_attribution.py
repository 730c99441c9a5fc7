"""Origins of nodes: which comes first, and how many are known how well."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pytest

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Primary, order_origins
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._errors import UsageError

HIERARCHY = Hierarchy(
    [
        Call("", 0, "m.Net", None),
        Call("body", 0, "m.Body", ""),
        Call("body.a", 0, "m.Block", "body"),
        Call("body.b", 0, "m.Block", "body"),
        Call("head", 0, "m.Head", ""),
    ]
)


def traced(*names: str) -> list[Origin]:
    return [Origin(name, Evidence.TRACED) for name in names]


class TestOrder:
    def test_the_call_that_ran_first_is_the_primary(self) -> None:
        assert order_origins(HIERARCHY, traced("head", "body.b", "body.a")) == tuple(traced("body.a", "body.b", "head"))

    def test_a_call_is_listed_once_with_its_strongest_evidence(self) -> None:
        origins = [
            Origin("head", Evidence.DERIVED),
            Origin("head", Evidence.MERGED),
            Origin("head", Evidence.FUSED),
        ]
        assert order_origins(HIERARCHY, origins) == (Origin("head", Evidence.MERGED),)

    def test_no_origins_stay_none(self) -> None:
        assert order_origins(HIERARCHY, []) == ()

    def test_the_nearest_ancestor_of_all_may_be_the_primary(self) -> None:
        found = order_origins(HIERARCHY, traced("body.b", "body.a"), "ancestor")
        assert found == tuple(traced("body", "body.a", "body.b"))

    def test_an_ancestor_among_the_origins_keeps_its_own_evidence(self) -> None:
        origins = [Origin("body", Evidence.FUSED), *traced("body.a")]
        assert order_origins(HIERARCHY, origins, "ancestor") == tuple(origins)

    def test_a_single_origin_is_its_own_ancestor(self) -> None:
        assert order_origins(HIERARCHY, traced("body.a"), "ancestor") == tuple(traced("body.a"))

    def test_the_user_s_function_chooses_among_the_ordered_origins(self) -> None:
        def last(_: Hierarchy, origins: Sequence[Origin]) -> Origin:
            return origins[-1]

        found = order_origins(HIERARCHY, traced("body.b", "head", "body.a"), last)
        assert found == tuple(traced("head", "body.a", "body.b"))

    @pytest.mark.parametrize("primary", ["last", "", lambda h, o: None, lambda h, o: Origin("gone", Evidence.TRACED)])
    def test_a_policy_that_names_no_origin_is_a_usage_error(self, primary: Primary) -> None:
        with pytest.raises(UsageError, match="primary"):
            order_origins(HIERARCHY, traced("body.a", "body.b"), primary)


def test_origin_takes_the_text_of_an_evidence() -> None:
    origin = Origin("head", "merged")  # type: ignore[arg-type]  # as code without types may write it
    assert origin.evidence is Evidence.MERGED
    with pytest.raises(ValueError, match="'guessed' is not a valid Evidence"):
        Origin("head", "guessed")  # type: ignore[arg-type]


class TestAttribution:
    def test_a_node_s_tag_is_that_of_its_primary_origin(self) -> None:
        attribution = Attribution(HIERARCHY, {"y": tuple(traced("body.b", "head"))})
        assert attribution.tag("y") == "/Net/Body/Block.b"

    @pytest.mark.parametrize("node", ["unknown", "untagged"])
    def test_a_node_without_origins_has_no_tag(self, node: str) -> None:
        with pytest.raises(KeyError):
            Attribution(HIERARCHY, {"untagged": ()}).tag(node)

    def test_coverage_counts_every_node_once_by_its_primary_evidence(self) -> None:
        attribution = Attribution(
            HIERARCHY,
            {
                "a": (Origin("head", Evidence.TRACED), Origin("body", Evidence.DERIVED)),
                "b": (Origin("head", Evidence.FUSED),),
                "c": (Origin("body", Evidence.FUSED),),
                "d": (),
            },
        )
        expected = {"traced": 1, "merged": 0, "fused": 2, "folded": 0, "derived": 0, "untagged": 1}
        assert attribution.coverage() == expected

    def test_an_initializer_of_which_nothing_is_known_is_not_listed(self) -> None:
        origins = tuple(traced("head"))
        assert Attribution(HIERARCHY, {}, {"w": origins, "x": ()}) == Attribution(HIERARCHY, {}, {"w": origins})


@pytest.mark.parametrize(
    ("ask", "expected", "do"),
    [
        (lambda a: a.nodes_of("bod.a"), "call", "perhaps body.a"),
        (lambda a: a.nodes_of("/Net/Body"), "call", "name the call of that tag: 'body'"),
        (lambda a: a.nodes_of(None), "call", "give it as a text"),
        (lambda a: a.hierarchy.tag("/Net/Body"), "call", "name the call of that tag: 'body'"),
        (lambda a: a.hierarchy.resolve("/Net/Bod"), "tag", "perhaps /Net/Body"),
        (lambda a: a.hierarchy.resolve("body"), "tag", "give the tag of that call: /Net/Body"),
        (lambda a: a.tag("matmul_7"), "key of a node", "perhaps matmul_1"),
        (lambda a: a.tag("untagged"), "node with an origin", "ask `nodes`"),
        (lambda a: a.tag(None), "key of a node", "give it as a text"),
        (lambda a: a.hierarchy.tag(a.hierarchy["body.a"]), "call", "give it as a text"),
        (lambda a: a.hierarchy["body.z"], "name of a call", "perhaps body.b, body.a"),
        (lambda a: list(a.hierarchy.lineage("/Net/Body")), "name of a call", "name the call of that tag: 'body'"),
    ],
)
def test_unknown_name_is_answered_with_what_there_is(
    ask: Callable[[Attribution], object], expected: str, do: str
) -> None:
    attribution = Attribution(HIERARCHY, {"matmul_1": tuple(traced("body.a")), "untagged": ()})
    with pytest.raises(KeyError) as caught:
        ask(attribution)
    first, second = str(caught.value).splitlines()
    assert expected in first
    assert second.startswith(f"to do: {do}")
    assert str(caught.value) in str(pickle.loads(pickle.dumps(caught.value)).args[0])  # noqa: S301  # our own
