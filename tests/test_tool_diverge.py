"""Where a graph parts from its model or another graph, and which calls add the error."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

from pytest_hierexport import (
    Attribution,
    Call,
    Case,
    Divergence,
    Evidence,
    Example,
    Export,
    Hierarchy,
    Origin,
    TagError,
    UsageError,
    attach,
    diverge,
    export,
    modules_as_functions,
    profile,
)
from pytest_hierexport._carry.aliases import number_values
from pytest_hierexport._tools.divergence import pairs
from pytest_hierexport._tools.divergence.compared import Arrays
from pytest_hierexport._tools.divergence.gaps import gap
from pytest_hierexport._tools.divergence.page import as_page
from pytest_hierexport._tools.divergence.results import Gap
from pytest_hierexport._tools.divergence.text import as_dict, as_lines
from pytest_hierexport.cli import main
from schemas import strict_schema

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.act(self.up(x))
        return torch.add(x, self.down(hidden * 1.5))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block(), Block())
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.blocks(x))
        return scores


class Picker(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.argmax(-1)


class Picks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj, self.picker, self.table = nn.Linear(8, 5), Picker(), nn.Embedding(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.table(self.picker(self.proj(x)))
        return rows


class Logarithm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.log()


class Difference(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left - right.exp()


class Logs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj, self.log = nn.Linear(8, 8), Logarithm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mul(self.log(self.proj(x)), 2)


@dataclass
class Exported:
    example: Example
    path: Path
    made: Export

    def changed(self, name: str, change: Any) -> Path:
        """Write the graph with another tensor for a parameter."""
        proto = onnx.load(self.path)
        tensor = next(each for each in proto.graph.initializer if each.name == name)
        tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)), name))
        path = self.path.with_name("changed.onnx")
        onnx.save(proto, path)
        return path


def exported(model: nn.Module, folder: Path, x: torch.Tensor = X) -> Exported:
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    path = folder / "model.onnx"
    example = Example(model.eval(), (x,))
    return Exported(example, path, export(example.model, example.args, path=path, exporter="dynamo"))


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return exported(Net(), tmp_path_factory.mktemp("net"))


def parting(found: Divergence) -> list[str]:
    return [call.call for call in found.calls if call.accumulated is not None and call.accumulated.parted]


def adding(found: Divergence) -> list[str]:
    return [call.call for call in found.calls if call.added is not None and call.added.parted]


def test_equal_graphs_and_models_do_not_part(net: Exported) -> None:
    for found in (diverge(net.example, net.path), diverge(net.path, net.path, net.example)):
        assert found.first is None
        assert all(call.accumulated is not None for call in found.calls)
        assert {"blocks.1", "blocks.1.up", "blocks.1.act", "blocks.1.down", "head"} <= {c.call for c in found.calls}


@pytest.mark.parametrize("against", ["graph", "model"])
@pytest.mark.parametrize("layer", ["blocks.0.up", "blocks.1.down", "blocks.2.up", "head"])
def test_changed_weight_parts_first_and_adds_alone(net: Exported, layer: str, against: str) -> None:
    other = net.changed(f"{layer}.weight", lambda weight: weight * 1.2)
    found = diverge(net.example, other) if against == "model" else diverge(net.path, other, net.example)
    assert found.first is not None
    assert found.first.call == layer
    assert adding(found) == [layer]
    order = [call.call for call in found.calls]
    assert parting(found)[-1] == "head"
    assert all(order.index(call) >= order.index(layer) for call in parting(found) if call.count(".") == 2)
    assert found.ranking[0].call == layer


def test_own_operation_between_calls_parts_in_its_call(net: Exported, tmp_path: Path) -> None:
    proto = onnx.load(net.path)
    changed = next(node for node in proto.graph.node if node.op_type == "Mul")
    changed.op_type = "Sub"
    other = tmp_path / "other.onnx"
    onnx.save(proto, other)
    found = diverge(net.example, other)
    assert found.first is not None
    assert found.first.call == "blocks.0"
    assert adding(found) == ["blocks.0"]


def test_added_error_is_measured_on_the_reference_values(net: Exported) -> None:
    other = net.changed("blocks.0.up.weight", lambda weight: weight * 1.2)
    found = {call.call: call for call in diverge(net.path, other, net.example).calls}
    up = net.example.model.blocks[0].up  # type: ignore[union-attr, index]
    with torch.no_grad():
        noise = 0.2 * (X @ up.weight.T)
        signal = up(X)
    expected = 10 * np.log10(float((signal**2).sum() / (noise**2).sum()))
    added, impact = found["blocks.0.up"].added, found["blocks.0.up"].impact
    assert added is not None
    assert added.sqnr == pytest.approx(expected, abs=1e-3)
    head = found["head"].accumulated
    assert impact is not None
    assert head is not None
    assert impact.sqnr == pytest.approx(head.sqnr, abs=1e-2)  # the only change, so all of the outputs' error


def test_depth_counts_nodes_for_the_call_above(net: Exported) -> None:
    other = net.changed("blocks.1.up.weight", lambda weight: weight * 1.2)
    found = diverge(net.path, other, net.example, depth=2)
    assert [call.call for call in found.calls] == ["blocks.0", "blocks.1", "blocks.2", "head"]
    assert adding(found) == ["blocks.1"]
    assert diverge(net.path, other, net.example, depth=0).calls[0].call == ""


def test_tolerance_decides_what_parts(net: Exported) -> None:
    other = net.changed("head.weight", lambda weight: weight * 1.001)
    assert diverge(net.path, other, net.example).first is not None
    assert diverge(net.path, other, net.example, tolerance=0.1).first is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_in_one_graph_part(net: Exported, bad: float) -> None:
    other = net.changed("blocks.1.up.weight", lambda weight: np.full_like(weight, bad))
    found = diverge(net.path, other, net.example)
    assert found.first is not None
    assert found.first.call == "blocks.1.up"
    assert found.first.accumulated is not None
    assert found.first.accumulated.sqnr == -np.inf
    assert found.first.accumulated.reason == "NaN or infinity in one of them alone"
    (row,) = [line.split() for line in as_lines(found, 0) if "parts first" in line]
    assert row[:2] + row[3:5] == ["-inf", "-inf", "nan", "inf"]


def test_nan_in_both_graphs_is_equal(tmp_path: Path) -> None:
    logs = exported(Logs(), tmp_path)
    found = diverge(logs.path, logs.path, logs.example)
    assert found.first is None
    assert diverge(logs.example, logs.path).first is None


def test_changed_integers_part(tmp_path: Path) -> None:
    picks = exported(Picks(), tmp_path)
    assert diverge(picks.example, picks.path).first is None
    other = picks.changed("proj.weight", lambda weight: -weight)
    found = {call.call: call for call in diverge(picks.path, other, picks.example).calls}
    picked = found["picker"]
    assert picked.accumulated is not None
    assert picked.accumulated.parted
    assert picked.added is not None
    assert not picked.added.parted


def test_another_shape_parts_with_both_shapes(net: Exported) -> None:
    other = net.changed("head.weight", lambda weight: np.concatenate([weight, weight]))
    proto = onnx.load(other)
    bias = next(each for each in proto.graph.initializer if each.name == "head.bias")
    bias.CopyFrom(numpy_helper.from_array(np.zeros(6, np.float32), "head.bias"))
    del proto.graph.value_info[:]
    proto.graph.output[0].type.tensor_type.shape.dim[-1].dim_value = 6
    onnx.save(proto, other)
    found = diverge(net.path, other, net.example)
    assert found.first is not None
    assert found.first.call == "head"
    assert found.first.accumulated is not None
    assert found.first.accumulated.reason == "shape [4, 6] instead of [4, 3]"


def test_fused_value_is_unknown_and_counts_for_its_consumer(net: Exported, tmp_path: Path) -> None:
    proto = onnx.load(net.path)
    index = next(i for i, node in enumerate(proto.graph.node) if node.op_type == "Tanh")
    tanh, gemm = proto.graph.node[index], next(node for node in proto.graph.node if node.op_type == "Gemm")
    gemm.op_type, gemm.domain = "FusedGemm", "com.microsoft"
    gemm.attribute.append(onnx.helper.make_attribute("activation", "Tanh"))
    gemm.output[0] = tanh.output[0]
    del proto.graph.node[index]
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    del proto.graph.value_info[:]
    other = tmp_path / "fused.onnx"
    onnx.save(proto, other)
    found = diverge(net.path, other, net.example)
    calls = {call.call: call for call in found.calls}
    assert found.first is None
    assert calls["blocks.0.up"].accumulated is None
    assert calls["blocks.0.up"].reason == "the other graph lacks it"
    assert calls["blocks.0.act"].includes == ("blocks.0.up",)
    assert "1 of " in list(as_lines(found, 3))[-1]


def test_float16_graph_is_compared_in_its_precision(net: Exported, tmp_path: Path) -> None:
    float16 = pytest.importorskip("onnxconverter_common.float16")
    other = tmp_path / "half.onnx"
    onnx.save(float16.convert_float_to_float16(onnx.load(net.path), keep_io_types=True), other)
    found = diverge(net.path, other, net.example)
    assert {call.accumulated.tolerance for call in found.calls if call.accumulated is not None} == {1e-2}
    assert diverge(net.path, other, net.example, tolerance=0.1).first is None
    assert found.ranking


class Coarse(nn.Module):
    """Rounds to half precision in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, (x.half() * 1.7).sin().float()

        _, x = while_loop(lambda i, x: i < 8, step, (torch.tensor(0), self.up(x)))
        out: torch.Tensor = self.down(x)
        return out


