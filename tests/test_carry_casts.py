"""Origins where a tool changed the precision: casts belong to the call whose value they convert."""

from __future__ import annotations

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._carry import carry
from test_carry import CALLS, carried, model

HALF = """g (float16[2, 2] x) => (float16[2, 2] y) <float16[2, 2] w = {15360, 16384, 16896, 17408}> {
    h = MatMul(x, w) p = Mul(h, h) y = Relu(p) }"""
OWNERS = {"h": "a", "p": "b", "y": "c"}


def test_casts_of_a_runtime_belong_to_the_converted_value() -> None:
    after = """g (float16[2, 2] x) => (float16[2, 2] y) <float16[2, 2] w = {15360, 16384, 16896, 17408}> {
        x32 = Cast<to = 1>(x) w32 = Cast<to = 1>(w) h32 = MatMul(x32, w32) p32 = Mul(h32, h32)
        p = Cast<to = 10>(p32) y = Relu(p) }"""
    assert carried(HALF, after, **OWNERS) == {
        "x32": [("a", "fused")],
        "w32": [("a", "folded")],
        "h32": [("a", "traced")],
        "p32": [("b", "traced")],
        "p": [("b", "fused")],
        "y": [("c", "traced")],
    }


def test_merged_and_doubled_casts_keep_one_owner() -> None:
    after = """g (float16[2, 2] x) => (float16[2, 2] y) <float16[2, 2] w = {15360, 16384, 16896, 17408}> {
        h = MatMul(x, w) one = Cast<to = 1>(h) other = Cast<to = 1>(h) p32 = Mul(one, other)
        again = Cast<to = 10>(p32) back = Cast<to = 1>(again) y32 = Relu(back) y = Cast<to = 10>(y32) }"""
    found = carried(HALF, after, **OWNERS)
    assert found["one"] == found["other"] == [("a", "fused")]
    assert found["again"] == found["back"] == [("b", "fused")]
    assert found["y"] == [("c", "fused")]


def test_value_is_known_by_the_name_of_its_float32_copy() -> None:
    """`h32` is cast nowhere, and computed in another way: that `32` is added, the casts of `x` and `p` show."""
    after = """g (float16[2, 2] x) => (float16[2, 2] y)
        <float16[2, 2] w = {15360, 16384, 16896, 17408}, float[2, 2] bias = {0.0, 0.0, 0.0, 0.0}> {
        x32 = Cast<to = 1>(x) w32 = Cast<to = 1>(w) h32 = Gemm(x32, w32, bias) s32 = Sqrt(h32) p32 = Exp(s32)
        p = Cast<to = 10>(p32) y = Relu(p) }"""
    found = carried(HALF, after, **OWNERS)
    assert found["h32"] == [("a", "fused")]
    assert found["s32"] == found["p32"] == [("b", "fused")]


def test_cast_of_the_model_keeps_its_origins() -> None:
    before = """g (float16[2] x) => (float[2] y) { h = Neg(x) c = Cast<to = 1>(h) y = Relu(c) }"""
    after = """g (float16[2] x) => (float[2] y) {
        x32 = Cast<to = 1>(x) h32 = Neg(x32) h = Cast<to = 10>(h32) c = Cast<to = 1>(h) y = Relu(c) }"""
    found = carried(before, after, h="a", c="b", y="c")
    assert found["c"] == [("b", "traced")]
    assert found["h"] == [("a", "fused")]
    assert found["y"] == [("c", "traced")]


def test_casts_to_integers_are_compared_like_all_nodes() -> None:
    before = """g (float16[2] x) => (float16[2] y) { n = Cast<to = 7>(x) f = Cast<to = 10>(n) y = Relu(f) }"""
    after = """g (float16[2] x) => (float16[2] y) {
        n = Cast<to = 7>(x) f = Cast<to = 10>(n) f32 = Cast<to = 1>(f) y32 = Relu(f32) y = Cast<to = 10>(y32) }"""
    found = carried(before, after, n="a", f="b", y="c")
    assert found["n"] == [("a", "traced")]
    assert found["f"] == [("b", "traced")]
    assert found["f32"] == [("b", "fused")]


