"""MUST-005: the graph is untouched.

But for its tags the file is, byte for byte, the one that the plain exporter gives with the same options: metadata
entries and node doc_strings stripped from both, serialised deterministically. The peer is code that calls torch (or
transformers) alone, in a process that cannot import our exporter. A model that no plain exporter takes is neither
kept nor broken.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import plain_models
import toy_models
from pytest_hierexport._cases import Example
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._child import ChildProcess
from pytest_hierexport._errors import NoVerdictError
from pytest_hierexport._onnx.difference import bare, differences
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._rules import peer
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._rules.plain import export_there, plain_process
from toys import breaks, case_of, damaged, exported, with_metadata


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("whole"))


def extra_operation(proto: onnx.ModelProto) -> None:
    proto.graph.node.insert(4, onnx.helper.make_node("Identity", [proto.graph.node[3].output[0]], ["twice"]))


def lost_operation(proto: onnx.ModelProto) -> None:
    del proto.graph.node[4]


def other_operation(proto: onnx.ModelProto) -> None:
    proto.graph.node[4].op_type = "Neg"


def other_node_name(proto: onnx.ModelProto) -> None:
    proto.graph.node[4].name = "a_better_name"


def other_attribute(proto: onnx.ModelProto) -> None:
    node = next(node for node in proto.graph.node if node.attribute)
    node.attribute[0].i += 1


def other_weight(proto: onnx.ModelProto) -> None:
    tensor = proto.graph.initializer[0]
    values = np.frombuffer(tensor.raw_data, dtype=np.uint8).copy()
    values[0] ^= 1
    tensor.raw_data = values.tobytes()


def other_weight_name(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].name += "_renamed"


def other_output_name(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].name += "_renamed"


def other_opset(proto: onnx.ModelProto) -> None:
    proto.opset_import[0].version += 1


def other_producer(proto: onnx.ModelProto) -> None:
    proto.producer_name = "somebody else"


def other_documentation(proto: onnx.ModelProto) -> None:
    proto.graph.doc_string = "exported with pride"


DAMAGE: dict[Callable[[onnx.ModelProto], None], str] = {
    extra_operation: "node 4 of",
    lost_operation: "node 4 of",
    other_operation: "op_type",
    other_node_name: "name",
    other_attribute: "attribute[0]",
    other_weight: "raw_data",
    other_weight_name: "initializer",
    other_output_name: "output",
    other_opset: "opset_import[0]",
    other_producer: "producer_name",
    other_documentation: "doc_string",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_any_graph_difference_is_found_with_its_field(
    damage: Callable[[onnx.ModelProto], None], whole: ExportedCase, tmp_path: Path
) -> None:
    violations = breaks("MUST-005", damaged(whole, tmp_path, damage))
    assert DAMAGE[damage] in violations[0].where


def other_tags(proto: onnx.ModelProto) -> None:
    for node in proto.graph.node:
        with_metadata(node, "hierexport.tag", "/Other")
        node.doc_string = "other"
    with_metadata(proto, "hierexport.calls", "{}")
    with_metadata(proto.graph.initializer[0], "hierexport.tag", None)


def no_damage(proto: onnx.ModelProto) -> None:
    pass


@pytest.mark.parametrize("damage", [other_tags, no_damage], ids=lambda damage: damage.__name__)
def test_a_graph_that_differs_in_tags_alone_passes(
    damage: Callable[[onnx.ModelProto], None], whole: ExportedCase, tmp_path: Path
) -> None:
    assert not breaks("MUST-005", damaged(whole, tmp_path, damage))


MODEL = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.linear.bias

def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(Block(), Block()), (torch.ones(2, 4),), {}
"""