def test_loop_in_half_precision_parts_from_nothing(tmp_path: Path) -> None:
    torch.manual_seed(0)
    example = Example(Coarse().eval(), (torch.randn(16, 8) * 3,))
    export(example.model, example.args, path=tmp_path / "coarse.onnx")
    assert diverge(example, tmp_path / "coarse.onnx").first is None


def test_inputs_are_converted_to_the_types_of_each_graph(net: Exported, tmp_path: Path) -> None:
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    other = tmp_path / "half.onnx"
    onnx.save(float16.convert_float_to_float16(onnx.load(net.path), keep_io_types=False), other)
    assert diverge(net.path, other, net.example, tolerance=0.1).first is None
    assert diverge(net.example, other, attribution=net.made.attribution, tolerance=0.1).first is None


def quantized(path: Path, folder: Path, excluded: tuple[str, ...] = ()) -> Path:
    from onnxruntime.quantization import quantize_dynamic

    proto = onnx.load(path)
    del proto.graph.value_info[:]
    onnx.save(proto, folder / "plain.onnx")
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(folder / "plain.onnx", folder / "quantized.onnx", nodes_to_exclude=list(excluded))
    finally:
        logging.disable(logging.NOTSET)
    return folder / "quantized.onnx"


def test_excluded_calls_win_back_most_of_the_error(net: Exported, tmp_path: Path) -> None:
    found = diverge(net.path, quantized(net.path, tmp_path), net.example)
    assert {"blocks.0.up", "head"} <= {call.call for call in found.ranking}
    with pytest.raises(UsageError, match="0 or more"):
        found.exclusion(-3)
    exclusion = found.exclusion(3)
    assert len(exclusion.modules) == 3
    better = diverge(net.path, quantized(net.path, tmp_path, exclusion.nodes), net.example)
    assert set(exclusion.modules).isdisjoint(call.call for call in better.ranking)
    errors = [{c.call: c for c in each.calls}["head"].accumulated for each in (found, better)]
    assert errors[0] is not None
    assert errors[1] is not None
    assert errors[1].sqnr > errors[0].sqnr + 3