def test_casts_from_and_to_integers_are_operations_of_their_own() -> None:
    before = """g (float16[2] x) => (float16[2] y) <float16 hi = {15360}> {
        h = Neg(x) n = Cast<to = 7>(h) f = Cast<to = 10>(n) y = Clip(f, , hi) }"""
    after = """g (float16[2] x) => (float16[2] y, float[2] x32) <float16 hi = {15360}> {
        x32 = Cast<to = 1>(x) t1 = Neg(x32) t2 = Cast<to = 7>(t1) t3 = Cast<to = 1>(t2) hi32 = Cast<to = 1>(hi)
        t4 = Clip(t3, , hi32) y = Cast<to = 10>(t4) }"""
    found = carried(before, after, h="a", n="b", f="c", y="d")
    assert [[call for call, _ in found[key]] for key in ("t1", "t2", "t3", "t4")] == [["a"], ["b"], ["c"], ["d"]]


def test_cast_that_no_node_takes_belongs_to_the_model() -> None:
    after = HALF.replace("=> (", "=> (float[2, 2] x32, ").replace("{\n", "{ x32 = Cast<to = 1>(x)\n")
    assert carried(HALF, after, **OWNERS)["x32"] == [("", "fused")]


def test_casts_inside_a_branch_belong_to_the_value_there() -> None:
    branch = "g (float16[2] x, bool c) => (float16[2] y) {{ y = If(c) <then_branch = t () => (float16[2] u) {{ {} }}, "
    branch += "else_branch = e () => (float16[2] v) {{ v = Exp(x) }}> }}"
    after = branch.format("x32 = Cast<to = 1>(x) u32 = Neg(x32) u = Cast<to = 10>(u32)")
    found = carried(branch.format("u = Neg(x)"), after, y="a", u="b", v="c")
    assert found["y/then_branch/u"] == [("b", "fused")]
    assert found["y/then_branch/u32"] == [("b", "traced")]
    assert found["y/else_branch/v"] == [("c", "traced")]


def test_branches_of_renamed_condition_keep_their_calls() -> None:
    before = """g (float[2] x, bool c) => (float[2] y) <float[2] w = {1.0, 2.0}, float[2] v = {3.0, 4.0}> { y = If(c) <
        then_branch = t () => (float[2] scaled) { n = Neg(x) scaled = Mul(n, w) },
        else_branch = e () => (float[2] moved) { m = Neg(x) moved = Mul(m, v) }> }"""
    after = """g (float[2] x, bool c) => (float[2] y)
        <float16[2] w = {15360, 16384}, float16[2] v = {16896, 17408}, float16[2] y16> {
        x16 = Cast<to = 10>(x)
        y16 = If(c) <
            then_branch = t () => (float16[2] scaled) { n = Neg(x16) scaled = Mul(n, w) },
            else_branch = e () => (float16[2] moved) { m = Neg(x16) moved = Mul(m, v) }>
        y = Cast<to = 1>(y16) }"""
    found = carried(before, after, n="a", scaled="a", m="b", moved="b")
    assert {call for key in ("n", "scaled") for call, _ in found[f"y16/then_branch/{key}"]} == {"a"}
    assert {call for key in ("m", "moved") for call, _ in found[f"y16/else_branch/{key}"]} == {"b"}


def test_float16_without_casts_keeps_owners() -> None:
    typed = ", ".join(f"float[2] {name}" for name in "pquvmnst")
    body = "m=Sigmoid(x) p=Mul(m,k) u=Mul(x,l) s=Add(u,p) n=Sigmoid(x) q=Mul(n,k) v=Exp(s) t=Add(v,q) y=Tanh(t)"
    constants = "float[2] l = {1.5, 2.5}, float[2] k = {2.5, 1.5}"
    before = f"g (float[2] x) => (float[2] y) <{typed}, {constants}> {{ {body} }}"
    after = before.replace("float[", "float16[").replace("{1.5, 2.5}", "{15872, 16640}")
    after = after.replace("{2.5, 1.5}", "{16640, 15872}")
    found = carried(before, after, m="a", p="a", u="b", s="b", n="c", q="c", v="d", t="d", y="d")
    assert (found["q"], found["y"]) == ([("c", "fused")], [("d", "traced")])


