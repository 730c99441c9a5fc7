"""The proof of whole models: right tags are proven, wrong ones are found."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import pytest_hierexport
from pytest_hierexport import export
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.result import Export
from pytest_hierexport._onnx.models import as_proto
from pytest_hierexport._proof import Proof, Verdict, VerdictKind, prove, session


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x)) + x


class Pair(nn.Module):
    """Two blocks, the first called before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.a(self.inside(self.a(x)))
        return out

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.b(x)
        return out


class Branching(Pair):
    def inside(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.cond(x.sum() > 1000, self.b, lambda x: self.b(self.a(x)), (x,))
        return out


class Looping(Pair):
    def inside(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor
        _, out = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.b(self.a(x))), (torch.tensor(0), x))
        return out


class Scanning(Pair):
    def inside(self, x: torch.Tensor) -> torch.Tensor:
        def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            moved = self.b(carry + row)
            return moved, moved * 2

        rows: torch.Tensor
        _, rows = scan(step, x[0] * 2, x)
        return rows


class Splitting(Pair):
    """Passes a sequence from one call to another."""

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        first, second = torch.split(x, [1, 1])
        return torch.cat([self.b(second), first])


class Transposing(Block):
    """Returns its result transposed, and another value of it."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        out = super().forward(x)
        return out.T, out.sum(-1)


class Inverting(nn.Module):
    """Undoes what a call did to its result; the optimizer drops both."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Transposing()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        transposed, total = self.block(x)
        return torch.exp(transposed.T), total


class Mixed(Pair):
    """Bfloat16, integers and booleans beside float32, nested among the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.b.bfloat16()

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, object]:  # type: ignore[override]
        low = self.b(x.bfloat16())
        return {"low": (low, low > 0), "ids": ids * 2, "high": self.a(low.float())}


@dataclass(frozen=True)
class Made:
    example: Example
    exported: Export

    def prove(self, attribution: Attribution | None = None) -> Proof:
        return prove(self.example, self.exported.model, attribution or self.exported.attribution)

    def retagged(self, change: Callable[[str, Origins], Origins]) -> Attribution:
        found = self.exported.attribution
        return replace(found, nodes={key: change(key, origins) for key, origins in found.nodes.items()})


@cache
def made(cls: Any, *, optimize: bool = True, dtype: torch.dtype = torch.float32) -> Made:
    torch.manual_seed(0)
    model = cls().eval()
    if dtype is not torch.float32:
        model.to(dtype)
    randomise(model)
    args = (torch.randn(2, 4, dtype=dtype), *([torch.tensor([1, 2])] if cls is Mixed else []))
    return Made(Example(model, args), export(model, args, exporter="dynamo", optimize=optimize))


def kinds(proof: Proof) -> set[str]:
    return {kind for kind, count in proof.counts().items() if count}


@pytest.mark.parametrize("cls", [Pair, Branching, Looping, Scanning, Inverting, Mixed])
def test_every_call_is_proven(cls: Any) -> None:
    proof = made(cls).prove()
    assert proof.unproven == {}
    assert kinds(proof) == {"proven"}
    assert proof.share == 1
    assert proof.contaminated == {}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_call_is_proven_in_every_floating_dtype(dtype: torch.dtype) -> None:
    assert kinds(made(Pair, dtype=dtype).prove()) == {"proven"}


class Padded(nn.Module):
    """A padding that the optimizer puts into a convolution, and that a pooling still reads."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(2, 2, 2), nn.MaxPool2d(2, stride=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(torch.relu(x), (0, 1, 0, 1))
        out: torch.Tensor = torch.cat([self.conv(padded), self.pool(padded)])
        return out