def gaps(found: Divergence) -> dict[tuple[str, str], Gap | None]:
    values = {
        (v.name, kind): getattr(v, kind) for c in found.calls for v in c.values for kind in ("accumulated", "added")
    }
    return {**values, **{(call.call, "impact"): call.impact for call in found.calls}}


def test_several_inputs_average_noise_and_keep_the_worst(net: Exported, tmp_path: Path) -> None:
    other = quantized(net.path, tmp_path)
    inputs = [{"x": X.numpy()}, {"x": 3 * X.numpy()[::-1].copy()}]
    one, two = (gaps(diverge(net.path, other, each)) for each in inputs)
    merged = gaps(diverge(net.path, other, inputs))
    assert merged.keys() == one.keys() == two.keys()
    for key, found in merged.items():
        both = [each for each in (one[key], two[key]) if each is not None]
        assert (found is None) == (not both)
        if found is not None:
            noise = sum(10 ** (-each.sqnr / 10) for each in both) / len(both)
            assert 10 ** (-found.sqnr / 10) == pytest.approx(noise)
            assert found.max_abs == max(each.max_abs for each in both)
    assert any(found and found.sqnr < 60 for found in merged.values())
    with pytest.raises(UsageError, match="inputs to run both graphs on"):
        diverge(net.path, other, [])


