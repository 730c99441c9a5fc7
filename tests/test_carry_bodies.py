"""Origins inside the bodies of loops and branches."""

from __future__ import annotations

import re
from pathlib import Path

import onnx_ir as ir
import pytest
import torch
from torch import nn

from pytest_hierexport import Example, carry, export, prove
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._carry import Attributed, carry_flat, flat_copy
from pytest_hierexport._carry.flat import Node
from pytest_hierexport._onnx.graph import walk
from test_carry import CALLS, carried

HEAD = '<ir_version: 10, opset_import: ["": 20, "local": 1]>'
LOOP = """Loop(n, go, x) <body = body (int64 i, bool c, float[2] state) => (bool again, float[2] next) {
    again = Identity(c) %s }>"""
TOOL = f"""{HEAD} g (float[2] x, int64 n, bool go) => (float[2] y) {{
    y = {LOOP % "part = Abs(state) next = Exp(part)"} }}"""


def of_function(inner: str) -> dict[str, list[str]]:
    """Carry a function with a loop, called by `a`, to a graph that a tool rewrote; return the calls of the body."""
    before = ir.from_onnx_text(f"""{HEAD} g (float[2] x, int64 n, bool go) => (float[2] y) {{ y = local.f(x, n, go) }}
        <domain: "local", opset_import: ["": 20]> f (x, n, go) => (y) {{
            y = {LOOP % "double = Add(state, state) next = Neg(double)"} }}""")
    calls = {key: inner if "double" in key else "a" for key, _ in walk(before)}
    origins = {key: (Origin(call, Evidence.TRACED),) for key, call in calls.items()}
    carried_ = carry(before, Attribution(CALLS, origins, {}), ir.from_onnx_text(TOOL))
    return {
        key.rpartition("/")[2]: [f"{origin.call} {origin.evidence.value}" for origin in found]
        for key, found in carried_.nodes.items()
    }


def test_branches_are_compared_by_what_they_return() -> None:
    # What a tool named anew is known by what it computes: both have a Relu and a Tanh, for the other condition.
    def branches(name: str, then: str, other: str) -> str:
        return f"""{name} = If(c) <then_branch = t () => (float[2] {name}p) {{ {name}p = {then}(x) }},
            else_branch = e () => (float[2] {name}q) {{ {name}q = {other}(x) }}>"""

    one, other = branches("y", "Relu", "Tanh"), branches("z", "Tanh", "Relu")
    before = f"g (float[2] x, bool c) => (float[2] u, float[2] v) {{ {one} u = Exp(y) {other} v = Neg(z) }}"
    after = f"g (float[2] x, bool c) => (float[2] v) {{ {branches('new', 'Tanh', 'Relu')} v = Neg(new) }}"
    assert carried(before, after, y="a", u="a", z="b", v="b")["new"] == [("b", "traced")]


def test_each_call_of_a_function_has_its_own_branches() -> None:
    graph = f"""{HEAD} g (float[2] x, bool c) => (float[2] y, float[2] z) {{ y = local.f(x, c) z = local.f(x, c) }}
        <domain: "local", opset_import: ["": 20]> f (x, c) => (n) {{
            o = If(c) <then_branch = t () => (float[2] p) {{ p = Relu(x) }},
                else_branch = e () => (float[2] q) {{ q = Tanh(x) }}> n = Neg(o) }}"""
    before, after = (flat_copy(ir.from_onnx_text(graph)) for _ in range(2))
    calls = dict(zip((node for node in before.nodes if not node.outputs), "ab", strict=True))
    origins = {node: (Origin(calls[_outer(node)], Evidence.TRACED),) for node in before.nodes}
    found = carry_flat(Attributed(CALLS, before, origins, {}), after)
    (branch,) = (key for key in found.nodes if key.endswith("/o"))
    assert [origin.call for origin in found.nodes[branch]] == ["a", "b"]


def _outer(node: Node) -> Node:
    return node if node.parent is None else _outer(node.parent)


def test_unknown_nodes_belong_to_the_only_call_in_a_body() -> None:
    found = of_function(inner="a")
    assert found["part"] == found["next"] == ["a fused"]


def test_a_body_of_two_calls_says_nothing_about_unknown_nodes() -> None:
    assert "a fused" not in of_function(inner="b")["part"]