class ChannelsLast(nn.Module):
    """A layer that computes with channels last, between two transposes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = x.transpose(1, 2)
        out: torch.Tensor = (inner + self.linear(self.norm(inner))).transpose(1, 2)
        return out


def test_call_is_proven_by_the_transposition_of_its_lost_output() -> None:
    example = Example(nn.Sequential(ChannelsLast(), ChannelsLast()).eval(), (torch.randn(2, 4, 3),), {})
    exported = export(example.model, example.args)
    assert sum(node.op_type == "Transpose" for node in exported.model.graph) == 2
    proof = prove(example, exported.model, exported.attribution)
    assert not proof.unproven
    # The `Add` of the first call belongs to the second as well, which was not given what it reads.
    assert {name for name, found in proof.verdicts.items() if found.kind is VerdictKind.DISSOLVED} == {"1"}
    wrong = {**exported.attribution.nodes, "linear": (Origin("1", Evidence.TRACED),)}
    assert "0" in prove(example, exported.model, replace(exported.attribution, nodes=wrong)).unproven


class Permute(nn.Module):
    """Exchanges the last two axes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


def cancelled_between_layers() -> nn.Module:
    return nn.Sequential(Permute(), nn.Linear(4, 4), Permute(), Permute(), nn.Linear(4, 5), nn.ReLU(), Permute())


def cancelled_inside_a_block() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(Permute(), Permute(), nn.Linear(4, 5)))


@pytest.mark.parametrize("build", [cancelled_between_layers, cancelled_inside_a_block])
def test_calls_of_a_cancelled_pair_are_in_the_node_before(build: Callable[[], nn.Module]) -> None:
    example = Example(build().eval(), (torch.randn(2, 4, 3),), {})
    exported = export(example.model, example.args)
    assert not prove(example, exported.model, exported.attribution).unproven


class TransposedInput(nn.Module):
    """Gives its input transposed to a layer, which transposes it back before it reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = ChannelsLast()
        self.layer.norm = nn.LayerNorm(3)
        self.layer.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.transpose(1, 2)).relu()  # type: ignore[no-any-return]


def test_call_is_proven_by_the_transposition_of_its_lost_input() -> None:
    example = Example(TransposedInput().eval(), (torch.randn(2, 4, 3),), {})
    exported = export(example.model, example.args)
    proof = prove(example, exported.model, exported.attribution)
    assert {name: found.kind.value for name, found in proof.verdicts.items() if name in {"", "layer"}} == {
        "": "proven",
        "layer": "proven",
    }
    assert not proof.loose


class Exported(nn.Module):
    """Pools by a module, and in an export to ONNX by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.act = nn.AvgPool1d(2), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = x.unflatten(-1, (-1, 2)).mean(-1) if torch.onnx.is_in_onnx_export() else self.pool(x)
        out: torch.Tensor = self.act(pooled)
        return out


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_model_that_computes_otherwise_in_an_export_is_proven(exporter: str) -> None:
    example = Example(Exported().eval(), (torch.randn(2, 3, 4),), {})
    exported = export(example.model, example.args, exporter=exporter)
    assert prove(example, exported.model, exported.attribution).counts()["proven"] == 2


class Measured(nn.Module):
    """Sizes that one call measures for a view of another, which changes no shape."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.viewing = Block(), Viewing()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.block(x)
        out: torch.Tensor = self.viewing(inner, *inner.shape[:1])
        return out


class Viewing(nn.Module):
    def forward(self, x: torch.Tensor, size: int) -> torch.Tensor:
        return torch.exp(x.view(size, 4))


def test_call_that_measures_size_does_not_own_dropped_view() -> None:
    example = Example(Measured().eval(), (torch.randn(2, 4),), {})
    exported = export(example.model, example.args, dynamic_shapes=({0: "batch"},), exporter="dynamo")
    evidence = {origin.evidence for origins in exported.attribution.nodes.values() for origin in origins}
    assert evidence == {Evidence.TRACED}
    assert prove(example, exported.model, exported.attribution).counts()["proven"] == 4


class Counting(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return x + 1, x.sum().item()


class Counted(nn.Module):
    """A number that leaves a call as Python's own and comes back into the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.counting, self.block = Counting(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        more, count = self.counting(x)
        out: torch.Tensor = self.block(more * count)
        return out


