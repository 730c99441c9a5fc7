"""The proof in half precision: rounding is measured, right tags are proven within it and wrong ones are not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper
from torch import nn

from pytest_hierexport import carry, export, prove
from pytest_hierexport._calls.attribution import Attribution, Origins
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._onnx.models import as_proto
from pytest_hierexport._proof import Proof, VerdictKind
from pytest_hierexport._proof.directions import told_apart
from pytest_hierexport._proof.eager import Mode, run_eager
from pytest_hierexport._proof.precision import CAP, converted, half_precision, rounding_bounds
from pytest_hierexport._proof.values import Values


class Block(nn.Module):
    """Operations that ONNX Runtime computes in float32 in part, between casts."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(self.act(self.up(self.norm(x))))
        return out + x


class Stack(nn.Module):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Faint(nn.Module):
    """Adds less than half precision rounds: what it returns is hardly another value than what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + 1e-4 * torch.tanh(self.linear(x))
        return out


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.faint, self.after = Stack(6), Faint(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.after(self.faint(self.before(x)))
        return out


@dataclass(frozen=True)
class Run:
    """A model, and the graph that a tool made of its export."""

    example: Example
    after: onnx.ModelProto
    attribution: Attribution

    def prove(self, change: Callable[[str, Origins], Origins] | None = None) -> Proof:
        nodes = {key: change(key, o) if change else o for key, o in self.attribution.nodes.items()}
        return prove(self.example, self.after, replace(self.attribution, nodes=nodes))


def optimized(model: onnx.ModelProto) -> onnx.ModelProto:
    with TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(Path(folder) / "model.onnx")
        options.log_severity_level = 3
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def narrowed(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.ModelProto.FromString(model.SerializeToString())
    del model.graph.value_info[:]
    found: onnx.ModelProto = convert_float_to_float16(model, keep_io_types=True)
    return found


@cache
def made(cls: Any, tool: Callable[[onnx.ModelProto], onnx.ModelProto], dtype: torch.dtype = torch.float16) -> Run:
    torch.manual_seed(0)
    model = cls().eval()
    randomise(model)
    args = (torch.randn(2, 8, 16, dtype=dtype),)
    exported = export(model.to(dtype), args, exporter="dynamo")
    with as_proto(exported.model) as (message, _):
        after = tool(message)
    return Run(Example(model, args), after, carry(exported.model, exported.attribution, after))


def kinds(proof: Proof) -> set[str]:
    return {kind for kind, count in proof.counts().items() if count}


def test_float16_between_casts_of_a_runtime_is_proven() -> None:
    run = made(Stack, optimized)
    assert sum(node.op_type == "Cast" for node in run.after.graph.node) > 10
    proof = run.prove()
    assert kinds(proof) == {"proven"}
    assert (proof.contaminated, proof.loose) == ({}, ())


def test_calls_that_only_look_dissolved_across_dtypes_are_proven() -> None:
    assert kinds(made(Block, optimized).prove()) == {"proven"}


def test_half_precision_is_measured_without_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    def following(*_: object) -> None:
        raise AssertionError("the tolerances became coarser")

    monkeypatch.setattr(sys.modules["pytest_hierexport._proof.prove"], "following_choices", following)
    assert kinds(made(partial(Stack, 12), optimized).prove()) == {"proven"}


def test_stated_tolerance_is_not_widened_in_half_precision() -> None:
    run = made(partial(Stack, 12), optimized)
    exact = prove(run.example, run.after, run.attribution, tolerances={"float16": 1e-6})
    assert exact.counts()["proven"] < run.prove().counts()["proven"]


def test_float32_model_converted_to_float16_is_proven() -> None:
    assert kinds(made(Stack, narrowed, torch.float32).prove()) == {"proven"}


def swapped(one: str, other: str) -> Callable[[str, Origins], Origins]:
    def change(_: str, origins: Origins) -> Origins:
        return tuple(replace(o, call={one: other, other: one}.get(o.call, o.call)) for o in origins)

    return change


@pytest.mark.parametrize("tool", [optimized, narrowed])
@pytest.mark.parametrize(
    ("one", "other"),
    [("blocks.0.norm", "blocks.0.up"), ("blocks.0.up", "blocks.1.up"), ("blocks.1.down", "blocks.2.down")],
)
def test_wrong_tag_is_unproven_within_the_measured_bound(tool: Any, one: str, other: str) -> None:
    dtype = torch.float32 if tool is narrowed else torch.float16
    unproven = made(Stack, tool, dtype).prove(swapped(one, other)).unproven
    assert {one, other} <= unproven.keys()


def test_wrong_residual_tag_is_unproven_within_the_bound() -> None:
    """The addition of one block belongs to the next: values before and after a block are near each other."""
    run = made(Stack, optimized)
    last = {key for key, origins in run.attribution.nodes.items() if {o.call for o in origins} == {"blocks.0"}}

    def change(key: str, origins: Origins) -> Origins:
        return tuple(replace(origin, call="blocks.1") for origin in origins) if key in last else origins

    assert last
    assert {"blocks.0", "blocks.1"} <= run.prove(change).unproven.keys()


def test_call_that_rounding_hides_is_ambiguous() -> None:
    proof = made(Hidden, optimized).prove()
    assert proof.unproven == {}
    assert proof.verdicts["faint"].kind is VerdictKind.AMBIGUOUS
    assert "rounding" in proof.verdicts["faint"].reason
    assert proof.verdicts["before.blocks.0"].kind is VerdictKind.PROVEN


def bounds(model: nn.Module, dtype: torch.dtype, precision: str = "float16") -> tuple[Values, dict[str, float]]:
    """Return the largest bound among what each call returned."""
    example = Example(model.eval().to(dtype), (torch.randn(2, 8, 16).to(dtype),))
    hierarchy = export(model, example.args, exporter="dynamo").attribution.hierarchy
    values = Values(precision=precision)
    calls = run_eager(example, hierarchy, values, Mode.PLAIN)
    found = rounding_bounds(example, hierarchy, Mode.PLAIN, values, calls)
    return values, {call.call.name: max(found.get(number, 0.0) for number in call.returned) for call in calls}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_bounds_grow_with_the_depth(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    _, found = bounds(Stack(6), dtype)
    assert 0 < found["blocks.0.down"] < found["blocks.5.down"] < 0.1


class Steep(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(1000 * torch.exp(x))


def test_bound_is_capped_where_rounding_decides_everything() -> None:
    torch.manual_seed(0)
    _, found = bounds(nn.Sequential(nn.Linear(16, 16), Steep()), torch.float16)
    assert found["1"] == CAP


class Masked(nn.Module):
    """Fills with the lowest number of the dtype that it is used with."""

    def __init__(self, lowest: float) -> None:
        super().__init__()
        self.linear, self.lowest = nn.Linear(16, 16), lowest

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x)
        return out.masked_fill(out < 0, self.lowest)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_lowest_number_of_a_mask_is_not_moved(dtype: torch.dtype) -> None:
    precision = "float16" if dtype is torch.float16 else ""
    found = bounds(Masked(torch.finfo(dtype).min), dtype, precision)[1]
    assert found[""] < 0.1


class Rounded(nn.Module):
    """Adds, in half precision, what a layer of its own computes, times a number that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.own = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, factor: int = 2) -> torch.Tensor:
        out: torch.Tensor = self.linear(x) * factor
        return out + self.own(x) if x.dtype is torch.float16 else out