class Switch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positive, self.negative = nn.Linear(8, 8), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > 0, self.positive, self.negative, (x,))
        return chosen


def test_graphs_are_matched_once_for_each_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "switch.onnx"
    export(Switch(), (X,), path=path)
    matched: list[object] = []

    def counted(*graphs: Any) -> Any:
        matched.append(graphs)
        return number_values(*graphs)

    monkeypatch.setattr(pairs, "number_values", counted)
    inputs = [{"x": sign * np.ones((4, 8), np.float32)} for sign in (1, -1, 2, -2)]
    found = diverge(path, path, inputs)
    assert len(matched) == 2
    assert {"positive", "negative"} <= {call.call for call in found.calls if call.values}


def test_tags_match_graphs_that_share_no_names(net: Exported, tmp_path: Path) -> None:
    other = tmp_path / "script.onnx"
    scripted = export(net.example.model, net.example.args, path=other, exporter="torchscript")
    proto = onnx.load(other)
    for tensor in proto.graph.initializer:
        if tensor.name == "blocks.1.up.weight":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.2), tensor.name))
    onnx.save(proto, other)
    assert scripted.attribution.hierarchy == net.made.attribution.hierarchy
    found = diverge(net.path, other, {"x": X.numpy()})
    assert found.first is not None
    assert found.first.call == "blocks.1.up"


def test_infinite_masks_do_not_hide_other_numbers() -> None:
    mask = np.array([-np.inf, np.finfo(np.float32).min, 1.0, 2.0], np.float32)
    assert gap(mask, mask).sqnr == np.inf
    assert gap(mask, mask + np.float32(0.1)).sqnr == pytest.approx(10 * np.log10(5 / 0.02), abs=1e-3)


@pytest.mark.parametrize("other", [-np.inf, np.nan])
def test_another_infinity_parts_beside_rounded_numbers(other: float) -> None:
    assert gap(np.array([np.inf, 1.0], np.float32), np.array([other, 1.0 + 1e-6], np.float32)).parted


def test_neighbours_among_large_integers_part() -> None:
    large = np.array([2**53])
    assert gap(large, large + 1).parted
    assert not gap(large, large).parted


@pytest.mark.parametrize(("fill", "dtype"), [(-1e9, np.float32), (-1e4, np.float32), (-65504, np.float16)])
def test_mask_hides_no_error_of_the_scores_beside(fill: float, dtype: type) -> None:
    scores: Any = np.array([3.0, -5.0, 0.5, *[fill] * 3], dtype)
    tripled: Any = np.array([9.0, -15.0, 1.5, *[fill] * 3], dtype)
    found = gap(scores, tripled)
    assert found.parted
    assert found.max_abs == 10
    assert not gap(scores, scores * dtype(1 + 1e-6)).parted


def test_rounding_beside_a_saturated_softmax_does_not_part() -> None:
    sure = np.array([1.0, 1e-12, 1.0, 3e-12], np.float32)
    found = gap(sure, np.array([1.0, 1.1e-12, 1.0, 3.1e-12], np.float32))
    assert not found.parted


def test_rounding_of_tiny_numbers_does_not_part() -> None:
    x = torch.linspace(-40, 40, 200, dtype=torch.float64)
    rounded = x * (1 + 1e-6)
    one, other = (nn.functional.silu(each).to(torch.float32).numpy() for each in (x, rounded))
    found = gap(one, other, tolerance=1e-5)
    assert found.distance > 1e-5
    assert not found.parted


def test_arrays_beyond_the_bound_are_held_in_files() -> None:
    held = Arrays(budget=8)
    tensors = {"memory": np.ones(2, np.float32), "file": np.arange(6.0).reshape(2, 3), "none": np.empty((0, 2))}
    for name, tensor in {**tensors, "scalar": np.array(3.0)}.items():
        held.add(name, tensor)
    assert all(np.array_equal(held[name], tensor) for name, tensor in tensors.items())
    assert held["scalar"].shape == ()
    assert sum(isinstance(array, np.memmap) for array in held.values()) == 2