def test_number_that_call_returned_may_leave_it() -> None:
    example = Example(Counted().eval(), (torch.arange(8).reshape(2, 4) * 0.3,), {})
    exported = export(example.model, example.args)
    proof = prove(example, exported.model, exported.attribution)
    assert proof.verdicts["counting"].kind is VerdictKind.PROVEN


def test_call_that_absorbed_shared_padding_is_dissolved() -> None:
    example = Example(Padded().eval(), (torch.randn(1, 2, 6, 6),), {})
    exported = export(example.model, example.args)
    assert sorted(node.op_type for node in exported.model.graph) == ["Concat", "Conv", "MaxPool", "Pad", "Relu"]
    proof = prove(example, exported.model, exported.attribution)
    assert not proof.unproven
    found = proof.verdicts["conv"]
    assert (found.kind, found.tag) == (VerdictKind.DISSOLVED, "/Padded")


def test_sequence_between_calls_is_proven() -> None:
    splitting = made(Splitting, optimize=False)
    operators = {node.op_type for node in splitting.exported.model.graph}
    assert "SplitToSequence" in operators
    assert kinds(splitting.prove()) == {"proven"}


def verdictless(cls: Any) -> set[str]:
    return set(made(cls).exported.attribution.hierarchy) - set(made(cls).prove().verdicts)


def test_calls_of_taken_branch_have_verdicts() -> None:
    assert verdictless(Branching) == {"b", "b.linear"}


@pytest.mark.parametrize(
    ("cls", "inside"), [(Looping, {"a@1", "a.linear@1", "b", "b.linear"}), (Scanning, {"b", "b.linear"})]
)
def test_calls_inside_loop_have_no_verdict(cls: Any, inside: set[str]) -> None:
    assert verdictless(cls) == inside


def swapped(one: str, other: str) -> Callable[[str, Origins], Origins]:
    names = {one: other, other: one}
    return lambda _, origins: tuple(replace(origin, call=names.get(origin.call, origin.call)) for origin in origins)


@pytest.mark.parametrize("cls", [Pair, Branching, Looping, Scanning])
def test_swapped_tags_of_shared_module_are_unproven(cls: Any) -> None:
    proof = made(cls).prove(made(cls).retagged(swapped("a.linear", "a.linear@1")))
    assert any(name.startswith("a.linear") for name in proof.unproven)
    assert proof.share < 1


def test_wrong_tag_inside_branch_is_unproven() -> None:
    inside = made(Branching)
    deepest = {key for key in inside.exported.attribution.nodes if "/" in key}

    def change(key: str, origins: Origins) -> Origins:
        wrong = key in deepest and any(origin.call.startswith("b.linear") for origin in origins)
        return (Origin("a", Evidence.TRACED),) if wrong else origins

    proof = inside.prove(inside.retagged(change))
    assert any(name.startswith("b.linear") for name in proof.unproven)


def test_wrong_tags_of_a_compiled_model_are_unproven() -> None:
    pair = made(Pair)
    compiled = Pair().eval()
    compiled.load_state_dict(pair.example.model.state_dict())
    compiled.compile()
    wrong = pair.retagged(lambda *_: (Origin("a", Evidence.TRACED),))
    example, model = Example(compiled, pair.example.args), pair.exported.model
    assert prove(example, model, pair.exported.attribution).verdicts == pair.prove().verdicts
    assert {"a", "b"} <= set(prove(example, model, wrong).unproven)


def test_graph_tagged_with_root_proves_root_alone() -> None:
    pair = made(Pair)
    proof = pair.prove(pair.retagged(lambda *_: (Origin("", Evidence.TRACED),)))
    assert set(proof.verdicts) - set(proof.unproven) == {""}
    assert len(proof.contaminated) > 0


