"""Calls with unused results: torch drops them, and the equal nodes that stay are theirs too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from pytest_hierexport import Evidence, Origin, export
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._export.dynamo import dropped
from pytest_hierexport._export.dynamo.trial_run import contents_of
from pytest_hierexport._export.result import Export
from pytest_hierexport._proof import prove

X = torch.randn(2, 3, 8)


class Model(nn.Module):
    """Calls `dead` for nothing, then gives what `live` gives."""

    def __init__(self, forward: Callable[[Any, torch.Tensor], Any], **modules: nn.Module) -> None:
        super().__init__()
        self.forward = lambda x: forward(self, x)
        for name, module in modules.items():
            setattr(self, name, module)


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.both(x).chunk(2, dim=-1)
        out: torch.Tensor = left * torch.sigmoid(right)
        return out


class Turned(nn.Module):
    """Computes on a tensor that is laid out otherwise."""

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x.transpose(1, 2).contiguous().transpose(1, 2))
        return out


class TurnedBack(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).contiguous().transpose(1, 2)


class Absolute(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs()


class Twice(nn.Module):
    """Does the same twice, which changes nothing the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.absolute = Absolute()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.absolute(self.absolute(x)) * 0.5
        return out


def proven(model: nn.Module, x: torch.Tensor = X, *, optimize: bool = True) -> Export:
    """Export a model, see every call of it proven, and return the export."""
    example = Example(model.eval(), (x,), {})
    randomise(example.model, 0)
    exported = export(example.model, example.args, optimize=optimize)
    assert not prove(example, exported.model, exported.attribution).unproven
    return exported


def owned(exported: Export, call: str) -> list[str]:
    """Return the operators of the nodes that a call, or one below it, owns."""
    hierarchy = exported.attribution.hierarchy
    origins = exported.attribution.nodes
    return [
        node.op_type
        for node in exported.model.graph
        if any(call in hierarchy.lineage(origin.call) for origin in origins[str(node.outputs[0].name)])
    ]


def after_dead(dead: nn.Module, live: nn.Module, before: nn.Module | None = None) -> Model:
    first = before or nn.Identity()
    return Model(lambda m, x: (m.dead(m.first(x)), m.live(m.first(x)))[1], first=first, dead=dead, live=live)


LINEAR = nn.Linear(8, 8)


@pytest.mark.parametrize(
    ("make", "operators"),
    [
        pytest.param(lambda: after_dead(LINEAR, nn.Sequential(LINEAR)), 2, id="the same layer"),
        pytest.param(
            lambda: after_dead(LINEAR, LINEAR, nn.BatchNorm1d(3)), 2, id="where random numbers are no variance"
        ),
        pytest.param(lambda: after_dead(h := Halves(), nn.Sequential(h)), 5, id="a result of several tensors"),
        pytest.param(lambda: after_dead(s := nn.Softplus(), s, LINEAR), 3, id="a function of several operators"),
        pytest.param(lambda: after_dead(LINEAR, Turned(LINEAR)), 2, id="on a tensor laid out otherwise"),
        pytest.param(lambda: after_dead(t := Twice(), t), 3, id="an operation done twice"),
    ],
)
def test_unused_computation_is_owned_by_its_recomputation(make: Callable[[], Model], operators: int) -> None:
    assert len(owned(proven(make()), "dead")) == operators


class Positions(nn.Module):
    """Computes on no input, and more values than are folded."""

    def forward(self) -> torch.Tensor:
        return torch.arange(4000.0).sin()[:, None].expand(4000, 8) * 0.5


def test_unused_constant_is_owned_by_its_recomputation() -> None:
    model = Model(lambda m, x: (m.dead(), x[:, :1] + m.live())[1], dead=Positions(), live=Positions())
    assert owned(proven(model), "dead") == ["Mul"]