def test_the_peer_runs_in_a_process_that_never_sees_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain_model.py").write_text(MODEL, encoding="utf-8")
    program = """
        import runpy, sys
        sys.argv = [sys.argv[1], "plain_model:build", "plain.onnx"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        assert not [name for name in sys.modules if name.startswith("pytest_hierexport")]
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(peer.__file__)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)

    monkeypatch.syspath_prepend(str(tmp_path))
    import plain_model  # type: ignore[import-not-found]  # written above

    (tmp_path / "ours").mkdir()
    ours = exported(tmp_path / "ours", plain_model.build)
    plain, found = bare(load_proto(tmp_path / "plain.onnx"), tmp_path), bare(load_proto(ours.path), ours.path.parent)
    assert not list(differences(plain, found))
    assert plain.SerializeToString(deterministic=True) == found.SerializeToString(deterministic=True)


def of_torchscript(folder: Path, factory: Callable[[], object]) -> ExportedCase:
    case = dataclasses.replace(case_of(factory, opset=17), exporter="torchscript")
    example, path = case.load(), folder / "model.onnx"
    export_case(case, example, path)
    return ExportedCase(case, path, example, "torchscript")


def test_model_that_only_our_help_exports_has_no_plain_peer(tmp_path: Path) -> None:
    with pytest.raises(NoVerdictError, match=r"no plain peer: UnsupportedOperatorError: .*aten::diff"):
        breaks("MUST-005", of_torchscript(tmp_path, plain_models.composed))


def test_model_that_plain_torchscript_exports_passes(tmp_path: Path) -> None:
    assert not breaks("MUST-005", of_torchscript(tmp_path, plain_models.spelled_out))


def test_torchscript_with_an_unused_first_input_passes(tmp_path: Path) -> None:
    assert not breaks("MUST-005", of_torchscript(tmp_path, plain_models.second_of_two))


def test_own_exporter_is_compared_beneath_its_capture(tmp_path: Path) -> None:
    made = of_torchscript(tmp_path, plain_models.spelled_out)
    assert not breaks("MUST-005", ExportedCase(made.case, made.path, made.example, "wrapping:export"))


def test_model_that_turns_gradients_on_has_a_plain_peer(tmp_path: Path) -> None:
    assert not breaks("MUST-005", exported(tmp_path, plain_models.with_gradients))


def test_the_peer_has_the_default_dtype_of_this_process(tmp_path: Path) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert not breaks("MUST-005", exported(tmp_path, plain_models.in_default_precision))
    finally:
        torch.set_default_dtype(before)


def test_a_failing_model_is_told_by_its_first_error() -> None:
    with pytest.raises(Exception, match="gradients: False"):
        peer.plain_export("dynamo", plain_models.Failing(), (torch.ones(2),))


@pytest.fixture
def process() -> Iterator[ChildProcess]:
    process = plain_process.__wrapped__()
    yield process
    process.close()


def example_of(factory: Callable[[], object]) -> Example:
    return case_of(factory).load()


@pytest.mark.parametrize("factory", [plain_models.alone, toy_models.build], ids=lambda factory: factory.__name__)
def test_plain_process_imports_nothing_of_ours(
    factory: Callable[[], object], process: ChildProcess, tmp_path: Path
) -> None:
    assert export_there(process, "dynamo", example_of(factory), {}, tmp_path / "plain.onnx") == ""
    assert onnx.load(tmp_path / "plain.onnx").graph.node


def test_plain_process_serves_on_after_failed_examples(process: ChildProcess, tmp_path: Path) -> None:
    path = tmp_path / "plain.onnx"
    assert "_export" in export_there(process, "dynamo", example_of(plain_models.reaching), {}, path)
    local = Example(nn.Sequential(nn.ReLU()), (torch.ones(2),))
    local.model.register_forward_hook(lambda *_: None)
    assert "pickle" in export_there(process, "dynamo", local, {}, path)
    with pytest.raises(NoVerdictError, match="no plain peer: its process ended with 7"):
        export_there(process, "dynamo", example_of(plain_models.ending), {}, path)
    assert export_there(process, "dynamo", example_of(toy_models.build), {}, path) == ""


def test_model_that_cannot_be_sent_is_compared_in_this_process(tmp_path: Path) -> None:
    def hooked() -> object:
        model, args = toy_models.build()
        model.register_forward_hook(lambda *_: None)
        return model, args

    assert not breaks("MUST-005", exported(tmp_path, hooked))


def test_graph_of_this_process_is_enough_where_others_differ(tmp_path: Path) -> None:
    whole = exported(tmp_path, plain_models.in_the_order_of_a_set)
    assert not breaks("MUST-005", whole)
    assert breaks("MUST-005", damaged(whole, tmp_path / "damaged", other_attribute))
