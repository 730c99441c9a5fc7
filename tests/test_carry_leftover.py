"""Origins of what no other pass knows: constants, initializers, callers, bodies, and what a tool put around a model."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from pytest_hierexport import carry
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._carry.tensors import SMALL
from test_carry import CALLS, carried, held, holding, known, model

LARGE = np.arange(SMALL, dtype=np.float32)


def initializers(before: ir.Model, owners: dict[str, str], after: ir.Model, **calls: str) -> dict[str, list[str]]:
    """Carry origins; return those of the initializers. Other nodes and initializers before belong to the root."""
    stored = {name: (Origin(owners.get(name, ""), Evidence.TRACED),) for name in before.graph.initializers}
    found = carry(before, Attribution(CALLS, known(before, **calls).nodes, stored), after)
    return {key: [f"{o.call} {o.evidence.value}" for o in origins] for key, origins in found.initializers.items()}


SCALED = "g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Mul(x, w) }"


def test_initializer_that_stays_keeps_its_owner() -> None:
    assert initializers(model(SCALED), {"w": "c"}, model(SCALED), y="a") == {"w": ["c traced"]}


def test_initializer_in_a_function_s_branch_keeps_its_owner() -> None:
    graph = model("""g (float[2] x, bool c) => (float[2] y) { y = local.f(x, c) }
        <domain: "local", opset_import: ["": 20]> f (x, c) => (o) { o = If(c) <
            then_branch = t () => (q) <float[2] w = {1.0, 2.0}> { q = Add(x, w) },
            else_branch = e () => (q) { q = Neg(x) }> }""")
    key = "local::f:://o/then_branch/w"
    owned = Attribution(CALLS, known(graph, q="a").nodes, {key: (Origin("b", Evidence.TRACED),)})
    assert carry(graph, owned, graph).initializers == owned.initializers


def test_new_initializer_has_the_calls_of_its_consumers() -> None:
    after = "g (float[2] x) => (float[2] y) <float[2] k = {7.0, 8.0}> { h = Add(x, k) y = Exp(h) }"
    before = "g (float[2] x) => (float[2] y) { y = Exp(x) }"
    assert initializers(model(before), {}, model(after), y="b") == {"k": ["b folded"]}


MERGED = """g (float[1024] x) => (float[1024] y, float[1024] z) {
    c = Neg(w) y = Mul(x, c) d = Neg(w) z = Div(x, d) }"""


def test_equal_value_that_was_folded_apart_is_no_owner() -> None:
    after = "g (float[1024] x) => (float[1024] y, float[1024] z) { y = Mul(x, c) z = Div(x, d) }"
    before, folded = holding(MERGED, "w", LARGE), held(holding(after, "c", -LARGE), "d", -LARGE)
    assert initializers(before, {}, folded, c="a", d="b") == {"c": ["a folded"], "d": ["b folded"]}


def test_shared_node_folded_twice_belongs_to_each_consumer() -> None:
    graph = "g (float[1024] x) => (float[1024] y, float[1024] z) {{ {} y = Mul(x, c) z = Div(x, d) }}"
    before = holding(graph.format("i = Neg(w) c = Exp(i) d = Tanh(i)"), "w", LARGE)
    folded = held(holding(graph.format(""), "c", np.exp(-LARGE)), "d", np.tanh(-LARGE))
    nodes = {**known(before, c="a", d="b").nodes, "i": (Origin("a", Evidence.TRACED), Origin("b", Evidence.MERGED))}
    found = carry(before, Attribution(CALLS, nodes), folded).initializers
    assert found == {"c": (Origin("a", Evidence.FOLDED),), "d": (Origin("b", Evidence.FOLDED),)}


def test_shared_small_constant_keeps_its_own_call_alone() -> None:
    before = """g (float[2] x) => (float[2] y, float[2] z) {
        c = Constant<value_float = 2.0>() y = Mul(x, c) d = Constant<value_float = 2.0>() z = Div(x, d) }"""
    after = "g (float[2] x) => (float[2] y, float[2] z) <float c = {2.0}> { y = Mul(x, c) z = Div(x, c) }"
    assert initializers(model(before), {}, model(after), c="a", d="b", y="a", z="b") == {"c": ["a folded"]}


def test_small_initializer_of_another_name_is_a_new_one() -> None:
    assert initializers(model(SCALED), {"w": "c"}, model(SCALED.replace("w", "k")), y="a") == {"k": ["a folded"]}


def test_small_initializer_with_a_prefix_is_the_same() -> None:
    after = "g (float[2] m_x) => (float[2] m_y) <float[2] m_w = {1.0, 2.0}> { m_y = Mul(m_x, m_w) }"
    assert initializers(model(SCALED), {"w": "c"}, model(after), y="a") == {"m_w": ["c traced"]}


def test_caller_of_a_function_has_its_body_s_common_call() -> None:
    hierarchy = Hierarchy(
        [Call("", 0, "m.Root", None), *(Call(name, 0, "m.X", name[:-2]) for name in ("a", "a.b", "a.c"))]
    )
    before = model("g (float[2] x) => (float[2] z) { h = Neg(x) y = Sin(h) z = Exp(y) }")
    nodes = {key: (Origin(call, Evidence.TRACED),) for key, call in {"h": "a.b", "y": "a.c", "z": ""}.items()}
    after = model("""g (float[2] x) => (float[2] z) { y = local.f(x) z = Exp(y) }
        <domain: "local", opset_import: ["": 20]> f (x) => (o) { h = Neg(x) o = Sin(h) }""")
    found = carry(before, Attribution(hierarchy, nodes, {}), after).nodes
    assert {key: [(o.call, o.evidence.value) for o in origins] for key, origins in found.items() if "/" not in key} == {
        "y": [("a", "fused")],
        "z": [("", "traced")],
    }


FUNCTION = '<domain: "local", opset_import: ["": 20]> f (p, k) => (q) { q = Clip(p, k) }'


def test_call_of_a_function_with_other_weights_keeps_its_owner() -> None:
    graph = f"g (float[2] x) => (float[2] y) <float[2] w = {{1.0, 2.0}}> {{ y = local.f(x, w) }} {FUNCTION}"
    assert carried(graph, graph.replace("2.0}", "0.0}"), y="a", q="b")["y"] == [("a", "traced")]


def test_equal_function_calls_keep_owners_in_any_order() -> None:
    graph = f"g (float[2] x) => (float[2] y, float[2] z) {{ %s }} {FUNCTION}"
    one, other = "y = local.f(x, x)", "z = local.f(x, x)"
    found = carried(graph % f"{one} {other}", graph % f"{other} {one}", y="a", z="b")
    assert (found["y"], found["z"]) == ([("a", "traced")], [("b", "traced")])


CHAIN = "g (float[2] x, bool c) => (float[2] z) { h = Neg(x) z = Exp(h) }"
MODEL = "h = Neg(x) z = Exp(h)"
STORED = "<float[2] k = {1.0, 2.0}>"
BRANCHES = """q = If(c) <then_branch = t () => (float[2] o) { i = Neg(x) o = Exp(i) },
                     else_branch = e () => (float[2] o) { o = Cos(x) }>"""


@pytest.mark.parametrize(
    ("after", "new"),
    [
        # In front: between a new input and the model's first operation.
        (f"g (float[2] raw) => (float[2] z) {STORED} {{ r = Add(raw, k) n = Sin(r) h = Neg(n) z = Exp(h) }}", "rn"),
        # Behind: computed from what the model gave.
        (f"g (float[2] x) => (float[2] q) {STORED} {{ {MODEL} p = Add(z, k) q = Sin(p) }}", "pq"),
        # Beside: computed from a new input alone.
        (
            f"g (float[2] x, float[2] m) => (float[2] z, float[2] q) {STORED} {{ {MODEL} p = Add(m, k) q = Sin(p) }}",
            "pq",
        ),
    ],
)
def test_nodes_around_the_model_are_the_root_s(after: str, new: str) -> None:
    found = carried(CHAIN, after, h="a", z="b")
    assert found == {**{key: [("", "fused")] for key in new}, "h": [("a", "traced")], "z": [("b", "traced")]}


LOOP = """Loop(n, go, x) <body = body (int64 i, bool c, float[2] s) => (bool again, float[2] next) {
    again = Identity(c) %s }>"""


@pytest.mark.parametrize("text", [LOOP % "next = Exp(s)", "Bernoulli(x)"])
@pytest.mark.parametrize("noise", [False, True])
def test_nodes_before_a_known_input_are_the_root_s(text: str, noise: bool) -> None:
    head = "g (float[2] x, int64 n, bool go) => (float[2] y)"
    put = "q = RandomNormal<shape = [2]>() p = Sin(x) r = Add(p, q)" if noise else "q = Sin(x) p = Neg(q) r = Abs(p)"
    found = carried(f"{head} {{ y = {text} }}", f"{head} {{ {put} y = {text.replace('x)', 'r)', 1)} }}", y="a")
    assert [found[key] for key in "pqr"] == [[("", "fused")]] * 3


def test_node_before_an_inner_value_is_derived() -> None:
    before = "g (float[2] x) => (float[2] y) { h = Neg(x) y = Bernoulli(h) }"
    after = "g (float[2] x) => (float[2] y) { h = Neg(x) p = Sin(h) y = Bernoulli(p) }"
    assert carried(before, after, h="a", y="b")["p"] == [("a", "derived")]


@pytest.mark.parametrize(
    ("after", "unknown"),
    [
        # Takes a value of the model that it does not return.
        (f"g (float[2] x) => (float[2] z, float[2] q) {{ {MODEL} p = Abs(h) q = Sin(p) }}", "p q"),
        # Takes no input.
        (f"g (float[2] x) => (float[2] z, float[2] q) {{ {MODEL} p = RandomNormal<shape = [2]>() q = Sin(p) }}", "p q"),
        # The nodes of one branch say nothing of the other, nor of what chooses between them.
        (f"g (float[2] x, bool c) => (float[2] z, float[2] q) {{ {MODEL} {BRANCHES} }}", "q q/else_branch/o"),
    ],
)
def test_what_cannot_be_placed_is_derived(after: str, unknown: str) -> None:
    found = carried(CHAIN, after, h="a", z="b")
    assert {key for key, origins in found.items() if origins[0][1] == "derived"} == set(unknown.split())


@pytest.mark.parametrize(("body", "derived"), [("i = Sin(x) o = Cos(i)", 3), ("i = Neg(x) o = Cos(i)", 1)])
def test_unknown_node_of_a_function_is_derived(body: str, derived: int) -> None:
    after = f"""g (float[2] x) => (float[2] z, float[2] q) {{ {MODEL} q = local.f(x) }}
        <domain: "local", opset_import: ["": 20]> f (x) => (o) {{ {body} }}"""
    found = carried(CHAIN, after, h="a", z="b")
    assert sum(evidence == "derived" for ((_, evidence), *_) in found.values()) == derived


LOOPS = "g (float[2] x, int64 n, bool go) => (float[2] y) { y = %s }"


def test_node_in_a_body_keeps_its_own_owners() -> None:
    graph = model(LOOPS % (LOOP % "next = Neg(s)"))
    owners = {"y": "ab", "y/body/again": "a", "y/body/next": "a"}
    nodes = {key: tuple(Origin(call, Evidence.TRACED) for call in calls) for key, calls in owners.items()}
    assert carry(graph, Attribution(CALLS, nodes, {}), graph).nodes == nodes


def test_function_elsewhere_says_nothing_of_an_inlined_body() -> None:
    head = "g (float[2] x, int64 n, bool go) => (float[2] z)"
    loop = LOOP % "d = Add(s, s) next = Neg(d)"
    other = '<domain: "local", opset_import: ["": 20]> f (x) => (o) { h = Exp(x) o = Sin(h) }'
    before = model(f"""{head} {{ y = local.loop(x, n, go) z = local.f(y) }}
        <domain: "local", opset_import: ["": 20]> loop (x, n, go) => (y) {{ y = {loop} }}
        {other}""")
    calls = known(before, y="a", again="a", d="a", next="a", z="a", h="b", o="b")
    after = model(f"{head} {{ y = {LOOP % 'p = Abs(s) next = Exp(p)'} z = local.f(y) }} {other}")
    found = carry(before, calls, after).nodes
    assert {(o.call, o.evidence) for key in ("y/body/p", "y/body/next") for o in found[key]} == {("a", Evidence.FUSED)}


def test_another_graph_has_nothing_of_the_model() -> None:
    found = carried(CHAIN, "g (float[3] m) => (float[3] q) { p = Abs(m) q = Sin(p) }", h="a", z="b")
    assert found == {"p": [("", "derived")], "q": [("", "derived")]}


def test_node_behind_a_returned_input_belongs_to_the_model() -> None:
    before = "g (float[2] x) => (float[2] x, float[2] y) { y = Exp(x) }"
    after = "g (float[2] x) => (float[2] x, float[2] y, float[2] q) { y = Exp(x) q = Sin(x) }"
    assert carried(before, after, y="a") == {"y": [("a", "traced")], "q": [("", "fused")]}


def test_weight_in_a_renamed_constant_node_is_known_by_content() -> None:
    before = holding("g (float[1, 1024] x) => (float[1, 1024] z) { y = Mul(x, w) z = Relu(y) }", "w", LARGE)
    after = model("g (float[1, 1024] x) => (float[1, 1024] z) { u = Constant() t = Mul(x, u) z = Relu(t) }")
    after.graph[0].attributes.add(ir.AttrTensor("value", ir.tensor(LARGE)))
    found = carry(before, known(before, y="a", z="b"), after).nodes
    assert [found[key] for key in "tz"] == [(Origin(call, Evidence.TRACED),) for call in "ab"]