def test_json_validates_and_the_page_escapes_names(net: Exported) -> None:
    other = net.changed("head.weight", lambda weight: np.full_like(weight, np.nan))
    found = diverge(net.path, other, net.example)
    schema = strict_schema("diverge")
    document = json.loads(json.dumps(as_dict(found, 3), allow_nan=False))
    jsonschema.validate(document, schema)
    assert document["first"] == "head"
    page = as_page(found, "<script>alert(1)</script>")
    assert "<script" not in page
    assert not re.search(r"""(src|href)=|url\(|https?:""", page)
    assert page.count("<circle") == 2 * len(found.calls)


def test_tagless_graph_and_missing_inputs_are_refused(net: Exported, tmp_path: Path) -> None:
    plain = tmp_path / "plain.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(_without_tags(net.path)), plain)
    with pytest.raises(TagError):
        diverge(net.example, plain)
    with pytest.raises(UsageError, match="inputs to run both graphs on"):
        diverge(net.path, plain)
    with pytest.raises(UsageError, match="an array for each input: x"):
        diverge(net.path, plain, {})
    assert diverge(net.path, plain, net.example).first is None


@pytest.fixture
def difference(tmp_path: Path) -> Path:
    export(Difference(), (X, X), path=tmp_path / "difference.onnx", exporter="dynamo")
    return tmp_path / "difference.onnx"