def test_cast_of_an_untyped_mask_keeps_its_call() -> None:
    before = "g (float[2] x) => (float[2] y) { u = Less(x, x) v = Cast<to = 1>(u) y = Mul(x, v) }"
    found = carried(before, before.replace("v", "w"), u="a", v="b", y="c")
    assert found["w"] == [("b", "traced")]


def test_source_of_a_new_cast_keeps_its_name() -> None:
    graph = """g (float[2] x, float16[2] like, float p, bool t) => (float16[2] y, float[2] w)
        <float[2] u, float16[2] v> { u = Dropout(x, p, t) v = %s y = Relu(v) w = Sin(u) }"""
    found = carried(graph % "CastLike(u, like)", graph % "Cast<to = 10>(u)", u="a", v="b", w="c", y="d")
    assert (found["u"], found["w"]) == ([("a", "traced")], [("c", "traced")])


def test_cast_of_an_input_belongs_to_who_reads_elements() -> None:
    before = "g (float[n, 2] x) => (int64[2] s, float[n, 2] y) { s = Shape(x) y = Relu(x) }"
    after = """g (float[n, 2] x) => (int64[2] s, float[n, 2] y) {
        x16 = Cast<to = 10>(x) s = Shape(x16) y16 = Relu(x16) y = Cast<to = 1>(y16) }"""
    assert carried(before, after, s="a", y="b")["x16"] == [("b", "fused")]


def test_cast_for_a_shared_shape_belongs_to_the_caller() -> None:
    before = "g (float[n, 2] x) => (int64[2] s, int64[2] t) { s = Shape(x) t = Abs(s) }"
    after = "g (float[n, 2] x) => (int64[2] s, int64[2] t) { x16 = Cast<to = 10>(x) s = Shape(x16) t = Abs(s) }"
    shared = tuple(Origin(call, Evidence.MERGED) for call in "ab")
    owners = Attribution(CALLS, {"s": shared, "t": (Origin("a", Evidence.TRACED),)}, {})
    found = carry(model(before), owners, model(after))
    assert found.nodes["x16"] == (Origin("", Evidence.FUSED),)
    assert found.nodes["s"] == shared


def test_new_cast_in_a_function_belongs_to_all_its_calls() -> None:
    head = """g (float[2] x) => (float[2] y) { p = Neg(x) q = local.F(p) r = Neg(q) y = local.F(r) }
        <domain: "local", opset_import: ["": 20]> F (i) => (o) """
    before = model(f"{head} {{ o = Relu(i) }}")
    after = model(f"{head} {{ c = Cast<to = 10>(i) d = Relu(c) o = Cast<to = 1>(d) }}")
    owners = {key: (Origin(call, Evidence.TRACED),) for key, call in zip("pqry", "aabb", strict=True)}
    inside = tuple(Origin(call, Evidence.TRACED) for call in "ab")
    found = carry(before, Attribution(CALLS, {**owners, "local::F:://o": inside}, {}), after).nodes
    assert [origin.call for origin in found["local::F:://c"]] == ["a", "b"]


def test_renamed_casts_of_the_model_keep_their_calls() -> None:
    graph = """g (float[2] x) => (float[2] y) {{
        {0} = Neg(x) {1} = Cast<to = 10>({0}) {2} = Exp({1}) {3} = Cast<to = 1>({2}) y = Relu({3}) }}"""
    found = carried(graph.format(*"hced"), graph.format(*"tuvw"), h="a", c="b", e="c", d="d", y="a")
    assert (found["u"], found["w"]) == ([("b", "traced")], [("d", "traced")])