def test_unproven_call_names_value_and_tag() -> None:
    pair = made(Pair)
    proof = pair.prove(pair.retagged(swapped("b", "")))
    verdict = proof.unproven["b"]
    assert verdict.value in {output.name for node in pair.exported.model.graph for output in node.outputs}
    assert verdict.tag == "/Pair"


@pytest.mark.parametrize("external", [False, True])
def test_a_file_is_proven_like_the_graph_in_memory(external: bool, tmp_path: Path) -> None:
    pair = made(Pair)
    path = pair.exported.save(tmp_path / "pair.onnx", external_data=external)
    proof = prove(pair.example, path, pair.exported.attribution)
    assert proof.verdicts == pair.prove().verdicts


def test_a_small_budget_of_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made(Looping).prove()
    monkeypatch.setattr(session, "BUDGET", 100)
    assert made(Looping).prove().verdicts == whole.verdicts


def test_other_weights_prove_nothing() -> None:
    pair = made(Pair)
    other = Pair().eval()
    proof = prove(Example(other, pair.example.args), pair.exported.model, pair.exported.attribution)
    assert proof.counts()["proven"] == 0


def test_stated_tolerance_replaces_the_dtypes_own() -> None:
    pair = made(Pair)
    exact = prove(pair.example, pair.exported.model, pair.exported.attribution, tolerances={"float32": 1e-12}).counts()
    assert exact["proven"] < pair.prove().counts()["proven"]


def test_unfitting_inputs_raise_usage_error_with_input_name() -> None:
    pair = made(Pair)
    with pytest.raises(UsageError, match="x"):
        prove(Example(pair.example.model, ()), pair.exported.model, pair.exported.attribution)


class Fussy(Pair):
    """Runs in some modes only, once it has been exported."""

    refuses: tuple[str, ...] = ()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        jit: Any = torch.jit
        reported = {"exporting": torch.compiler.is_exporting(), "tracing": jit.is_tracing()}
        mode = next((name for name, is_reported in reported.items() if is_reported), "plain")
        if mode in self.refuses:
            raise ValueError(f"not while {mode}")
        return super().forward(x)


@pytest.mark.parametrize("refuses", [("exporting",), ("exporting", "tracing"), ("plain", "tracing")])
def test_model_that_runs_in_one_mode_only_is_proven(refuses: tuple[str, ...]) -> None:
    fussy = made(Fussy)
    example = Example(Fussy().eval(), fussy.example.args)
    example.model.load_state_dict(fussy.example.model.state_dict())
    example.model.refuses = refuses  # type: ignore[assignment]  # a plain attribute
    assert kinds(prove(example, fussy.exported.model, fussy.exported.attribution)) == {"proven"}


def test_model_that_runs_in_no_mode_raises_usage_error() -> None:
    fussy = made(Fussy)
    example = Example(Fussy().eval(), fussy.example.args)
    example.model.refuses = ("exporting", "tracing", "plain")  # type: ignore[assignment]  # a plain attribute
    with pytest.raises(UsageError, match="ValueError: not while plain"):
        prove(example, fussy.exported.model, fussy.exported.attribution)


def test_model_that_returns_nothing_comparable_is_unproven() -> None:
    class Sparse(Pair):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).to_sparse()

    pair = made(Pair)
    model = Sparse().eval()
    model.load_state_dict(pair.example.model.state_dict())
    proof = prove(Example(model, pair.example.args), pair.exported.model, pair.exported.attribution)
    assert list(proof.unproven) == [""]
    assert "nothing that can be compared" in proof.unproven[""].reason


def test_the_model_and_the_graph_are_left_as_they_were() -> None:
    looping = made(Looping)
    state = {name: tensor.clone() for name, tensor in looping.example.model.state_dict().items()}
    with as_proto(looping.exported.model) as (before, _):
        looping.prove()
    with as_proto(looping.exported.model) as (after, _):
        assert after == before
    assert all(torch.equal(tensor, state[name]) for name, tensor in looping.example.model.state_dict().items())