@pytest.mark.parametrize("command", [["diverge", "difference.onnx"], ["profile"]])
def test_arrays_with_wrong_names_are_refused(
    command: list[str], difference: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(difference.parent)
    np.savez("x.npz", rigth=X.numpy(), left=X.numpy())
    assert main([*command, "difference.onnx", "--inputs", "x.npz"]) == 4
    printed = capsys.readouterr().err
    assert "an array for each input: left, right; found none for right; arrays that are no input: rigth" in printed
    assert "to do: rename rigth: perhaps right" in printed
    assert main([*command, "difference.onnx", "--inputs", "none.npz"]) == 4
    printed = capsys.readouterr().err
    assert "none.npz to be an .npz file with an array for each input: left, right; found no such file" in printed


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "diverge difference.onnx difference.onnx --inputs=x.npz",
            "numbers for the input left, float[4, 8]; found dtype <U1",
        ),
        ("profile difference.onnx --inputs=x.npz", "numbers for the input left, float[4, 8]; found dtype <U1"),
        (
            "diverge difference.onnx difference.onnx --inputs=x.npy",
            "array for each input: left, right; found File is not a zip file",
        ),
    ],
    ids=["diverge", "profile", "no name"],
)
def test_file_without_numbers_by_name_is_refused(
    command: str, expected: str, difference: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(difference.parent)
    np.savez("x.npz", right=X.numpy(), left=np.array(["a", "b"]))
    np.save("x.npy", X.numpy())
    assert main(command.split()) == 4
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("tool", [lambda p, x: profile(p, x, runs=1), lambda p, x: diverge(p, p, x)])
def test_big_endian_arrays_are_inputs(tool: Callable[[Path, dict[str, Any]], object], difference: Path) -> None:
    tool(difference, dict.fromkeys(("left", "right"), X.numpy().astype(">f4")))


def test_renamed_and_dropped_inputs_keep_their_arrays(difference: Path) -> None:
    proto, other = onnx.load(difference), difference.with_name("other.onnx")
    left, right = proto.graph.input
    right.name = "renamed"
    for node in proto.graph.node:
        node.input[:] = [right.name if name == "right" else name for name in node.input]
    swapped = [onnx.ValueInfoProto.FromString(each.SerializeToString()) for each in (right, left)]
    del proto.graph.input[:]
    proto.graph.input.extend(swapped)
    onnx.save(proto, other)
    arrays = {"right": X.numpy(), "left": X.numpy() + 1}
    assert diverge(difference, other, arrays).first is None
    del proto.graph.input[0]
    for node in proto.graph.node:
        node.input[:] = ["left" if name == "renamed" else name for name in node.input]
    onnx.save(proto, other)
    assert diverge(difference, other, arrays).first is not None


def test_nothing_comparable_is_an_error(
    net: Exported, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Example(Logs().eval(), (X,))
    with pytest.raises(
        UsageError, match=r"none: no tensor of the model's calls corresponds to it \(\d+ of \d+ calls\)"
    ):
        diverge(wrong, net.path)
    monkeypatch.setattr("pytest_hierexport._cases.select_one", lambda _: Case("wrong", lambda: wrong))
    for flags in ([], ["--exclude", "nodes"], ["--exit-code"]):
        assert main(["diverge", str(net.path), "--model", "wrong.py::build", *flags]) == 4
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "to do: check that this is the model that the file was exported from" in printed.err


def test_unrelated_graph_is_no_graph_to_compare(net: Exported, tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 20]> g (float[4, 8] x) => (int64[2] y) { y = Shape(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "other.onnx")
    with pytest.raises(UsageError, match="none: the other graph lacks it"):
        diverge(net.path, tmp_path / "other.onnx", net.example)


class Masked(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(mask == 0, -1.0) * 2


class Masks(nn.Module):
    """Every layer computes the same mask, of which the optimized graph keeps the first."""

    def __init__(self) -> None:
        super().__init__()
        self.proj, self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2)), nn.ModuleList([Masked(), Masked()])

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for proj, layer in zip(self.proj, self.layers, strict=True):
            x = layer(proj(x), mask)
        return x


def test_merged_mask_leaves_each_layer_in_its_place(tmp_path: Path) -> None:
    example = Example(Masks().eval(), (X, torch.arange(8) % 3))
    export(example.model, example.args, path=tmp_path / "masks.onnx", exporter="dynamo")
    found = diverge(example, tmp_path / "masks.onnx")
    assert [call.call for call in found.calls] == ["proj.0", "layers.0", "proj.1", "layers.1"]


def test_call_that_parts_stands_where_it_does(net: Exported) -> None:
    other = net.changed("blocks.0.up.weight", lambda weight: weight * 1.2)
    inside = ["blocks.0.up", "blocks.0.act", "blocks.0.down"]
    assert [call.call for call in diverge(net.path, net.path, net.example).calls][:4] == [*inside, "blocks.0"]
    parted = [call.call for call in diverge(net.path, other, net.example).calls][:4]
    assert parted == [*inside[:2], "blocks.0", inside[2]]  # its product with 1.5 is an input of `down`


def test_missing_external_data_is_a_usage_error(net: Exported, tmp_path: Path) -> None:
    proto, other = onnx.load(net.path), tmp_path / "other.onnx"
    onnx.save(proto, other, save_as_external_data=True, location="other.data", size_threshold=0)
    assert diverge(net.path, other, net.example).first is None
    (tmp_path / "other.data").unlink()
    with pytest.raises(UsageError):
        diverge(net.path, other, net.example)


def _without_tags(path: Path) -> onnx.ModelProto:
    proto = onnx.load(path)
    del proto.metadata_props[:]
    for node in proto.graph.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]
    return proto


def test_command_prints_the_table_and_writes_the_page(
    net: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, inputs, page = quantized(net.path, tmp_path), tmp_path / "inputs.npz", tmp_path / "errors.html"
    np.savez(inputs, x=X.numpy())
    pair = ["diverge", str(net.path), str(other), "--inputs", str(inputs)]
    assert main([*pair, "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "first parting: /Net/Block.0 (blocks.0.up)" in printed
    table = printed.split("\n\n")[0].splitlines()
    (name,) = {line.index("/Net") if "/Net" in line else line.index("module call") for line in table}
    assert {line[name - 2 : name] for line in table} == {"  "}
    assert list(as_lines(diverge(net.path, other, net.example), 1))[-5] == "the call that adds the largest error:"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main([*pair, "--exclude", "nodes", "--top", "1", "--exit-code"]) == 1
    node, *parts = json.loads(capsys.readouterr().out)
    assert {f"{node}_MatMul", f"{node}_Add"} <= {*parts}  # what the quantizer makes of it first
    assert node in {each.name for each in onnx.load(net.path).graph.node}
    assert main([*pair, "--inputs", str(inputs), "--json", "--no-added"]) == 0
    assert json.loads(capsys.readouterr().out)["ranking"] == []


def test_command_refuses_what_does_not_fit_together(
    net: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, foreign = str(net.path), tmp_path / "notes.html"
    foreign.write_text("mine")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 cut")
    for arguments in (
        [model],
        [model, model],
        [model, "--inputs", "x.npz"],
        [model, model, "--inputs", str(tmp_path / "bad.npz")],
        [model, model, "--inputs", str(tmp_path / "none.npz")],
        [model, "--model", "no_such_model"],
        [model, "--model", "nested", "--html", str(foreign)],
        [str(foreign), "--model", "nested"],
        *([model, "--model", "nested", "--tolerance", number] for number in ("-1", "inf", "nan", "abc")),
    ):
        assert main(["diverge", *arguments]) == 4, arguments
        error = capsys.readouterr().err
        assert "to do: " in error
        assert "--tolerance" not in arguments or f"not a number, 0 or more: {arguments[-1]}" in error
    assert foreign.read_text() == "mine"


class TestFunctions:
    def test_names_inside_a_function_pair_nothing_outside(self) -> None:
        made = export(Net().eval(), (X,))
        other = ir.to_proto(modules_as_functions(made.model, made.attribution, module="class:Block").model)
        (weight,) = (tensor for tensor in other.graph.initializer if tensor.name == "blocks.0.up.weight")
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 1.2, weight.name))
        found = diverge(made.model, other, {"x": X.numpy()}, attribution=made.attribution)
        assert found.first is not None
        assert (found.first.call, [call.call for call in found.ranking]) == ("blocks.0.up", ["blocks.0.up"])
        assert not any(call.unknown for call in found.calls)

    def test_one_of_other_operator_versions_stays_one_node(self) -> None:
        reference, other = (
            onnx.parser.parse_model(
                """<ir_version: 10, opset_import: ["" : 20, "m" : 1]> g (float[2] x) => (float[2] y)
                """
                f"<float[1] w = {{{weight}}}> {{ h = m.Scaled(x, w) y = Neg(h) }}"
                """<domain: "m", opset_import: ["" : 19]> Scaled (p, q) => (r) { o = Mul(p, q) r = Relu(o) }"""
            )
            for weight in (1, 2)
        )
        hierarchy = Hierarchy([Call("", 0, "m.Net", None), Call("layer", 0, "m.Layer", "")])
        owners = {"y": "", "h": "layer", "m::Scaled:://o": "layer", "m::Scaled:://r": "layer"}
        origins = {key: (Origin(call, Evidence.TRACED),) for key, call in owners.items()}
        inputs = {"x": np.array([1, 3], np.float32)}
        found = diverge(reference, other, inputs, attribution=Attribution(hierarchy, origins))
        assert [call.call for call in found.ranking] == ["layer"]


@pytest.mark.parametrize("listed", ["h", "h, h"])
def test_a_sequence_is_no_tensor_however_many_it_has(listed: str) -> None:
    reference, other = (
        onnx.parser.parse_model(
            f"""<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y)
            <float[1] w = {{{weight}}}, int64 zero = {{0}}>
            {{ h = Mul(x, w) s = SequenceConstruct({listed}) t = SequenceAt(s, zero) y = Neg(t) }}"""
        )
        for weight in (1, 2)
    )
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), *(Call(name, 0, "m.Layer", "") for name in ("a", "b", "c"))])
    owners = {"h": "a", "s": "a", "t": "b", "y": "c"}
    origins = {key: (Origin(call, Evidence.TRACED),) for key, call in owners.items()}
    inputs = {"x": np.array([1, 3], np.float32)}
    found = diverge(reference, other, inputs, attribution=Attribution(hierarchy, origins))
    assert {call.call: call.reason for call in found.calls} == {"a": "it is no tensor", "b": "", "c": ""}
    assert [call.call for call in found.ranking] == ["b"]
    assert found.ranking[0].impact is not None


