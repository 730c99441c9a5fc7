"""Wrong tags on purpose: `benchmarks/wrong_tags.py`."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import onnx

from benchmarks import wrong_tags
from benchmarks.wrong_tags import main, wrong_origins
from pytest_hierexport import prove
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._proof.inlining import inlined
from pytest_hierexport._proof.owners import Graph

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HIERARCHY = Hierarchy(
    [
        Call("", 0, "m.Root", None),
        *(Call(name, 0, f"m.{name.upper()}", "") for name in "abc"),
        Call("a.in", 0, "m.I", "a"),
    ]
)
TEXT = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { t = Exp(x) h = Neg(t) y = Sin(h) }'


def wrong(node: str, tags: dict[str, str]) -> dict[str, list[set[str]]]:
    """Return the calls of each kind of wrong tag of a node, over several draws."""
    origins = {key: tuple(Origin(call, Evidence.TRACED) for call in calls.split()) for key, calls in tags.items()}
    model, _ = inlined(onnx.parser.parse_model(TEXT), {})
    graph = Graph(model, Attribution(HIERARCHY, origins))
    found: dict[str, list[set[str]]] = {}
    for seed in range(20):
        for kind, changed in wrong_origins(graph, graph.nodes["thy".index(node)], origins[node], Random(seed)):
            calls = {origin.call for origin in changed}
            found.setdefault(kind, []).extend([] if calls in found.get(kind, []) else [calls])
    return found


def test_wrong_tags_are_those_of_neighbours() -> None:
    assert wrong("t", {"t": "a.in", "h": "b", "y": "b"}) == {
        "moved": [{"a"}, {"b"}],
        "added": [{"a.in", "b"}],
        "claimed": [{"a.in", "b"}],
    }


def test_owners_may_be_lost_but_those_above_another() -> None:
    found = wrong("t", {"t": "b a.in", "h": "c", "y": "b"})
    assert found["lost"] == [{"b"}, {"a.in"}]
    assert found["swapped"] == [{"b", "c"}, {"a.in", "c"}]
    assert "lost" not in wrong("t", {"t": "a a.in", "h": "a", "y": "b"})


def test_wrong_tags_on_a_random_architecture_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tags.json"
    main(["--seeds", "1", "--count", "2", "--json", str(file)])
    assert {each["outcome"] for each in json.loads(file.read_text()) if each["kind"] == "moved"} == {"found"}
    assert "100.00%" in capsys.readouterr().out


def test_wrong_tags_that_the_proof_passes_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proofs: list[Any] = []

    def passing(*given: Any) -> Any:
        proofs.append(proofs[0] if proofs else prove(*given))
        return proofs[0]

    monkeypatch.setattr(wrong_tags, "prove", passing)
    main(["--seeds", "1", "--count", "1", "--list"])
    printed = capsys.readouterr().out
    assert printed.startswith("seed0: missed, moved: ")
    assert printed.endswith("0.00%\n")
