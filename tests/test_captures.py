"""Which capture serves: the first whose graph can be used, and what is said of the others."""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from pathlib import Path
from typing import Any

import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from transformers import DynamicCache, PretrainedConfig, PreTrainedModel

from pytest_hierexport import Export, export
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._errors import ExportError, NoVerdictError
from pytest_hierexport._export.capture import Request
from pytest_hierexport._export.captures import CAPTURES
from pytest_hierexport._export.choices import EXPORTERS, ExportOptions
from pytest_hierexport._export.dynamo.capturer import Recording
from pytest_hierexport._export.dynamo.module_stacks import STACK
from pytest_hierexport._export.dynamo.paths import dotted
from pytest_hierexport._export.state import pytrees_as_found
from pytest_hierexport._proof import prove
from pytest_hierexport._rules import must_005
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._rules.peer import PEERS, plain_export

X = torch.linspace(-1, 1, 24).reshape(6, 4)


class Squeezes(nn.Module):
    """Squeezes a dimension that is not one: nothing to PyTorch, an error to ONNX, and torch's exporter writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.lin(x)).squeeze(1)


class Detached(nn.Module):
    """Computes with `.data`, which `torch.export` cannot trace: strict capture makes it a constant without elements."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(self.first(x).data + x)
        return out


class Positioned(PreTrainedModel):
    """A model of transformers whose positions can be computed beforehand, from an input that it can do without."""

    config_class = PretrainedConfig

    def __init__(self) -> None:
        super().__init__(PretrainedConfig())
        self.lin = nn.Linear(4, 4)

    def get_rope_index(self, input_ids: torch.Tensor, kinds: torch.Tensor) -> Any:
        return input_ids + kinds, None

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor | None = None) -> torch.Tensor:
        shift = 0 if position_ids is None else position_ids
        return torch.relu(self.lin(input_ids + shift))


def runs(result: Export) -> bool:
    session = onnxruntime.InferenceSession(ir.to_proto(result.model).SerializeToString())
    session.run(None, {session.get_inputs()[0].name: X.numpy()})
    return True


def is_proven(model: nn.Module, result: Export) -> bool:
    return not prove(Example(model, (X,)), result.model, result.attribution).unproven


def test_every_exporter_has_a_capture_and_a_plain_peer() -> None:
    assert ("auto", *CAPTURES) == EXPORTERS
    assert PEERS.keys() == CAPTURES.keys()


def test_auto_skips_a_graph_that_the_checker_refuses() -> None:
    model = Squeezes().eval()
    result = export(model, (X,))
    assert result.exporter == "torchscript"
    assert any("dynamo" in note and "checker" in note and "Squeeze" in note for note in result.notes)
    assert runs(result)
    assert is_proven(model, result)


