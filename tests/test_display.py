"""What results show of themselves in a REPL, in notebooks and in rich's consoles."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import pytest_hierexport
from pytest_hierexport import Attribution, Call, Evidence, Example, Export, Hierarchy, Origin, prove, read
from pytest_hierexport._display import Table


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        y: torch.Tensor = self.linear(x).relu()
        return y if scale is None else y * scale


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Export:
    path = tmp_path_factory.mktemp("export") / "tower.onnx"
    return pytest_hierexport.export(Tower().eval(), (torch.randn(2, 4),), path=path)


def test_export_says_what_it_is_in_a_line(exported: Export) -> None:
    assert repr(exported) == (
        f"<export of test_display.Tower by dynamo: 6 nodes, opset {exported.model.opset_imports['']}, 7 calls, "
        f"{exported.path}>"
    )


def test_export_knows_the_file_that_it_was_written_to(exported: Export) -> None:
    assert exported.path is not None
    assert exported.path.name == "tower.onnx"
    assert read(exported.path) == exported.attribution
    assert pytest_hierexport.export(nn.ReLU(), torch.ones(1)).path is None


def test_tree_folds_equal_siblings(exported: Export) -> None:
    assert exported.tree() == "Tower\n  Block.{0..2} ×3: Gemm 1, Relu 1"
    assert pytest_hierexport.export(nn.ReLU(), torch.ones(1)).tree() == "/: Relu 1"


def test_summary_counts_nodes_and_parameters(exported: Export) -> None:
    lines = exported.summary().splitlines()
    assert lines[1:] == ["nodes: traced 6", "modules: 8, with 60 trainable parameters"]
    assert pytest_hierexport.export(nn.ReLU().train(), torch.ones(1)).summary().count("note: ") == 1


def test_nodes_of_a_call_are_those_below_it_too(exported: Export) -> None:
    (block,) = (call for name, call in exported.attribution.hierarchy.items() if name == "blocks.1")
    keys = list(exported.attribution.nodes)
    assert exported.nodes_of("") == keys
    assert exported.nodes_of(block) == exported.nodes_of("blocks.1") == keys[2:4]
    assert exported.nodes_of("blocks.1.linear") == keys[2:3]
    with pytest.raises(KeyError):
        exported.nodes_of("blocks.7")


def test_merged_node_has_one_primary_call() -> None:
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), Call("a", 0, "m.A", ""), Call("b", 0, "m.B", "")])
    origins = (Origin("a", Evidence.TRACED), Origin("b", Evidence.MERGED))
    attribution = Attribution(hierarchy, {"n": origins})
    assert attribution.nodes_of("b") == ["n"]
    assert attribution.nodes_of("b", primary=True) == []
    assert attribution.nodes_of("a", primary=True) == ["n"]


def test_parts_of_an_attribution_say_what_they_are(exported: Export) -> None:
    attribution = exported.attribution
    assert repr(attribution) == "<attribution of 6 nodes (traced 6) and 6 initializers to 7 calls>"
    assert repr(attribution.hierarchy) == "<hierarchy of test_display.Tower: 7 calls on 3 levels>"
    call = attribution.hierarchy["blocks.0"]
    assert repr(call) == "<call 'blocks.0' of test_display.Block, made by ''>"
    assert repr(Origin("a", Evidence.TRACED)) == "<origin 'a', traced>"
    module = next(module for module in exported.modules if module.path == "blocks.0.linear")
    assert repr(module).startswith("<module 'blocks.0.linear' of torch.nn.")
    assert repr(module).endswith(", 2 parameters and buffers>")
    assert repr(Hierarchy([])) == "<hierarchy without calls>"


def test_proof_and_verdicts_say_what_was_shown(exported: Export) -> None:
    model = Tower().eval()
    inputs = (torch.randn(2, 4),)
    fresh = pytest_hierexport.export(model, inputs)
    proof = prove(Example(model, inputs), fresh.model, fresh.attribution)
    assert repr(proof).startswith(f"<proof of {len(proof.verdicts)} calls: proven ")
    assert repr(proof.verdicts["blocks.0"]) == "<proven>"
    wrong = Attribution(
        fresh.attribution.hierarchy, dict.fromkeys(fresh.attribution.nodes, (Origin("blocks.0", Evidence.TRACED),))
    )
    shown = repr(prove(Example(model, inputs), fresh.model, wrong).unproven["blocks.0"])
    assert shown.startswith("<unproven: ")
    assert " of /Tower/Block.0>" in shown


@pytest.mark.parametrize("part", ["", "attribution", "attribution.hierarchy"])
def test_results_are_tables_in_notebooks_and_rich(exported: Export, part: str) -> None:
    result: Any = exported
    for name in filter(None, part.split(".")):
        result = getattr(result, name)
    page = result._repr_html_()
    assert "<td>/Tower/Block.2</td>" in page
    out = io.StringIO()
    Console(file=out, width=200).print(result)
    assert "/Tower/Block.2" in out.getvalue()
    assert out.getvalue().startswith(repr(result)[:100])


def test_tables_show_names_literally_and_are_bounded() -> None:
    rows = [(f"[bold]<script>\x1b[31m{i}", "b") for i in range(150)]
    table = Table.of("<b>", ("name", "value"), rows)
    page = table.html()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "… and 50 more" in page
    out = io.StringIO()
    Console(file=out, width=200).print(table.rich())
    assert "[bold]<script>\\x1b[31m99" in out.getvalue()
    assert "… and 50 more" in out.getvalue()


def test_export_takes_inputs_as_factories_give_them(tmp_path: Path) -> None:
    x = torch.randn(2, 4)
    for args in (x, [x], (x,), {"x": x}):
        assert len(pytest_hierexport.export(Block().eval(), args).attribution.nodes) == 2
    both = pytest_hierexport.export(Block().eval(), {"x": x}, {"scale": torch.ones(4)})
    assert [value.name for value in both.model.graph.inputs] == ["x", "scale"]