def test_dropped_operator_is_found_in_what_took_its_work() -> None:
    head = '<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y)'
    reference, other = (
        onnx.parser.parse_model(f"{head} <float w = {{{weight}}}, float low = {{0}}, float high = {{9}}> {{ {nodes} }}")
        for weight, nodes in (
            ("2", "h = Mul(x, w) z = Relu(h) y = Neg(z)"),
            ("2.02", "z = Mul(x, w) z_clip = Clip(z, low, high) y = Neg(z_clip)"),
        )
    )
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), *(Call(name, 0, "m.Layer", "") for name in "ab")])
    origins = {key: (Origin(call, Evidence.TRACED),) for key, call in {"h": "a", "z": "a", "y": "b"}.items()}
    inputs = {"x": np.array([-5, 3], np.float32)}
    found = diverge(reference, other, inputs, attribution=Attribution(hierarchy, origins))
    assert [call.call for call in found.ranking] == ["a"]
    assert found.ranking[0].added is not None
    assert found.ranking[0].added.sqnr == pytest.approx(40, abs=0.1)


def tagged(text: str, stored: dict[str, np.ndarray[Any, Any]], owners: dict[str, str]) -> ir.Model:
    """Return a graph with these initializers, each value computed by the layer that is named as its owner."""
    layers = (Call(name, 0, "m.Layer", "") for name in dict.fromkeys(owners.values()))
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]> {text}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    computed = (node.output[0] for node in proto.graph.node)
    origins = {value: (Origin(owners[value], Evidence.TRACED),) for value in computed}
    model = ir.from_proto(proto)
    attach(model, Attribution(Hierarchy([Call("", 0, "m.Net", None), *layers]), origins))
    return model