class Attends(nn.Module):
    """Attention between norms: what older opsets have least of."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self.query(x)
        attended: torch.Tensor = self.norm(nn.functional.scaled_dot_product_attention(query, x, x) + x)
        return attended


@pytest.mark.parametrize("optimize", [False, True])
def test_auto_skips_a_graph_whose_constants_lack_elements(optimize: bool, tmp_path: Path) -> None:
    model = Detached().eval()
    result = export(model, (X,), path=tmp_path / "model.onnx", optimize=optimize)
    assert result.exporter == "torchscript"
    assert runs(result)
    with pytest.raises(ExportError, match="lifted_tensor_0"):
        export(model, (X,), exporter="dynamo", optimize=optimize)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("width", [4, 128])
def test_program_whose_constants_lack_elements_is_refused(width: int, optimize: bool) -> None:
    x = torch.randn(width, width)
    program = torch.export.export(Detached(width).eval(), (x,), strict=True)
    with pytest.raises(ExportError, match="found dynamo: ") as raised:
        export(program, (x,), optimize=optimize)
    assert "a fault of its own" not in str(raised.value)


@pytest.mark.parametrize("opset", [13, 15, 17, 18, 25])
def test_auto_gives_the_requested_opset_with_right_tags(opset: int) -> None:
    model = nn.Sequential(Attends(), Attends()).eval()
    randomise(model)
    example = Example(model, (X.reshape(1, 2, 3, 4),))
    result = export(model, example.args, opset=opset)
    assert result.model.opset_imports[""] == opset
    assert result.exporter == ("torchscript" if opset < 18 else "dynamo")
    proof = prove(example, result.model, result.attribution)
    assert (proof.counts()["proven"], proof.unproven) == (7, {})


def test_named_capture_ignores_the_checker() -> None:
    assert export(Squeezes().eval(), (X,), exporter="dynamo").exporter == "dynamo"


def test_auto_gives_the_first_graph_where_the_checker_refuses_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_hierexport._export import captures

    def failing(_request: Any) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(captures, "CAPTURES", {**captures.CAPTURES, "torchscript": failing})
    assert export(Squeezes().eval(), (X,)).exporter == "dynamo"
    monkeypatch.setattr(captures, "CAPTURES", dict.fromkeys(captures.CAPTURES, failing))
    with pytest.raises(ExportError, match="out of order"):
        export(Squeezes().eval(), (X,))


def test_what_a_failed_capture_made_is_freed_without_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_hierexport._export import captures

    made = []

    def failing(_request: Any) -> Any:
        large = nn.Linear(4, 4)
        made.append(weakref.ref(large))
        raise RuntimeError("out of order")

    monkeypatch.setattr(captures, "CAPTURES", {**captures.CAPTURES, "dynamo": failing})
    gc.disable()
    try:
        assert export(nn.Linear(4, 4).eval(), (X,)).exporter == "torchscript"
        assert [each() for each in made] == [None]
    finally:
        gc.enable()


@pytest.mark.usefixtures("hub_exporter")
def test_transformers_exporter_serves_where_it_cannot_compute_inputs_beforehand(tmp_path: Path) -> None:
    model: nn.Module = Positioned().eval()  # type: ignore[no-untyped-call]
    result = export(model, (X,), path=tmp_path / "model.onnx", exporter="transformers")
    assert runs(result)
    assert is_proven(model, result)
    example = Example(model, (X,))
    case = Case("positioned", lambda: example, "tests")
    with pytest.raises(NoVerdictError, match="no plain peer: "):
        list(must_005.check(ExportedCase(case, tmp_path / "model.onnx", example, "transformers")))


def program(_: Any, model: nn.Module, inputs: dict[str, Any], config: Any) -> torch.onnx.ONNXProgram | None:
    exported = torch.export.export(model, (), inputs)
    return torch.onnx.export(exported, kwargs=inputs, dynamo=True, optimize=config.optimize, verbose=False)


def test_a_program_from_transformers_exporter_serves_as_before_5_23(
    monkeypatch: pytest.MonkeyPatch, hub_exporter: type[Any]
) -> None:
    monkeypatch.setattr(hub_exporter, "export", program)
    model: nn.Module = Positioned().eval()  # type: ignore[no-untyped-call]
    result = export(model, (X,), exporter="transformers")
    assert is_proven(model, result)
    plain = plain_export("transformers", model, (X,))
    assert [node.op_type for node in plain.graph] == [node.op_type for node in result.model.graph]


def test_transformers_serves_though_nothing_computes_inputs_beforehand(
    monkeypatch: pytest.MonkeyPatch, hub_exporter: type[Any]
) -> None:
    monkeypatch.setattr(hub_exporter, "export", program)
    monkeypatch.delattr("transformers.exporters.utils.precompute_export_inputs")
    model: nn.Module = Positioned().eval()  # type: ignore[no-untyped-call]
    assert runs(export(model, (X,), exporter="transformers"))


class Sorts(PreTrainedModel):
    """Sorts in a module, stably: transformers' exporter replaces the operation by one that has no module stack."""

    config_class = PretrainedConfig

    def __init__(self) -> None:
        super().__init__(PretrainedConfig())
        self.sort, self.lin = Sorted(), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.lin(self.sort(x))
        return out


class Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x, stable=True)[0]


@pytest.mark.usefixtures("hub_exporter")
def test_operation_that_transformers_exporter_replaces_keeps_its_call() -> None:
    model: nn.Module = Sorts().eval()  # type: ignore[no-untyped-call]
    result = export(model, (X,), exporter="transformers")
    assert {origins[0].call for origins in result.attribution.nodes.values()} == {"sort", "lin"}
    assert result.attribution.coverage()["traced"] == len(result.attribution.nodes)


class Flagged(PreTrainedModel):
    """Takes a flag, which transformers' exporter takes out of the inputs, and anything else."""

    config_class = PretrainedConfig

    def __init__(self) -> None:
        super().__init__(PretrainedConfig())
        self.lin = nn.Linear(4, 4)

    def forward(
        self, input_ids: torch.Tensor, bias: torch.Tensor, use_cache: bool | None = None, **_: Any
    ) -> torch.Tensor:
        return torch.relu(self.lin(input_ids)).sum(0) + bias.sum(0)


