"""`hierexport strip` and `hierexport validate`: a release without tags, and the rules on a file alone."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from pytest_hierexport import carry, export
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._onnx import sidecar, storage
from pytest_hierexport.cli import main
from schemas import strict_schema


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.fc(x))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "net.onnx"
    export(nn.Sequential(Block(), Block()).eval(), (torch.randn(2, 3),), path=path)
    return path


@pytest.fixture
def net(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for path in (original, sidecar.sidecar_path(original)):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / original.name


def follows(schema: str, text: str) -> Any:
    document = json.loads(text)
    jsonschema.validate(document, strict_schema(schema))
    return document


class TestStrip:
    def test_stripped_file_has_nothing_but_the_graph(self, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
        content = net.read_bytes()
        assert main(["strip", "net.onnx", "-o", "release.onnx", "--json"]) == 0
        report = follows("strip", capsys.readouterr().out)
        sizes = (len(content), (net.parent / "release.onnx").stat().st_size)
        assert (report["before"], report["after"], report["saved"]) == (*sizes, sizes[0] - sizes[1])
        assert report["sidecar"] == "release.hierarchy.json"
        assert b"hier" not in (net.parent / "release.onnx").read_bytes()
        assert net.read_bytes() == content

    def test_the_sidecar_gives_the_tags_back(self, net: Path) -> None:
        before = storage.read(net)
        assert main(["strip", "net.onnx", "-o", "release.onnx"]) == 0
        release = net.parent / "release.onnx"
        assert storage.read(release) == before
        proto = storage.load_proto(release)
        storage.attach_proto(proto, storage.read(release))
        assert proto == storage.load_proto(net)
        assert carry(release, storage.read(release), net) == before
        assert carry(net, before, release) == before

    def test_the_metadata_of_torch_goes_too(self, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
        proto = storage.load_proto(net)
        before = storage.read(net)
        storage.attach_proto(proto, before, "none")
        for key, value in (("name_scopes", "['', '0', 'relu']"), ("class_hierarchy", "['m.Net', 'm.Block', 'aten']")):
            for node in proto.graph.node:
                node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
        (net.parent / "plain.onnx").write_bytes(proto.SerializeToString())
        assert main(["strip", "plain.onnx", "-o", "release.onnx"]) == 0
        assert "tags from torch's metadata, unproven" in capsys.readouterr().err
        assert b"pkg.torch" not in (net.parent / "release.onnx").read_bytes()
        assert {storage.read(net.parent / "release.onnx").tag(key) for key in before.nodes} == {"/Net/Block.0"}

    def test_external_data_goes_along_to_another_folder(self, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
        proto = storage.load_proto(net)
        arrays = [numpy_helper.to_array(tensor) for tensor in proto.graph.initializer]
        onnx.save(proto, net, save_as_external_data=True, location="net.data", size_threshold=0)
        (net.parent / "out").mkdir()
        assert main(["strip", "net.onnx", "-o", "out/release.onnx", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["after"] == (net.parent / "out" / "release.onnx").stat().st_size
        loaded = onnx.load(net.parent / "out" / "release.onnx")
        assert all(
            (numpy_helper.to_array(tensor) == array).all()
            for tensor, array in zip(loaded.graph.initializer, arrays, strict=True)
        )

    def test_standard_output_gets_the_model_alone(
        self, net: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(net.read_bytes())))
        assert main(["strip", "-", "-o", "-"]) == 0
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        assert len(onnx.load_from_string(captured.out).graph.node) == len(storage.load_proto(net).graph.node)
        assert b"in no sidecar" in captured.err


class TestValidate:
    def test_a_user_without_a_folder_reveals_none(self, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def home() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", home)
        assert main(["validate", net.name]) == 0

    def test_a_sound_file_keeps_every_rule(self, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["validate", "net.onnx"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split(":")[0] for line in lines[:-1]] == [
            f"MUST-{number} kept" for number in ("002", "003", "004", "009", "010")
        ]

    @pytest.mark.parametrize(
        ("damage", "rule"),
        [
            (lambda proto: proto.graph.node[0].metadata_props.clear(), "MUST-003"),
            (lambda proto: proto.graph.node[0].input.append("nothing"), "MUST-004"),
            (lambda proto: proto.metadata_props.add(key="at", value=str(Path.home() / "secret")), "MUST-010"),
        ],
    )
    def test_each_damage_breaks_its_rule(
        self, net: Path, capsys: pytest.CaptureFixture[str], damage: Any, rule: str
    ) -> None:
        proto = storage.load_proto(net)
        damage(proto)
        net.write_bytes(proto.SerializeToString())
        assert main(["validate", "net.onnx", "--json"]) == 1
        document = follows("validate", capsys.readouterr().out)
        broken = {each["id"] for each in document["rules"] if each["status"] == "broken"}
        # The sidecar no longer fits either.
        assert broken == {rule, "MUST-009"}
        assert document["valid"] is False

    def test_tag_of_a_torch_class_is_a_violation(self, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
        proto = storage.load_proto(net)
        for entry in (entry for entry in proto.graph.node[0].metadata_props if entry.key == "hierexport.tag"):
            entry.value += "/Linear"
        net.write_bytes(proto.SerializeToString())
        assert main(["validate", "net.onnx"]) == 1
        assert "MUST-002 no torch.nn class in a tag: net.onnx breaks it" in capsys.readouterr().out

    def test_derived_origins_are_counted_against_the_allowance(self, net: Path) -> None:
        proto, attribution = storage.load_proto(net), storage.read(net)
        key = next(iter(attribution.nodes))
        nodes = {**attribution.nodes, key: tuple(Origin(o.call, Evidence.DERIVED) for o in attribution.nodes[key])}
        storage.attach_proto(proto, Attribution(attribution.hierarchy, nodes))
        (net.parent / "derived.onnx").write_bytes(proto.SerializeToString())
        assert main(["validate", "derived.onnx"]) == 1
        assert main(["validate", "derived.onnx", "--allow-derived", "1"]) == 0

    def test_without_a_sidecar_its_rule_is_skipped(
        self, net: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(net.read_bytes())))
        assert main(["validate", "-"]) == 0
        printed = capsys.readouterr().out
        assert "MUST-009 skipped (no model.hierarchy.json)" in printed
        assert "standard input: no rule broken" in printed