class Attend(nn.Module):
    """Each row attends to itself and to those before it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        later = torch.ones(3, 3, dtype=torch.bool).triu(1)
        out: torch.Tensor = (x @ x.transpose(-1, -2)).masked_fill(later, -torch.inf).softmax(-1) @ x
        return out


def test_unused_attention_behind_layers_is_owned_by_its_recomputation() -> None:
    """Behind layers with too large weights, the second attention returns its input, and so does each further one."""
    attend = Attend()

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        second = m.attend(m.attend(m.layers(x)))
        m.dead(second)
        out: torch.Tensor = m.attend(second)
        return out

    exported = proven(
        Model(forward, layers=nn.Sequential(LINEAR, LINEAR, LINEAR), attend=attend, dead=nn.Sequential(attend))
    )
    assert owned(exported, "dead")[-3:] == ["Where", "Softmax", "MatMul"]


def test_unused_pass_through_owns_nothing() -> None:
    model = Model(lambda m, x: (h := m.live(x), m.dead(h), torch.exp(h))[2], live=nn.Linear(8, 8), dead=TurnedBack())
    assert owned(proven(model), "dead") == []


def test_what_is_done_again_for_nothing_owns_nothing() -> None:
    absolute = Absolute()

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        inner = m.live(x)
        m.dead(inner)
        out: torch.Tensor = inner * 0.5
        return out

    assert owned(proven(Model(forward, live=absolute, dead=nn.Sequential(absolute))), "dead") == []


def test_what_nothing_else_computes_is_gone_with_all_its_nodes() -> None:
    exported = proven(after_dead(nn.Tanh(), nn.Linear(8, 8)))
    assert owned(exported, "dead") == []
    assert "Tanh" not in {node.op_type for node in exported.model.graph}


class Clamp(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(min=0)


def test_unused_result_of_another_operator_on_equal_inputs_is_owned() -> None:
    assert owned(proven(after_dead(nn.ReLU(), Clamp())), "dead") == ["Max"]


class WithUnusedMaxima(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.exp(x)
        nn.functional.max_pool1d(out, 2)
        return out


def test_equal_values_of_another_operator_and_inputs_are_not_owned() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        maxima: torch.Tensor = m.inner(x).reshape(2, 3, 4, 2).amax(-1)
        return maxima

    assert owned(proven(Model(forward, inner=WithUnusedMaxima())), "inner") == ["Exp"]


class Does(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize(
    ("dead", "x"),
    [
        pytest.param(lambda x: x.clamp(-100, 100) + 1, 1000 * X, id="a limit"),
        pytest.param(lambda i: i * i + 1, torch.arange(24).reshape(2, 3, 4), id="a square"),
        pytest.param(lambda i: i % 4 + 1, torch.arange(24).reshape(2, 3, 4), id="a remainder"),
    ],
)
def test_operations_that_agree_on_small_numbers_are_not_equal(
    dead: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> None:
    assert owned(proven(after_dead(Does(dead), Does(lambda each: each + 1)), x), "dead") == []


class Pair(nn.Module):
    """Gives a number computed of what it also gives."""

    def __init__(self) -> None:
        super().__init__()
        self.absolute = Absolute()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.absolute(x)
        return 0.6 * self.absolute(x) + 0.5 * self.absolute(first) - 0.2, first


def test_kept_nodes_of_a_call_are_connected_among_equals() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        once, _ = m.pair(x)
        again, _ = m.pair(x)
        m.pair(once)
        _, first = m.pair(again)
        result, same = m.pair(first)
        out: torch.Tensor = result * same
        return out

    proven(Model(forward, pair=Pair()))


class AddsInPlace(nn.Module):
    """Adds to its input, which may be a view."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x += self.positions
        return torch.sigmoid(x)


def test_call_that_writes_into_a_view_does_not_own_it() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        viewed = torch.exp(x).reshape(2, 3, 2, 4).permute(0, 2, 3, 1).reshape(2, 8, 3)
        out: torch.Tensor = m.inner(viewed)
        return out

    exported = proven(Model(forward, inner=AddsInPlace()))
    assert "inner" not in {origin.call for origin in exported.attribution.nodes["permute"]}


class Writing(nn.Module):
    """Lets `inner` compute with parts of a tensor that it writes to; `last` reads the tensor."""

    def __init__(self, inner: nn.Module, write: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(8, 8), inner, nn.Linear(8, 8)
        self.write = write

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.write(self.inner, self.first(x)))
        return out