@pytest.mark.usefixtures("hub_exporter")
@pytest.mark.parametrize("flags", [{}, {"use_cache": False}])
@pytest.mark.parametrize("exporter", ["dynamo", "transformers"])
def test_a_size_is_named_for_one_of_several_inputs(exporter: str, flags: dict[str, bool]) -> None:
    model: nn.Module = Flagged().eval()  # type: ignore[no-untyped-call]
    given, shapes = {"input_ids": X, "bias": X[:2] + 1, **flags}, {"input_ids": {0: "rows"}}
    result = export(model, (), given, exporter=exporter, dynamic_shapes=shapes)
    axes = [list(value.shape or ()) for value in result.model.graph.inputs]
    assert [isinstance(size, int) for size in axes[0]] == [False, True]
    assert axes[1] == [2, 4]
    assert not prove(Example(model, kwargs=given), result.model, result.attribution).unproven
    completed = {**dict.fromkeys(given), **shapes}
    if not (flags and exporter == "transformers"):  # which takes no shape of a flag
        with pytrees_as_found():  # which a plain exporter registers
            plain = plain_export(exporter, model, (), given, dynamic_shapes=completed)
        assert [list(value.shape or ()) for value in plain.graph.inputs] == axes


@pytest.mark.usefixtures("hub_exporter")
def test_transformers_exporter_refuses_shapes_of_no_input() -> None:
    model: nn.Module = Flagged().eval()  # type: ignore[no-untyped-call]
    given = {"input_ids": X, "bias": X[:2] + 1, "more": X + 1}  # under `**_`, any name may be one
    with pytest.raises(ExportError, match="input_idz"):
        export(model, (), given, exporter="transformers", dynamic_shapes={"input_idz": {0: "rows"}})


class Cached(PreTrainedModel):
    """Takes a cache, which torch's exporter takes for a tree of tensors only where transformers' has told it so."""

    config_class = PretrainedConfig

    def __init__(self) -> None:
        super().__init__(PretrainedConfig())
        self.lin = nn.Linear(4, 4)

    def forward(self, input_ids: torch.Tensor, past: Any) -> torch.Tensor:
        return torch.relu(self.lin(input_ids + past.layers[0].keys[0, 0]))


@pytest.mark.usefixtures("hub_exporter")
def test_choice_does_not_depend_on_what_was_exported_before() -> None:
    model: nn.Module = Cached().eval()  # type: ignore[no-untyped-call]
    cache = DynamicCache()
    cache.update(torch.rand(1, 1, 6, 4), torch.rand(1, 1, 6, 4), 0)
    assert export(model, (X, cache)).exporter == "transformers"
    # The modules that the first export imported register their output classes, which stay.
    registered = set(pytree.SUPPORTED_NODES)
    assert DynamicCache not in registered
    assert export(model, (X, cache)).exporter == "transformers"
    assert set(pytree.SUPPORTED_NODES) == registered


def test_pass_may_replace_an_operation_by_a_number() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    check = graph.call_function(torch.ops.aten.gt.Scalar, (x, 0))
    check.meta[STACK] = {"": ("", "m.Root")}
    graph.output((x, check))
    with Recording(Request(nn.Identity(), (), {}, ExportOptions())).running():
        check.replace_all_uses_with(True)  # type: ignore[arg-type]  # torch's own passes do so
    assert list(graph.nodes)[-1].args == ((x, True),)


@pytest.mark.parametrize(
    ("path", "dots"),
    [
        ("L['self'].encoder.act", "encoder.act"),
        ("getattr(getattr(L['self'].layers, '0').parts, 'my-part').lin", "layers.0.parts.my-part.lin"),
        ("getattr(L['self'].parts.0, 'my-part').lin", "parts.0.my-part.lin"),
        ("L['self'].parts[0].lin", "L['self'].parts[0].lin"),
        ("encoder.layers.0", "encoder.layers.0"),
        ("", ""),
    ],
)
def test_path_that_dynamo_gives_as_an_expression_has_dots(path: str, dots: str) -> None:
    assert dotted(path) == dots


class Ensemble(nn.Module):
    """Runs its one member under `vmap`, with weights that are stacked."""

    def __init__(self) -> None:
        super().__init__()
        self.members = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh())])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        member = self.members[0]
        weights = {name: torch.stack([weight, -weight]) for name, weight in member.named_parameters()}
        run = torch.vmap(lambda own, x: torch.func.functional_call(member, own, (x,)), in_dims=(0, None))
        out: torch.Tensor = run(weights, x)
        return out