def test_share_counts_proven_unproven_and_ambiguous_alone() -> None:
    def share(**counts: int) -> float:
        verdicts: Mapping[str, VerdictKind] = {
            f"{kind}{i}": VerdictKind[kind] for kind, n in counts.items() for i in range(n)
        }
        return Proof({name: Verdict(kind) for name, kind in verdicts.items()}, {}).share

    assert share(PROVEN=3, UNPROVEN=1, FOLDED=4) == 0.75
    assert share(PROVEN=3, AMBIGUOUS=1, DISSOLVED=9, PASS_THROUGH=2) == 0.75
    assert share(FOLDED=2) == 1


class Hidden(nn.Module):
    """Two layers; what the first gives may be scaled, if the second scales it back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(torch.relu(self.first(x)))
        return out


@pytest.mark.parametrize(("factor", "unproven"), [(1.0005, set()), (1.05, {"second"})])
def test_hidden_value_beyond_coarser_tolerance_is_unproven(factor: float, unproven: set[str]) -> None:
    model, x = Hidden().eval(), torch.randn(4, 8)
    randomise(model)
    exported = export(model, (x,))
    owners = exported.attribution.initializers
    for name, tensor in exported.model.graph.initializers.items():
        assert tensor.const_value is not None
        array = tensor.const_value.numpy()
        first = {origin.call for origin in owners[name]} == {"first"}
        scale = factor if first else 1 / factor if array.ndim == 2 else 1
        tensor.const_value = ir.tensor((array * scale).astype(array.dtype))
    assert set(prove(Example(model, (x,)), exported.model, exported.attribution).unproven) == unproven


class Keeping(nn.Module):
    """Returns, beside the result of its layers, what a hook kept of one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = Hidden()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kept: list[torch.Tensor] = []
        hook = self.layers.first.register_forward_hook(lambda _, args, output: kept.append(output))
        out = self.layers(x)
        hook.remove()
        return out, kept[0]