def behind_a_transposition(inner: nn.Module, x: torch.Tensor) -> torch.Tensor:
    turned = x.transpose(1, 2)
    inner(turned)
    return turned.transpose(1, 2)


def after_a_write(inner: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x[0] = 0
    inner(x.view(-1))
    return x


def in_a_slice(inner: nn.Module, x: torch.Tensor) -> torch.Tensor:
    inner(x[:, :2])
    return x


def in_halves(inner: nn.Module, x: torch.Tensor) -> torch.Tensor:
    for half in x.chunk(2, -1):
        inner(half)
    return x


@pytest.mark.parametrize("write", [behind_a_transposition, after_a_write, in_a_slice, in_halves])
def test_write_to_a_view_is_owned_by_its_call(write: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
    exported = proven(Writing(nn.ReLU(inplace=True), write))
    assert "Relu" in owned(exported, "inner")
    assert set(owned(exported, "last")) <= {"MatMul", "Add"}


def test_write_to_a_part_of_a_lost_tensor_is_owned() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(m.inner(m.first(x)[..., :4]))

    exported = proven(Model(forward, first=nn.Linear(8, 8), inner=nn.Sequential(nn.ReLU(inplace=True), nn.Sigmoid())))
    assert "Sigmoid" in owned(exported, "inner")


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp().transpose(1, 2).reshape(12, 4)[:10]


def test_view_of_a_reshape_belongs_to_its_taker() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = m.rows(x)
        rows += 1
        out: torch.Tensor = m.linear(rows.transpose(0, 1))
        return out

    exported = proven(Model(forward, rows=Rows(), linear=nn.Linear(10, 2)))
    assert owned(exported, "linear") == ["Gemm"]


class WritesToRow(nn.Module):
    """Lets another module write to a part of its input, then reads all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.relu(x[:, 0])
        return torch.sigmoid(x)


@pytest.mark.parametrize("inner", [WritesToRow, AddsInPlace])
def test_call_owns_what_it_reads_of_a_view_it_wrote(inner: type[nn.Module]) -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        turned = m.first(x).transpose(1, 2)
        out: torch.Tensor = m.inner(turned[:, :2]).sum() + m.last(turned.transpose(1, 2))
        return out

    exported = proven(Model(forward, first=nn.Conv1d(3, 3, 1), inner=inner(), last=nn.Linear(8, 8)))
    assert "Sigmoid" in owned(exported, "inner")
    assert set(owned(exported, "last")) <= {"MatMul", "Add"}


def test_input_passed_through_a_dropped_call_has_no_owner() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.linear(m.back(x))
        out: torch.Tensor = m.linear(x)
        return out

    proven(Model(forward, linear=nn.Linear(8, 8), back=TurnedBack()))


def test_dropped_call_owns_nothing_if_its_result_is_lost() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.norm(x)
        out: torch.Tensor = m.other(m.back(x))
        return out

    exported = proven(Model(forward, norm=nn.RMSNorm(8), other=nn.RMSNorm(8), back=TurnedBack()))
    assert "Pow" in owned(exported, "other")
    assert not owned(exported, "norm")


def test_list_node_is_owned_by_calls_that_lost_a_part() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.norm(x)
        out: torch.Tensor = m.norm(m.drop(x)).tanh()
        return out

    exported = proven(Model(forward, norm=nn.BatchNorm1d(3), drop=nn.Dropout(0.5)))
    assert any({o.call for o in origins} == {"norm", "norm@1"} for origins in exported.attribution.nodes.values())


def test_call_after_data_dependent_size_is_found() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        scaled = m.drop(x) * x[x > 0].sum().tanh()
        m.linear(scaled)
        out: torch.Tensor = m.linear(scaled).tanh()
        return out

    exported = proven(Model(forward, linear=nn.Linear(8, 8), drop=nn.Dropout(0.5)))
    assert any({o.call for o in origins} == {"linear", "linear@1"} for origins in exported.attribution.nodes.values())


class Residual(nn.Module):
    """Every step reads the one before it twice: there are more ways through it than anyone can walk."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(40):
            x = x.tanh() + x * 0.5
        return x


def test_a_deep_model_of_residuals_is_gone_through_once() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        m.residual(x)
        out: torch.Tensor = m.residual(x)
        return out

    proven(Model(forward, residual=Residual()))


class Chosen(nn.Module):
    """Reads places that it holds: random ones are none of them."""

    places: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.tensor([4, 3, 2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.index_select(1, self.places - 2)


class Weighted(nn.Module):
    """Computes with a constant that stands in its code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x * torch.tensor([[1.5], [2.5], [3.5]])
        return out


@pytest.mark.parametrize("first", [Chosen, Weighted])
def test_call_after_an_operation_that_rejects_random_numbers_is_found(first: type[nn.Module]) -> None:
    assert len(owned(proven(after_dead(LINEAR, LINEAR, first())), "dead")) == 2


def test_uninitialised_memory_has_the_same_contents_in_every_run() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    empty = graph.call_function(torch.ops.aten.new_empty.default, (x, [4096]))
    x.meta["val"] = empty.meta["val"] = torch.zeros(4096)
    contents = set()
    for i in range(8):
        torch.full((4096,), float(i))  # leaves its number in memory
        contents.add(contents_of(graph, {empty})[empty])
    assert len(contents) == 1
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(
    ("forward", "runs"),
    [
        pytest.param(lambda m, x: m.live(m.dead(x)), 0, id="nothing dropped"),
        pytest.param(lambda m, x: (y := m.dead(x), y.detach(), m.live(y))[2], 0, id="the same value, detached"),
        # Before and after torch's decompositions.
        pytest.param(lambda m, x: (m.dead(x), m.live(x))[1], 2, id="a call"),
    ],
)
def test_a_graph_has_one_trial_run_at_most(
    forward: Callable[[Any, torch.Tensor], torch.Tensor], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def counted(graph: torch.fx.Graph, nodes: set[torch.fx.Node]) -> Any:
        seen.append(graph)
        return contents_of(graph, nodes)

    monkeypatch.setattr(dropped, "contents_of", counted)
    proven(Model(forward, dead=LINEAR, live=nn.Sequential(LINEAR)))
    assert len(seen) == len(set(map(id, seen))) == runs


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum: torch.Tensor = torch.fft.rfft(x)
        return spectrum.conj()


def test_conjugate_numbers_of_a_dropped_call_are_compared() -> None:
    model = Model(lambda m, x: (m.dead(x), torch.fft.irfft(m.live(x), n=8))[1], dead=Spectrum(), live=Spectrum())
    exported = proven(model)
    assert owned(exported, "dead") == owned(exported, "live")


def test_dropped_call_equals_the_kept_one_with_its_input() -> None:
    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, y = m.first(x), x.transpose(0, 1).contiguous().transpose(0, 1)
        m.dead(y)
        return first * torch.sigmoid(m.live(y)), y

    exported = proven(Model(forward, first=nn.Softplus(), dead=nn.Softplus(), live=nn.Softplus()))
    assert exported.nodes_of("dead") == exported.nodes_of("live")


class AddsViewed(nn.Module):
    """Adds a view that it takes of what it is given."""

    def __init__(self, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.view, self.linear = view, nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x) + self.view(mask)
        return out


def filled(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that was written in place, of which each view is computed again where it is used."""
    return torch.zeros(2, 8).masked_fill_(x[:, 0] > 0, -3.0)


def expanded(mask: torch.Tensor) -> torch.Tensor:
    return mask.view(2, 1, 8).expand(2, 3, 8)


@pytest.mark.parametrize("view", [lambda mask: mask[:, None], expanded, lambda mask: mask[:, None].chunk(1)[0]])
def test_view_that_two_layers_take_belongs_to_both(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        mask = filled(x)
        out: torch.Tensor = m.second(m.first(x, mask).tanh(), mask)
        return out

    exported = proven(Model(forward, first=AddsViewed(view), second=AddsViewed(view)), optimize=False)
    # torch makes equal constants once.
    first, second = [[each for each in owned(exported, call) if each != "Constant"] for call in ("first", "second")]
    assert first == second


def test_view_of_a_caller_is_not_that_of_another_layer() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        mask = filled(x)
        y = m.first(x, mask)
        out: torch.Tensor = m.second(y.tanh(), mask[:, None])
        return out

    first, second = AddsViewed(lambda mask: mask[:, None]), AddsViewed(lambda mask: mask)
    exported = proven(Model(forward, first=first, second=second), optimize=False)
    views = [name for name in exported.attribution.nodes if name.startswith("unsqueeze")]
    assert [[o.call for o in exported.attribution.nodes[name]] for name in views] == [["first"], [""]]


def test_view_that_a_layer_views_again_belongs_to_its_caller() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        mask = filled(x)[:, None]
        out: torch.Tensor = m.layer(m.layer(x, mask).tanh(), mask)
        return out

    exported = proven(Model(forward, layer=AddsViewed(lambda mask: mask.expand(2, 3, 8))))
    views = [name for name in exported.attribution.nodes if name.startswith("unsqueeze")]
    assert [[o.call for o in exported.attribution.nodes[name]] for name in views] == [[""]]


def test_view_that_the_model_returns_belongs_to_its_takers() -> None:
    def forward(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        written = m.linear(x).relu_()
        return m.first(written), m.second(written)

    exported = proven(Model(forward, linear=nn.Linear(8, 8), first=nn.Flatten(), second=nn.Flatten()))
    assert "Reshape" in owned(exported, "first")
    assert "Reshape" in owned(exported, "second")


def test_layer_behind_an_operation_in_place_ends_the_model() -> None:
    exported = proven(nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Flatten()))
    assert owned(exported, "2") == ["Reshape"]
    assert exported.attribution.coverage()["derived"] == 0


class Pairs(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(4, 3, 2, 2).sin().reshape(4, 3, 4)


def test_written_view_that_its_caller_reads_is_not_the_layers() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        viewed = m.first(x).view(4, 3, 4)
        viewed *= 0.5
        out: torch.Tensor = viewed.tanh() + m.layer(viewed)
        return out

    exported = proven(Model(forward, first=nn.Linear(8, 8), layer=Pairs()))
    assert owned(exported, "layer") == ["Reshape", "Sin", "Reshape"]


class InParts(nn.Module):
    """Returns two parts of what a layer computes."""

    def __init__(self, take: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear, self.take = nn.Linear(8, 8), take

    def forward(self, x: torch.Tensor) -> Any:
        return self.take(self.linear(x))


PARTS = [
    pytest.param(lambda y: (y[..., :4], y[..., 4:]), "Slice", id="slices"),
    pytest.param(lambda y: y.chunk(2, -1), "Split", id="chunks"),
    pytest.param(lambda y: y.tanh().view(2, 3, 2, 4).unbind(2), "Squeeze", id="heads"),
]


def writing_to_parts(take: Callable[[torch.Tensor], Any], *, returns: bool = False) -> nn.Module:
    """Return a model that writes to the first of two parts; if it `returns` that, no call takes it afterwards."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        first, second = m.parts(x)
        first /= first.norm(dim=-1, keepdim=True)
        out: torch.Tensor = first * 2 if returns else m.last(first) + second
        return out

    return Model(forward, parts=InParts(take), last=nn.Linear(4, 4))


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize(("take", "operator"), PARTS)
def test_caller_owns_what_it_takes_after_its_write(
    take: Callable[[torch.Tensor], Any], operator: str, returns: bool
) -> None:
    exported = proven(writing_to_parts(take, returns=returns))
    assert owned(exported, "parts").count(operator) == 1
    assert owned(exported, "last") == ([] if returns else ["MatMul", "Add"])


@pytest.mark.parametrize(("take", "operator"), PARTS)
def test_a_part_taken_before_the_write_is_its_calls(take: Callable[[torch.Tensor], Any], operator: str) -> None:
    exported = proven(model := writing_to_parts(take))
    taken = next(node for node in exported.model.graph if node.op_type == operator)
    wrong = {**exported.attribution.nodes, str(taken.outputs[0].name): (Origin("", Evidence.TRACED),)}
    proof = prove(Example(model, (X,)), exported.model, replace(exported.attribution, nodes=wrong))
    assert set(proof.unproven) == {"parts"}
    assert not prove(Example(model, (X,)), exported.model, exported.attribution).contaminated
