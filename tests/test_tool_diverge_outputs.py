"""Wrong outputs part, and calls whose values no other check compares: residual layers, loops, tables, masks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch._higher_order_ops.scan import scan

from pytest_hierexport import Divergence, Example, diverge, export
from pytest_hierexport._tools.divergence.page import as_page
from pytest_hierexport._tools.divergence.results import CallGap, Gap, ValueGap
from pytest_hierexport._tools.divergence.text import as_lines
from pytest_hierexport.cli import main

if TYPE_CHECKING:
    import pytest

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
Change = Callable[[onnx.GraphProto], object]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, self.proj(self.norm(x)) * 0.1)


class Residual(nn.Module):
    """A wrong result of a layer is nearer to what the layer was given than to the right one."""

    def __init__(self, depth: int = 3, factor: int = 1) -> None:
        super().__init__()
        self.layers, self.depth, self.factor = nn.ModuleList(Layer() for _ in range(3)), depth, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[: self.depth]:
            x = layer(x)
        return x * self.factor if self.factor > 1 else x


class Pair(nn.Module):
    def __init__(self, swapped: bool = False) -> None:
        super().__init__()
        self.loc, self.scale, self.swapped = nn.Linear(4, 4), nn.Linear(4, 4), swapped

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loc, scale = self.loc(x), self.scale(x)
        return (scale, loc) if self.swapped else (loc, scale)


def example(model: nn.Module) -> Example:
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return Example(model.eval(), (X,))


def exported(given: Example, path: Path, change: Change | None = None, *, optimize: bool = True) -> Path:
    """Export a model, and change the file."""
    export(given.model, given.args, path=path, exporter="dynamo", optimize=optimize)
    if change is not None:
        proto = onnx.load(path)
        change(proto.graph)
        onnx.save(proto, path)
    return path


def with_tensor(name: str, new: Callable[[Any], Any]) -> Change:
    def change(graph: onnx.GraphProto) -> None:
        tensor = next(each for each in _initializers(graph) if each.name == name)
        tensor.CopyFrom(numpy_helper.from_array(new(numpy_helper.to_array(tensor)), name))

    return change


def _initializers(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return [*graph.initializer, *(tensor for each in inner for tensor in _initializers(each))]


def subtract_last(graph: onnx.GraphProto) -> None:
    [node for node in graph.node if node.op_type == "Add"][-1].op_type = "Sub"


def first(found: Divergence) -> str | None:
    return None if found.first is None else found.first.call


def test_wrong_result_near_the_input_parts(tmp_path: Path) -> None:
    given = example(Residual())
    right, wrong = exported(given, tmp_path / "a.onnx"), exported(given, tmp_path / "b.onnx", subtract_last)
    assert first(diverge(given, right)) is None
    assert first(diverge(given, wrong)) == "layers.2"
    assert first(diverge(right, wrong, given)) == "layers.2"


def test_lacking_layer_parts_by_the_output(tmp_path: Path) -> None:
    three, two = example(Residual()), example(Residual(depth=2))
    right, wrong = exported(three, tmp_path / "a.onnx"), exported(two, tmp_path / "b.onnx")
    assert first(diverge(three, wrong)) == ""
    assert first(diverge(right, wrong, three)) == "layers.2"


def test_operation_after_the_last_layer_is_the_root_s(tmp_path: Path) -> None:
    plain, doubled = example(Residual()), example(Residual(factor=2))
    right, wrong = exported(plain, tmp_path / "a.onnx"), exported(doubled, tmp_path / "b.onnx")
    found = [diverge(plain, wrong), diverge(doubled, right), diverge(right, wrong, plain), diverge(wrong, right, plain)]
    assert [first(each) for each in found] == ["", "", "", ""]
    assert [each.ranking[0].call for each in found] == ["", "", "", ""]


def test_swapped_outputs_part_from_the_model(tmp_path: Path) -> None:
    given, swapped = example(Pair()), example(Pair(swapped=True))
    path = exported(given, tmp_path / "a.onnx")
    assert first(diverge(given, path)) is None
    assert first(diverge(swapped, path)) == ""


def test_negated_result_is_told_of_its_own_call(tmp_path: Path) -> None:
    given = example(nn.Sequential(nn.Linear(4, 4), Residual()))
    for name, call in (("0.bias", "0"), ("1.layers.1.norm.bias", "1.layers.1.norm")):
        wrong = exported(given, tmp_path / "b.onnx", with_tensor(name, lambda bias: -9 * bias))
        assert first(diverge(given, wrong)) == call


def test_output_that_is_stored_or_an_input_is_compared(tmp_path: Path) -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj, self.table = nn.Linear(4, 4), nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            return self.proj(x), self.table, x

    given = example(Constant())
    right = exported(given, tmp_path / "a.onnx")
    wrong = exported(given, tmp_path / "b.onnx", with_tensor("table", lambda table: table + 1))
    for found in (diverge(given, right), diverge(right, right, given)):
        assert (first(found), found.unknown_outputs) == (None, ())
    assert first(diverge(given, wrong)) == first(diverge(right, wrong, given)) == ""


def test_output_that_the_other_lacks_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, inputs = example(Pair()), tmp_path / "x.npz"
    right = exported(given, tmp_path / "a.onnx")

    def drop(graph: onnx.GraphProto) -> None:
        name = graph.output.pop().name
        graph.node.remove(next(node for node in graph.node if name in node.output))

    wrong = exported(given, tmp_path / "b.onnx", drop)
    np.savez(inputs, x=X.numpy())
    assert main(["diverge", str(right), str(wrong), "--inputs", str(inputs), "--exit-code"]) == 1
    assert "but outputs are unknown: linear_1" in capsys.readouterr().out
    assert "but outputs are unknown: linear_1" in as_page(diverge(right, wrong, given), "page")
    lines = "\n".join(as_lines(diverge(right, wrong, given, depth=0), 3))
    assert "(the root)  1 of 2 values unknown: the other graph lacks it" in lines


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(state: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state = self.left(state).tanh() + self.right(row)
            return state, state * 2

        rows: torch.Tensor = self.out(scan(step, torch.zeros(4), x)[1])
        return rows


def test_change_in_a_loop_is_told_of_its_caller(tmp_path: Path) -> None:
    given = example(Loop())
    right = exported(given, tmp_path / "a.onnx")
    wrong = exported(given, tmp_path / "b.onnx", with_tensor("right.bias", lambda bias: bias + 1))
    for found in (diverge(given, wrong), diverge(right, wrong, given)):
        assert found.first is not None
        assert (found.first.call, found.first.includes) == ("", ("left", "right"))
        assert {"left", "right"} <= set(found.exclusion(1).modules)


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.proj = nn.Parameter(torch.ones(3, 4)), nn.Linear(4, 4)

    def forward(self) -> torch.Tensor:
        rows: torch.Tensor = self.proj(self.table)
        return rows.tanh()


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.positions, self.head = Table(), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(x + self.positions())
        return scores


def test_call_that_depends_on_no_input_is_compared(tmp_path: Path) -> None:
    given = example(Positions())
    right = exported(given, tmp_path / "a.onnx", optimize=False)
    change = with_tensor("positions.proj.bias", lambda bias: bias + 1)
    wrong = exported(given, tmp_path / "b.onnx", change, optimize=False)
    assert all(call.accumulated is not None for call in diverge(given, right).calls)
    assert first(diverge(given, wrong)) == first(diverge(right, wrong, given)) == "positions.proj"


def _appended(op_type: str) -> Change:
    """Return the change that computes the output once more, by an untagged node."""

    def change(graph: onnx.GraphProto) -> None:
        (output,) = graph.output
        graph.node.append(onnx.helper.make_node(op_type, [output.name, output.name], ["end"]))
        output.name = "end"

    return change


def test_output_of_an_untagged_node_parts(tmp_path: Path) -> None:
    given = example(Residual())
    right = exported(given, tmp_path / "right.onnx", _appended("Add"))
    found = diverge(right, exported(given, tmp_path / "wrong.onnx", _appended("Mul")), given)
    assert found.first is not None
    assert found.first.call == ""


def test_missing_head_parts_by_its_output(tmp_path: Path) -> None:
    def behead(graph: onnx.GraphProto) -> None:
        head = graph.node.pop()
        graph.output[0].name = head.input[0]
        graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4

    given = example(nn.Sequential(Residual(), nn.Linear(4, 10)))
    right, wrong = exported(given, tmp_path / "a.onnx"), exported(given, tmp_path / "b.onnx", behead)
    found = diverge(right, wrong, given)
    assert found.first is not None or found.unknown_outputs


def test_right_value_as_further_output_is_no_parting(tmp_path: Path) -> None:
    def expose(graph: onnx.GraphProto) -> None:
        hidden = [node for node in graph.node if node.op_type == "Add"][-2].output[0]
        graph.output.append(onnx.helper.make_tensor_value_info(hidden, onnx.TensorProto.FLOAT, [3, 4]))

    given = example(Residual())
    assert diverge(given, exported(given, tmp_path / "exposed.onnx", expose)).first is None


def test_model_that_fails_as_it_is_captured_runs_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(nn.Module):
        is_odd = False

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> Any:
            if self.is_odd and torch.compiler.is_compiling():
                self.first(x * 3)
                raise RuntimeError("only as it is captured")
            return self.second(self.first(x))

    given = example(Odd())
    path = exported(given, tmp_path / "net.onnx")
    monkeypatch.setattr(Odd, "is_odd", True)
    assert diverge(given, path).first is None


def test_texts_among_the_outputs_are_no_tensors(tmp_path: Path) -> None:
    def label(graph: onnx.GraphProto) -> None:
        graph.initializer.append(numpy_helper.from_array(np.array(["a", "b"], object), "labels"))
        graph.node.append(onnx.helper.make_node("Identity", ["labels"], ["computed"]))
        for name in ("labels", "computed"):
            graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.STRING, [2]))

    given = example(Residual())
    path = exported(given, tmp_path / "net.onnx", label)
    found = diverge(path, path, given)
    assert (found.first, {*found.unknown_outputs}) == (None, {"labels", "computed"})


def test_root_has_a_name_among_included_calls() -> None:
    value = ValueGap("scores", 1, "scores", Gap(np.inf, 1.0, 0.0, 0.0, 1e-4), includes=("", "layer"))
    found = Divergence((CallGap("head", "/Net", "net.Net", 1, 1, (), (value,)),))
    assert next(line for line in as_lines(found, 0) if "(head)" in line).endswith("  with the root, layer")


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.proj(x + torch.rand_like(x)) + torch.rand_like(x)


def test_graphs_that_draw_random_numbers_do_not_part(tmp_path: Path) -> None:
    def reorder(graph: onnx.GraphProto) -> None:
        drawing = [node for node in graph.node if node.op_type == "RandomUniformLike"]
        for node in drawing:
            graph.node.remove(node)
        for node in drawing:  # the last one first, as an optimizer may put them
            graph.node.insert(0, node)

    given = example(Noisy())
    right, other = exported(given, tmp_path / "a.onnx"), exported(given, tmp_path / "b.onnx", reorder)
    found = diverge(right, other, given)
    assert found.first is None
    assert all(call.impact is None or call.impact.sqnr > 100 for call in found.calls)