class Giving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rounded = Rounded()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.rounded(x, 3)
        return out


def test_call_of_one_precision_alone_has_no_bounds() -> None:
    found = bounds(Giving(), torch.float16)[1]
    assert (found["rounded.own"], found["rounded"] > 0) == (0, True)


class Keeping(nn.Module):
    """Keeps a state: a tensor, or whether its numbers are positive."""

    def __init__(self, *, mask: bool) -> None:
        super().__init__()
        self.linear, self.mask = nn.Linear(16, 16), mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x)
        self.state = out > 0 if self.mask else out * 3
        return out


class Masking(nn.Module):
    """Computes two states, and masks the one by the other when it is called again."""

    def __init__(self) -> None:
        super().__init__()
        self.kept, self.mask = Keeping(mask=False), Keeping(mask=True)

    def forward(self, x: torch.Tensor, *, again: bool) -> torch.Tensor:
        if again:
            return self.kept.state.sigmoid() * self.mask.state
        out: torch.Tensor = self.mask(self.kept(x))
        return out


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.masking = Masking()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.masking(self.masking(x, again=False), again=True)
        return out


def test_mask_at_the_place_of_a_number_hides_no_bound() -> None:
    torch.manual_seed(0)
    example = Example(Twice().eval().half(), (torch.randn(4, 16).half(),))
    values = Values(precision="float16")
    calls = run_eager(example, Hierarchy([]), values, Mode.PLAIN)
    (again,) = (call for call in calls if call.call.name == "masking@1")
    found = rounding_bounds(example, Hierarchy([]), Mode.PLAIN, values, calls)
    states = [number for number, place in again.inputs.items() if place == "captured state"]
    assert [found[number] > 0 for number in states if values[number].dtype == "float16"] == [True]