def test_strict_program_of_an_ensemble_under_vmap_is_exported() -> None:
    result = export(torch.export.export(Ensemble().eval(), (X,), strict=True), (X,))
    assert list(result.attribution.hierarchy) == ["", "members.0", "members.0.0", "members.0.1"]


class Holder:
    """An object that is no module, and calls one."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.module(x).tanh()
        return out


class Held(nn.Module):
    """Calls its layers by other objects, then the first by its name for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.holders = [Holder(self.first), Holder(self.second)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.holders[1](self.holders[0](x)).unbind(0)
        return torch.stack(list(map(self.first, rows)))


def test_module_that_a_strict_program_reaches_twice_has_its_path() -> None:
    model = Held().eval()
    result = export(torch.export.export(model, (X,), strict=True), (X,))
    calls = [call for call in result.attribution.hierarchy if "first" in call]
    assert calls == ["first", *(f"first@{run}" for run in range(1, 1 + len(X)))]


class Halved(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x / 2, y / 2])


class AddsRows(nn.Module):
    """Fixes its last axis; where it decides by a value, `torch.export` does not take it with any shapes."""

    def __init__(self, decides: bool) -> None:
        super().__init__()
        self.lin, self.decides = nn.Linear(4, 4), decides

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.lin(x) + self.lin(y)
        return out * 2 if self.decides and out.sum() > 0 else out


@pytest.mark.parametrize(
    ("shapes", "reason"), [({"x": {1: "width"}}, "static shape of 4"), (({0: "rows"},), "has 1 elements")]
)
def test_auto_tells_dynamic_shapes_that_the_model_fixes(shapes: Any, reason: str) -> None:
    with pytest.raises(ExportError, match="with its dynamic shapes") as caught:
        export(AddsRows(decides=False).eval(), (X, X), dynamic_shapes=shapes)
    assert reason in caught.value.found


def test_auto_falls_back_where_dynamic_shapes_are_not_at_fault() -> None:
    shapes = {"x": {0: "rows"}, "y": {0: "rows"}}
    assert export(AddsRows(decides=True).eval(), (X, X), dynamic_shapes=shapes).exporter == "torchscript"


def test_input_without_dynamic_shapes_is_static() -> None:
    result = export(Halved().eval(), (X, X.clone()), dynamic_shapes={"x": {0: "rows"}})
    assert result.exporter == "dynamo"
    assert [str(value.shape) for value in result.model.graph.inputs] == ["[rows,4]", "[6,4]"]


class Growing(nn.Module):
    """Makes a module in its forward, which no exporter takes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.lin = nn.Linear(4, 4)
        out: torch.Tensor = self.lin(x)
        return out


def test_capture_sees_nothing_of_the_one_that_failed_before() -> None:
    model = Growing().eval()
    with pytest.raises(ExportError) as caught:
        export(model, (X,))
    assert "torchscript: " in caught.value.found
    assert "have no numbers" not in caught.value.found
    assert not list(model.children())


class Returning(nn.Module):
    def __init__(self, returned: object) -> None:
        super().__init__()
        self.returned = returned

    def forward(self, _: torch.Tensor) -> object:
        return self if self.returned == "itself" else self.returned


@pytest.mark.parametrize("returned", [None, (), "a text", 3, "itself"])
def test_model_that_returns_no_tensor_is_refused(returned: object) -> None:
    with pytest.raises(ExportError, match="expected Returning to return a tensor"):
        export(Returning(returned).eval(), (X,))


def test_layers_that_compute_the_same_size_are_proven_apart() -> None:
    model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    axes: Any = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    randomise(model)
    example = Example(model, (torch.randn(2, 5, 8), torch.randn(2, 4, 8)))
    made = export(example.model, example.args, dynamic_shapes=(axes, axes))
    assert not prove(example, made.model, made.attribution).unproven


def test_a_graph_that_torch_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    class Repeating(nn.Module):
        def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
            sys.stdout.write("running\n")
            return x * len(range(int(times)))

    export(Repeating().eval(), (torch.ones(2), torch.tensor(2)))
    shown = capfd.readouterr()
    assert set(shown.out.split()) == {"running"}
    assert shown.err == ""
    assert "print" not in vars(importlib.import_module("torch.export._trace"))
