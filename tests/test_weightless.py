"""Models that are built without weights."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from projects import MODEL, Project
from pytest_hierexport._carry import carry
from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.deploying import deploy
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._errors import CollectError, ExportError, NoVerdictError
from pytest_hierexport._onnx import sidecar
from pytest_hierexport._onnx.absent import is_absent_proto, without_absent
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._rules.registry import BUILT_IN
from pytest_hierexport.cli import main


class Tied(torch.nn.Module):
    table: torch.Tensor

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(50, width)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(width) for _ in range(2))
        self.head = torch.nn.Linear(width, 50)
        self.head.weight = self.embed.weight
        self.register_buffer("table", torch.arange(float(width)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.table * 2
        for norm in self.norms:
            x = norm(x.transpose(1, 2)).transpose(1, 2)
        return self.head(x)  # type: ignore[no-any-return]  # a module's call is untyped


def _tied() -> object:
    return Tied().eval(), (torch.zeros(2, 7, dtype=torch.long),)


def _huge() -> object:
    return torch.nn.Sequential(*(torch.nn.Linear(20_000, 20_000) for _ in range(40))), (torch.ones(1, 20_000),)


def _deep_copied() -> object:
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2).eval().half(), (torch.ones(1, 3, 64).half(),)


def _case(factory: object, **options: object) -> Case:
    return Case("model", factory, "here", weights="none", **options)  # type: ignore[arg-type]


@pytest.fixture
def exported(tmp_path: Path) -> ExportedCase:
    case = _case(_tied)
    example = case.load()
    export_case(case, example, tmp_path / "model.onnx")
    return ExportedCase(case, tmp_path / "model.onnx", example)


def test_parameters_take_no_memory_and_stay_tied() -> None:
    model = _case(_tied).load().model
    assert isinstance(model, Tied)
    assert all(isinstance(parameter, FakeTensor) for parameter in model.parameters())
    assert model.head.weight is model.embed.weight
    assert {name: parameter.shape for name, parameter in model.named_parameters()} == {
        name: parameter.shape for name, parameter in Tied().named_parameters()
    }
    assert model.table.tolist() == list(range(128))


def test_copied_and_converted_layers_have_no_weights_either() -> None:
    model = _case(_deep_copied).load().model
    assert all(isinstance(parameter, FakeTensor) for parameter in model.parameters())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float16}


def test_truncated_normal_initialisation_needs_no_numbers() -> None:
    class Drawn(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(3, 3))
            torch.nn.init.trunc_normal_(self.weight, std=0.02)
            self.drawn = torch.nn.init.trunc_normal_(torch.empty(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    model: torch.nn.Module = _case(lambda: (Drawn(), (torch.ones(1, 3),))).load().model
    assert isinstance(model.weight, FakeTensor)
    assert isinstance(model.drawn, torch.Tensor)
    assert model.drawn.std() > 0


def test_weights_larger_than_memory_export_in_a_small_file(tmp_path: Path) -> None:
    case = _case(_huge)
    path = tmp_path / "huge.onnx"
    result = export_case(case, case.load(), path)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["huge.hierarchy.json", "huge.onnx"]
    assert path.stat().st_size < 100_000
    assert result.attribution.coverage()["untagged"] == 0


def test_registering_parameters_is_as_before_afterwards() -> None:
    before = torch.nn.Module.register_parameter
    with pytest.raises(CollectError):
        _case(lambda: 1 / 0).load()
    assert torch.nn.Module.register_parameter is before
    assert not isinstance(torch.nn.Linear(2, 2).weight, FakeTensor)


def test_initializers_have_type_shape_and_tags_but_no_data(exported: ExportedCase) -> None:
    absent = {tensor.name: tensor for tensor in exported.proto.graph.initializer if is_absent_proto(tensor)}
    # No pass may read a parameter: the batch norms cannot be folded.
    assert {"head.bias", "norms.0.weight", "norms.1.bias"} <= set(absent)
    assert list(absent["norms.0.weight"].dims) == [128]
    assert absent["norms.0.weight"].data_type == onnx.TensorProto.FLOAT
    assert not absent["norms.0.weight"].raw_data
    assert exported.attribution.initializers["norms.1.bias"][0].call == "norms.1"
    assert [value.name for value in exported.proto.graph.input] == ["ids"]
    onnx.checker.check_model(exported.proto, full_check=True)


def test_buffers_keep_their_numbers_and_are_folded(exported: ExportedCase) -> None:
    stored = [t for t in exported.proto.graph.initializer if not is_absent_proto(t)]
    doubled = [np.allclose(onnx.numpy_helper.to_array(t), 2 * np.arange(128)) for t in stored if t.dims == [128]]
    assert any(doubled)


def test_hierarchy_is_that_of_the_model_with_weights(exported: ExportedCase, tmp_path: Path) -> None:
    case = replace(exported.case, weights="full")
    result = export_case(case, case.load(), tmp_path / "full.onnx")
    assert dict(result.attribution.hierarchy) == dict(exported.attribution.hierarchy)
    beside = sidecar.read_sidecar(exported.path)
    assert beside.modules == sidecar.read_sidecar(tmp_path / "full.onnx").modules


def test_rules_that_need_numbers_do_not_run(exported: ExportedCase) -> None:
    verdicts = {}
    for rule in BUILT_IN:
        try:
            verdicts[rule.id] = [violation.found for violation in rule.violations(exported)]
        except NoVerdictError as error:
            verdicts[rule.id] = [error.found]
    found = {rule: texts for rule, texts in verdicts.items() if texts}
    assert found == {rule: ["not run: no weights"] for rule in ("MUST-006", "MUST-007")}


def test_checker_still_finds_what_is_wrong(exported: ExportedCase) -> None:
    exported.proto.graph.node[0].op_type = "NoSuchOperator"
    rule = next(rule for rule in BUILT_IN if rule.id == "MUST-004")
    assert any("NoSuchOperator" in violation.found for violation in rule.violations(exported))


def test_absent_tensors_become_inputs_of_a_copy(exported: ExportedCase) -> None:
    copied = without_absent(exported.proto)
    assert {"ids", "head.bias", "norms.0.weight"} <= {value.name for value in copied.graph.input}
    assert not any(map(is_absent_proto, copied.graph.initializer))
    assert any(map(is_absent_proto, exported.proto.graph.initializer))


def test_dynamic_shapes_work_without_weights(tmp_path: Path) -> None:
    case = _case(_tied, dynamic_shapes={"ids": {0: "batch"}})
    export_case(case, case.load(), tmp_path / "model.onnx")
    shape = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph.input[0].type.tensor_type.shape
    assert shape.dim[0].dim_param == "batch"


def test_tags_are_carried_between_files_without_weights(exported: ExportedCase) -> None:
    after = ir.from_proto(exported.proto)
    carried = carry(exported.path, exported.attribution, after)
    assert carried.nodes == exported.attribution.nodes


def test_onnxruntime_is_no_step_for_a_model_without_weights(exported: ExportedCase) -> None:
    with pytest.raises(NoVerdictError, match="no weights"):
        deploy("onnxruntime:basic", exported.path, exported.path.with_name("optimized.onnx"))


def test_weights_of_a_checkpoint_are_not_read(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "tiny")
    (tmp_path / "tiny" / "model.safetensors").write_bytes(b"")
    (case,) = select(["./tiny"], tmp_path)
    example = replace(case, weights="none").load()
    assert all(isinstance(parameter, FakeTensor) for parameter in example.model.parameters())
    assert "input_ids" in example.kwargs


def test_torchscript_refuses_a_model_without_weights(tmp_path: Path) -> None:
    case = _case(_tied, exporter="torchscript")
    with pytest.raises(ExportError, match="torchscript: it runs the model, whose weights have no numbers"):
        export_case(case, case.load(), tmp_path / "model.onnx")


def test_factory_that_reads_weights_is_told_of_their_absence() -> None:
    def reading() -> object:
        model = Tied()
        return model.eval() if model.head.weight.sum() > 0 else model

    with pytest.raises(CollectError, match="let it read no numbers of a parameter"):
        _case(reading).load()


def test_manifest_states_a_model_without_weights(tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(MODEL)
    manifest = tmp_path / "models.toml"
    manifest.write_text('[models.tower]\nmodel = "my_model.py::build"\nweights = "none"\n')
    assert select([str(manifest)], tmp_path)[0].weights == "none"
    manifest.write_text('[models.tower]\nmodel = "my_model.py::build"\nweights = "few"\n')
    with pytest.raises(CollectError, match="full, none or thin"):
        select([str(manifest)], tmp_path)


def test_command_exports_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tower.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    assert main(["export", "tower.py::build", "-o", "out.onnx", "--no-weights"]) == 0
    proto = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    assert sum(map(is_absent_proto, proto.graph.initializer)) == 6
    assert main(["validate", "out.onnx"]) == 0
    assert main(["analyze", "out.onnx"]) == 0


def test_files_without_weights_are_compared(
    exported: ExportedCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full, wide = tmp_path / "full.onnx", tmp_path / "wide.onnx"
    export_case(replace(exported.case, weights="full"), replace(exported.case, weights="full").load(), full)
    case = _case(lambda: (Tied(256).eval(), (torch.zeros(2, 7, dtype=torch.long),)))
    export_case(case, case.load(), wide)
    assert main(["diff", str(exported.path), str(exported.path)]) == 0
    assert main(["diff", str(exported.path), str(wide)]) == 1
    assert ": shape [50, 128] → [50, 256]" in capsys.readouterr().out
    assert main(["diff", str(exported.path), str(full)]) == 1
    assert ": data none → stored" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ["diverge", "out.onnx", "--model"],
        ["analyze", "out.onnx", "--contamination"],
        ["extract", "out.onnx", "blocks.0", "-o", "block.onnx", "--model"],
    ],
)
def test_commands_that_compare_values_ask_for_the_weights(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tower.py").write_text(MODEL)
    (tmp_path / "models.toml").write_text('[models.bare]\nmodel = "tower.py::build"\nweights = "none"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["export", "tower.py::build", "-o", "out.onnx"]) == 0
    assert main([*command, "models.toml::bare"]) == 4
    error = capsys.readouterr().err
    assert "expected a model with weights, whose values can be compared; found one that was built without" in error
    assert "to do: name its factory" in error


def test_commands_write_such_a_file_anywhere(exported: ExportedCase, tmp_path: Path, capfdbinary: Any) -> None:
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "named.onnx"
    assert main(["rename", str(exported.path), "-o", str(out)]) == 0
    assert list(map(is_absent_proto, onnx.load(out, load_external_data=False).graph.initializer)).count(True) == 6
    assert main(["rename", str(exported.path), "-o", "-"]) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.endswith(out.read_bytes())


def test_run_skips_the_rules_that_need_numbers(project: Project) -> None:
    project.write("models.toml", '[models.tower]\nmodel = "my_model.py::build"\nweights = "none"\n')
    rules = "--hierexport-rules=MUST-002,MUST-003,MUST-004,MUST-006,MUST-007"
    report = "--hierexport-report=r.json"
    result = project.run(
        "--hierexport-models=models.toml", rules, "--snapshot-update", "-k", "not MUST-001", "-rs", report
    )
    result.assert_outcomes(passed=4, skipped=2, deselected=1)
    result.stdout.fnmatch_lines(["*not run: no weights*"])
    checks = json.loads((project.path / "r.json").read_text())["models"][0]["checks"]
    assert checks["MUST-007"]["verdict"] != "passed"