class Wave(nn.Module):
    """Multiplies the rounding of a long sum."""

    def __init__(self, factor: float = 3000.0) -> None:
        super().__init__()
        self.factor, self.linear, self.out = factor, nn.Linear(512, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out(torch.sin(self.factor * self.linear(x)))
        return out


def test_multiplied_rounding_of_float32_is_measured() -> None:
    torch.manual_seed(0)
    example = Example(Wave().eval(), (torch.randn(64, 512),))
    randomise(example.model)
    exported = export(example.model, example.args)
    assert kinds(prove(example, exported.model, exported.attribution)) == {"proven"}
    other = Example(Wave(3030.0).eval(), example.args)
    other.model.load_state_dict(example.model.state_dict())
    assert "" in prove(other, exported.model, exported.attribution).unproven


class Stubborn(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float16:
            raise RuntimeError("float16 alone")
        return x * 2


class Uncopied(nn.Module):
    def __deepcopy__(self, memo: Any) -> Any:
        raise ValueError("there is one")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_model_that_cannot_be_copied_has_no_bounds() -> None:
    assert set(bounds(Uncopied(), torch.float16)[1].values()) == {0.0}


def test_model_that_runs_in_one_precision_has_no_bounds() -> None:
    _, found = bounds(Stubborn(), torch.float16)
    assert set(found.values()) == {0.0}


def test_copy_in_another_precision_leaves_the_model_alone() -> None:
    model = Stack(1)
    model.table = torch.ones(3, dtype=torch.float64)
    example = Example(model, (torch.ones(1), torch.ones(1, dtype=torch.int64)))
    copied = converted(example, torch.float16)
    kept = list(copied.model.state_dict().values())
    assert {tensor.dtype for tensor in (*kept, copied.model.table, copied.args[0])} == {torch.float16}
    assert copied.args[1].dtype is torch.int64
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize(("dtype", "found"), [("float16", "float16"), ("bfloat16", "bfloat16"), ("float", "")])
def test_half_precision_is_that_of_the_graph_or_model(dtype: str, found: str) -> None:
    text = f'<ir_version: 10, opset_import: ["": 20]> g ({dtype}[2] x) => ({dtype}[2] y) {{ y = Relu(x) }}'
    graph = onnx.parser.parse_model(text)
    assert half_precision(Example(nn.ReLU(), (torch.ones(2),)), graph) == found
    assert half_precision(Example(nn.ReLU(), (torch.ones(2).bfloat16(),)), graph) == "bfloat16"
    # An attribute may have the number of a dtype by chance.
    graph.graph.node[0].attribute.append(helper.make_attribute("num_outputs", onnx.TensorProto.BFLOAT16))
    assert half_precision(Example(nn.ReLU(), (torch.ones(2),)), graph) == found


def test_float32_copy_is_found_among_half_precision() -> None:
    values = Values(precision="float16")
    numbers = np.random.default_rng(0).standard_normal(50).astype(np.float32)
    masked = np.where(numbers > 0, numbers, -65504).astype(np.float16)
    number = values.add(values.fingerprint(masked))
    assert values.find(values.fingerprint(masked.astype(np.float32))) == {number}
    assert values.find(values.fingerprint(masked.astype(ml_dtypes.bfloat16))) == {number}
    assert values.has_shape("float32", (50,))
    assert not values.has_shape("int64", (50,))


@pytest.mark.parametrize(("elements", "found"), [(80, ["h", "g"]), (160, ["h"])])
def test_direction_of_errors_is_known_from_enough_elements(elements: int, found: list[str]) -> None:
    # The example of the module.
    h, g, tensor = (np.tile(each, elements // 4) for each in ([1, 1, 1, 1], [1.1, 0.9, 1.1, 0.9], [1.1, 1.1, 0.9, 0.9]))
    assert np.isclose(np.linalg.norm(tensor - h), np.linalg.norm(g - h))
    numbers = told_apart({0: (h, np.ones(elements)), 1: (g, np.ones(elements))}, tensor)
    assert ["hg"[number] for number in numbers] == found


def test_value_of_infinite_sums_is_the_nearest_itself() -> None:
    huge, one = np.array([np.inf, 1.0]), np.ones(2)
    with np.errstate(invalid="ignore"):
        assert list(told_apart({0: (huge, one), 1: (huge * 1.1, one)}, huge)) == [0]


def test_direction_of_errors_tells_near_values_apart() -> None:
    generator = np.random.default_rng(0)
    stream, small, error = (generator.standard_normal(2000).astype(np.float32) for _ in range(3))
    values = Values(precision="float16")
    before, after = (values.add(values.fingerprint(each)) for each in (stream, stream + small / 100))
    values.bounds = dict.fromkeys((before, after), 0.5)
    assert values.find(values.fingerprint(stream + error / 100)) == {before}
    assert values.find(values.fingerprint(stream + small / 100 + error / 100)) == {after}
    assert values.find(values.fingerprint(stream + small / 200 + error / 100)) == {before, after}