class Consuming(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.keeping = Keeping()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, kept = self.keeping(x)
        summed: torch.Tensor = out + torch.tanh(kept)
        return summed


@pytest.mark.parametrize("cls", [Keeping, Consuming])
def test_value_that_a_hook_kept_may_leave_its_call(cls: type[nn.Module]) -> None:
    model, x = cls().eval(), torch.randn(4, 8)
    randomise(model)
    exported = export(model, (x,))
    assert kinds(prove(Example(model, (x,)), exported.model, exported.attribution)) == {"proven"}


class Averaging(nn.Module):
    """Equal rows of a layer that takes a constant: their mean is a row again."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.out = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = self.value(torch.zeros(2, 4, 8)).view(2, 4, 2, 4).transpose(1, 2)
        out: torch.Tensor = self.out((x.softmax(-1) @ value).transpose(1, 2).reshape(2, 4, 8))
        return out


def test_output_that_is_stored_transposed_is_folded() -> None:
    model, x = Averaging().eval(), torch.randn(2, 2, 4, 4)
    randomise(model)
    exported = export(model, (x,))
    proof = prove(Example(model, (x,)), exported.model, exported.attribution)
    assert {name for name, found in proof.verdicts.items() if found.kind is VerdictKind.FOLDED} == {"value"}
    assert not proof.unproven


class Traced(Exported):
    """Pools by a module, and while it is traced by itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        jit: Any = torch.jit
        pooled = x.unflatten(-1, (-1, 2)).mean(-1) if jit.is_tracing() else self.pool(x)
        out: torch.Tensor = self.act(pooled)
        return out


class Mixing(nn.Module):
    """Computes otherwise while traced, takes what a hook kept, stores a transposed value, orders elements at will."""

    def __init__(self) -> None:
        super().__init__()
        self.traced, self.hooked, self.averaging, self.last = Traced(), Hidden(), Averaging(), nn.Linear(8, 8)
        self.kept: list[torch.Tensor] = []
        self.hooked.second.register_forward_hook(lambda _, args, output: self.kept.append(output.sigmoid()))

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        self.kept.clear()
        out = self.hooked(self.traced(x)) * self.kept[0]
        averaged = self.averaging(weights).mean((0, 1))
        found: torch.Tensor = self.last(out.flatten().topk(8, sorted=False)[0] + averaged)
        return found


def test_retries_keep_what_those_before_found() -> None:
    model, args = Mixing().eval(), (torch.randn(2, 2, 16), torch.randn(2, 2, 4, 4))
    randomise(model)
    exported = export(model, args, exporter="torchscript")
    assert prove(Example(model, args), exported.model, exported.attribution).unproven == {}


class Biased(nn.Module):
    """Returns, beside a result that a fusion removes, a bias that depends on no input, as a layer of T5 does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.table = nn.Conv2d(2, 3, 2), nn.Embedding(5, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.conv(x), self.table(torch.arange(3))


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.biased, self.norm, self.last = Biased(), nn.BatchNorm2d(3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found, bias = self.biased(x)
        out: torch.Tensor = self.last(self.norm(found).mean((2, 3))) @ bias
        return out


@pytest.mark.parametrize("owned", [True, False])
def test_stored_bias_does_not_prove_a_call(owned: bool) -> None:
    model, x = Normalised().eval(), torch.randn(2, 2, 5, 5)
    randomise(model)
    exported = export(model, (x,))
    found = exported.attribution
    if not owned:
        others = {key: tuple(o for o in all_ if "biased" not in o.call) or all_ for key, all_ in found.nodes.items()}
        found = replace(found, nodes=others)
    assert prove(Example(model, (x,)), exported.model, found).verdicts["biased"].kind is VerdictKind.DISSOLVED


class Silent(nn.Module):
    """Returns nothing of its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> None:
        self.layer(x)


class Silenced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.silent, self.layer = Silent(), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.silent(x)
        out: torch.Tensor = self.layer(x)
        return out


def test_call_that_returned_no_tensor_has_no_verdict() -> None:
    proof = made(Silenced).prove()
    assert (proof.unproven, "silent" in proof.verdicts, "layer" in proof.verdicts) == ({}, False, True)


def test_first_attempt_does_not_measure_rounding_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    def bounds(*_: object) -> None:
        raise AssertionError("the model ran once more")

    monkeypatch.setattr(sys.modules[prove.__module__], "rounding_bounds", bounds)
    assert kinds(made(Pair).prove()) == {"proven"}


def test_graph_runs_once_for_modes_that_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    module = sys.modules[prove.__module__]
    original = module.find_candidates

    def find_candidates(*given: Any, **options: Any) -> Any:
        ran.append(given)
        return original(*given, **options)

    monkeypatch.setattr(module, "find_candidates", find_candidates)
    pair = made(Pair)
    wrong = pair.retagged(lambda _, origins: tuple(replace(origin, call="a") for origin in origins))
    assert pair.prove(wrong).unproven
    assert len(ran) == 3  # the modes, the measured rounding, and float64


def test_model_without_its_inputs_is_refused() -> None:
    exported = export(nn.ReLU(), (torch.ones(2),))
    with pytest.raises(UsageError, match=r"found an object of the class ReLU\nto do: pass Example\(model, args\)"):
        pytest_hierexport.prove(nn.ReLU(), exported.model, exported.attribution)  # type: ignore[arg-type]


@pytest.mark.parametrize("tolerances", [{"flot32": 1e-3}, {"int64": 1e-3}, {"float32": -1e-3}, {"float32": math.nan}])
def test_tolerances_without_effect_are_refused(tolerances: dict[str, float]) -> None:
    example = Example(nn.ReLU(), (torch.ones(2),))
    exported = export(example.model, example.args)
    with pytest.raises(UsageError, match="like float32"):
        pytest_hierexport.prove(example, exported.model, exported.attribution, tolerances=tolerances)