def test_branches_may_give_two_values_or_three() -> None:
    branches = "<then_branch = t () => (%s) { %s }, else_branch = e () => (%s) { %s }>"

    def giving(names: str, prefix: str) -> str:
        typed = [", ".join(f"float[2] {side}{prefix}{name}" for name in names) for side in "te"]
        nodes = [" ".join(f"{side}{prefix}{name} = Neg(x)" for name in names) for side in "te"]
        return branches % (typed[0], nodes[0], typed[1], nodes[1])

    graph = f"""g (float[2] x, bool go) => (float[2] y, float[2] z) {{
        p, q = If(go) {giving("pq", "one")} r, s, u = If(go) {giving("rsu", "two")} y = Add(p, q) z = Sum(r, s, u) }}"""
    assert carried(graph, graph, p="a", r="b", y="a", z="b")["r"] == [("b", "traced")]


def test_operation_that_torch_writes_as_a_loop_has_one_owner(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(10, 8)
            self.head = nn.Linear(8, 4)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.head(self.bag(words))
            return found

    model, words = Net().eval(), torch.randint(0, 10, (2, 4))
    made = export(model, (words,), path=tmp_path / "model.onnx")
    origins = made.attribution.nodes.items()
    assert {origin.call for key, found in origins if "/body/" in key for origin in found} == {"bag"}
    assert not prove(Example(model, (words,)), tmp_path / "model.onnx", made.attribution).unproven


class Bags(nn.Module):
    """Looks the same words up in two tables, as factorization machines do."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.deep = nn.EmbeddingBag(10, 8, mode="sum"), nn.EmbeddingBag(10, 8, mode="sum")

    def forward(self, words: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.wide(words, starts) * self.deep(words, starts)
        return out


def test_two_functions_on_the_same_inputs_keep_their_nodes() -> None:
    example = Example(Bags().eval(), (torch.randint(0, 10, (9,)), torch.tensor([0, 4, 6])))
    made = export(example.model, example.args, optimize=False)
    assert not prove(example, made.model, made.attribution).unproven
    for node in (node for node in made.model.graph if node.op_type in {"If", "Loop"}):
        keys = [key for key in made.attribution.nodes if key.startswith(f"{node.outputs[0].name}/")]
        calls = {origin.call for key in keys for origin in made.attribution.nodes[key]}
        assert len(calls) == 1


def test_a_branch_that_a_constant_chose_keeps_its_calls() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(10, 8)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.bag(words) * self.bag(words + 1)
            return out

    model, words = Net().eval(), torch.randint(0, 9, (2, 4))
    made = export(model, (words,))
    assert not [key for key, found in made.attribution.nodes.items() if "/body/" in key and len(found) > 1]
    assert not prove(Example(model, (words,)), made.model, made.attribution).unproven


def test_functions_leave_no_node_without_a_traced_call() -> None:
    dim = {0: torch.export.Dim.AUTO}
    made = export(Bags().eval(), (torch.randint(0, 10, (9,)), torch.tensor([0, 4, 6])), dynamic_shapes=(dim, dim))
    assert made.attribution.coverage()["derived"] == 0


def test_random_numbers_of_two_calls_of_a_function_differ() -> None:
    model = ir.from_onnx_text(f"""{HEAD} g (float[2] x) => (float[2] y, float[2] z) {{ y = local.f(x) z = local.f(x) }}
        <domain: "local", opset_import: ["": 20]> f (v) => (w) {{
            noise = RandomNormal<shape = [2]>() w = Add(noise, v) }}""")
    before = flat_copy(model)
    after = ir.from_onnx_text(f"""{HEAD} g (float[2] x) => (float[2] y) {{
        noise = RandomNormal<shape = [2]>() y = Add(noise, x) }}""")
    calls = {"y": "a", "z": "b"}
    nodes = {node: (Origin(calls[(node.parent or node).key], Evidence.TRACED),) for node in before.nodes}
    found = carry_flat(Attributed(CALLS, before, nodes, {}), flat_copy(after))
    assert found.nodes["y"] == (Origin("a", Evidence.TRACED),)


def test_constant_folded_outside_a_branch_is_not_merged_into_it() -> None:
    branches = """<then_branch = t () => (float[2] p) { inside = Neg(k) p = Add(x, inside) },
        else_branch = e () => (float[2] q) { q = Abs(x) }>"""
    head = "g (float[2] x, bool go) => (float[2] y, float[2] z) <float[2] k = {1.0, 2.0}"
    before = f"{head}> {{ outside = Neg(k) z = Mul(x, outside) y = If(go) {branches} }}"
    after = f"{head}, float[2] folded = {{-1.0, -2.0}}> {{ z = Mul(x, folded) y = If(go) {branches} }}"
    found = carried(before, after, inside="a", p="a", q="a", y="a", outside="b", z="b")
    assert found["y/then_branch/inside"] == [("a", "traced")]


RENAMED = """g (float[2] x, float[2] z, int64 n, bool go) => (float[2] y, float[2] o) {
    y0 = Loop(n, go, x) <body = l (int64 i, bool c, float[2] s) => (bool d, float[2] r) {
        d = Identity(c) p = Add(s, z) q = If(c) <then_branch = t () => (float[2] u) { u = Exp(p) },
            else_branch = e () => (float[2] v) { v = Log(p) }> r = Sin(q) }>
    o0 = Loop(n, go, z) <body = m (int64 I, bool C, float[2] S) => (bool D, float[2] R) {
        D = Identity(C) P = Add(S, z) R = Cos(P) }>
    y = Neg(y0) o = Abs(o0) }"""


@pytest.mark.parametrize("loops", ["y0", "t"])
def test_renamed_bodies_are_known_by_what_they_compute(loops: str) -> None:
    names = {"y0": loops, "o0": f"{loops}1", **{name: f"n{ord(name)}" for name in "icsdrpquvICSDRP"}}
    after = re.sub(r"\w+", lambda found: names.get(found[0], found[0]), RENAMED)
    calls = {"p": "a", "u": "b", "v": "c", "r": "d", "P": "b", "R": "c", "y0": "a", "o0": "d", "q": "d", "y": "a"}
    found = carried(RENAMED, after, **calls)
    expected = {names.get(name, name): [(calls.get(name, ""), "traced")] for name in (*calls, "o")}
    # Any Identity of a value computes the same as every other.
    expected |= {names[name]: [("", "fused")] for name in "dD"}
    assert {key.rpartition("/")[2]: origins for key, origins in found.items()} == expected


def test_a_renamed_body_that_computes_something_else_is_not_known() -> None:
    after = RENAMED.replace("y0", "t").replace("Sin(q)", "Tan(q)")
    found = carried(RENAMED, after, y0="a", r="b")
    assert found["t/body/r"] != [("b", "traced")]


def test_renamed_random_numbers_are_known_by_order() -> None:
    before = "g (float[2] x) => (float[2] y) { u = RandomNormalLike(x) v = RandomNormalLike(x) y = Sub(u, v) }"
    after = before.replace("u", "t").replace("Stb", "Sub").replace("v", "w")
    assert carried(before, after, u="a", v="b", y="c") == {
        "t": [("a", "traced")],
        "w": [("b", "traced")],
        "y": [("c", "traced")],
    }


def test_random_node_with_the_name_of_another_operator_is_none() -> None:
    before = "g (float[2] x) => (float[2] y) { v0 = Identity(x) v1 = Bernoulli(v0) v2 = Neg(v1) y = Sin(v2) }"
    after = "g (float[2] x) => (float[2] y) { v0 = Bernoulli(x) v1 = Neg(v0) y = Sin(v1) }"
    found = carried(before, after, v0="a", v1="b", v2="c", y="d")
    assert (found["v0"], found["v1"]) == ([("b", "traced")], [("c", "traced")])


def test_renamed_branch_in_another_order_is_known() -> None:
    text = """g (float[2] x, float[2] z, bool c) => (float[2] y) {{ {0} = If(c) <
        then_branch = t () => (float[2] {0}o) {{ {1} {0}o = Add({0}p, {0}q) }},
        else_branch = e () => (float[2] {0}e) {{ {0}e = Neg(x) }}> y = Abs({0}) }}"""
    before, after = text.format("u", "up = Exp(x) uq = Sin(z)"), text.format("v", "vq = Sin(z) vp = Exp(x)")
    assert carried(before, after, u="a", y="c")["v"] == [("a", "traced")]