def test_value_before_a_fused_bias_is_no_wrong_one() -> None:
    owners = {"h": "proj", "p": "proj", "m": "up", "u": "up", "y": "act"}
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=(4, 4)).astype(np.float32) for name in ("x", "w", "v")}
    arrays |= {name: random.normal(size=4).astype(np.float32) for name in ("b", "c")}

    def scaled(scale: float, nodes: str) -> ir.Model:
        text = f"""g (float[4, 4] x) => (float[4, 4] y)
            {{ h = MatMul(x, w) p = Add(h, b) m = MatMul(p, v) {nodes} }}"""
        stored = {**arrays, "b": (arrays["b"] * scale).astype(np.float32)}
        return tagged(text, {name: stored[name] for name in "wvbc"}, owners)

    reference, other = scaled(1, "u = Add(m, c) y = Gelu(u)"), scaled(1.2, "y = com.microsoft.BiasGelu(m, c)")
    found = diverge(reference, other, {"x": arrays["x"]})
    assert adding(found) == ["proj"]
    assert {call.call: call.reason for call in found.calls}["up"] == "the other graph lacks it"


def test_value_in_another_layout_is_no_wrong_one() -> None:
    owners = {"h": "proj", "xt": "proj", "ht": "proj", "a": "act", "at": "act", "yt": "scale", "y": "scale"}
    weight = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)

    def scaled(scale: float, stored: dict[str, np.ndarray[Any, Any]], nodes: str) -> ir.Model:
        text = f"g (float[4, 4] x) => (float[4, 4] y) <float s = {{{scale}}}> {{ {nodes} }}"
        return tagged(text, stored, owners)

    reference = scaled(2, {"w": weight}, "h = MatMul(x, w) a = Sin(h) y = Mul(a, s)")
    rearranged = "xt = Transpose(x) ht = MatMul(wt, xt) at = Sin(ht) yt = Mul(at, s) y = Transpose(yt)"
    other = scaled(2.2, {"wt": np.ascontiguousarray(weight.T)}, rearranged)
    found = diverge(reference, other, {"x": X.numpy()[:, :4]})
    assert adding(found) == parting(found) == ["scale"]
    assert found.ranking[0].includes == ("act", "proj")


def test_stored_value_may_be_named_as_a_part_is() -> None:
    def shifted(by: float) -> ir.Model:
        text, stored = "g (float[2] x) => (float[2] y) { h = Abs(x) y = Add(h, b) }", np.full(2, by, np.float32)
        model = tagged(text, {"b": stored}, {"h": "first", "y": "second"})
        model.graph.initializers["b"].name = "h/own"
        return model

    found = diverge(shifted(1), shifted(2), {"x": np.ones(2, np.float32)})
    assert adding(found) == ["second"]
