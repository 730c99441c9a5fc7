from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_hierexport import export
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.names import call_name
from pytest_hierexport._errors import TagError
from pytest_hierexport._pytest.extension import hierarchy_text
from pytest_hierexport._snapshot import is_hierarchy, text
from pytest_hierexport._snapshot.diff import diff
from pytest_hierexport._snapshot.lines import members


def attribution(calls: Sequence[tuple[str, int, str, str | None]], nodes: dict[str, str]) -> Attribution:
    """Return calls of `path, index, class, parent`, and nodes by the call they come from."""
    hierarchy = Hierarchy(Call(path, index, f"project.{cls}", parent) for path, index, cls, parent in calls)
    return Attribution(hierarchy, {key: (Origin(call, Evidence.TRACED),) for key, call in nodes.items()})


def layers(count: int, odd: int | None = None) -> str:
    """Return the text of a model with equal layers, one of which may have another operator."""
    calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None)]
    for i in range(count):
        calls += [(f"layer.{i}", 0, "Layer", ""), (f"layer.{i}.mlp", 0, "Mlp", f"layer.{i}")]
    nodes = {f"n{i}": f"layer.{i}.mlp" for i in range(count)}
    return text(attribution(calls, nodes), {key: "Gelu" if key == f"n{odd}" else "Relu" for key in nodes})


def test_line_has_tag_and_operators_by_name() -> None:
    calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None), ("head", 0, "Head", "")]
    nodes = {"a": "", "b": "head", "c": "head", "d": "head"}
    operators = {"a": "Add", "b": "Relu", "c": "com.project::Attention", "d": "Relu"}
    assert text(attribution(calls, nodes), operators) == (
        "/Model: Add 1\n/Model/Head: Relu 2, com.project::Attention 1\n"
    )


def test_operators_of_torch_nn_modules_count_for_their_caller() -> None:
    hierarchy = Hierarchy([Call("", 0, "project.Model", None), Call("fc", 0, "torch.nn.modules.linear.Linear", "")])
    made = Attribution(hierarchy, {"y": (Origin("fc", Evidence.TRACED),)})
    assert text(made, {"y": "Gemm"}) == "/Model: Gemm 1\n"


def test_a_root_of_torch_nn_is_a_slash() -> None:
    hierarchy = Hierarchy([Call("", 0, "torch.nn.modules.container.Sequential", None), Call("0", 0, "p.Block", "")])
    made = Attribution(hierarchy, {"x": (Origin("", Evidence.TRACED),), "y": (Origin("0", Evidence.TRACED),)})
    assert text(made, {"x": "Relu", "y": "Add"}) == "/: Relu 1\n/Block.0: Add 1\n"


def test_equal_layers_and_modules_below_them_are_one_line() -> None:
    assert layers(12) == "/Model\n/Model/Layer.{0..11} ×12\n/Model/Layer.{0..11}/Mlp: Relu 1\n"


def test_a_layer_that_differs_splits_the_run() -> None:
    assert layers(5, odd=2).splitlines() == [
        "/Model",
        "/Model/Layer.{0..1} ×2",
        "/Model/Layer.{0..1}/Mlp: Relu 1",
        "/Model/Layer.2",
        "/Model/Layer.2/Mlp: Gelu 1",
        "/Model/Layer.{3..4} ×2",
        "/Model/Layer.{3..4}/Mlp: Relu 1",
    ]


def test_missing_layer_splits_the_run() -> None:
    calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None)]
    calls += [(f"layer.{i}", 0, "Layer", "") for i in (0, 1, 3, 4)]
    assert text(attribution(calls, {}), {}).splitlines()[1:] == ["/Model/Layer.{0..1} ×2", "/Model/Layer.{3..4} ×2"]


def test_zeros_before_a_number_are_part_of_a_name() -> None:
    def named(keys: Sequence[str], odd: str = "") -> str:
        calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None)]
        nodes = {key: f"layer.{key}" for key in keys}
        calls += [(path, 0, "Layer", "") for path in nodes.values()]
        return text(attribution(calls, nodes), {key: "Gelu" if key == odd else "Relu" for key in nodes})

    keys = [f"{i:02}" for i in range(8, 12)]
    assert named(keys) == "/Model\n/Model/Layer.{08..11} ×4: Relu 1\n"
    assert diff(named(keys), named(keys, odd="09")) == ["~ /Model/Layer.09: Gelu 0 → 1, Relu 1 → 0"]
    assert named(["1", "02", "3"]).count("Layer") == 3


def test_number_too_long_for_a_run_stays_as_it_is() -> None:
    names = [f"{digit}{'9' * 5_000}" for digit in (1, 2)]
    calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None)]
    calls += [(f"layer.{name}", 0, "Layer", "") for name in names]
    assert text(attribution(calls, {}), {}).splitlines()[1:] == [f"/Model/Layer.{name}" for name in names]


def test_lists_in_lists_fold_at_every_level() -> None:
    calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None)]
    for i in range(3):
        calls.append((f"stage.{i}", 0, "Stage", ""))
        calls += [(f"stage.{i}.block.{j}", 0, "Block", f"stage.{i}") for j in range(2)]
    assert text(attribution(calls, {}), {}).splitlines()[1:] == [
        "/Model/Stage.{0..2} ×3",
        "/Model/Stage.{0..2}/Block.{0..1} ×2",
    ]


def test_repeated_shared_layer_folds_with_calls_below_it() -> None:
    calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None)]
    for k in range(4):
        calls.append(("group.0", k, "Group", ""))
        calls += [("group.0.layer.0", 2 * k + j, "Layer", call_name("group.0", k)) for j in range(2)]
    nodes = {f"n{k}": call_name("group.0.layer.0", k) for k in range(8)}
    assert text(attribution(calls, nodes), dict.fromkeys(nodes, "Add")).splitlines()[1:] == [
        "/Model/Group.0@{0..3} ×4",
        "/Model/Group.0@{0..3}/Layer.0@{0..1} ×2: Add 1",
    ]


def test_called_module_without_operators_keeps_its_line() -> None:
    calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None), ("drop", 0, "Drop", "")]
    assert text(attribution(calls, {}), {}) == "/Model\n/Model/Drop\n"


def test_nodes_without_an_origin_are_shown_as_that() -> None:
    assert text(attribution([("", 0, "Model", None)], {}), {"x": "Add"}).endswith("(untagged): Add 1\n")


@st.composite
def trees(draw: st.DrawFn) -> Attribution:
    """Draw modules in lists below one another, each with some nodes of its own."""
    calls: list[tuple[str, int, str, str | None]] = [("", 0, "Model", None)]
    nodes: dict[str, str] = {}

    def grow(path: str, depth: int) -> None:
        nodes.update({f"{path}:{i}": path for i in range(draw(st.integers(0, 2)))})
        for i in range(draw(st.integers(0, 4 - depth))):
            child = f"{path}.{i}".lstrip(".")
            calls.append((child, 0, draw(st.sampled_from("AB")), path))
            grow(child, depth + 1)

    grow("", 1)
    return attribution(calls, nodes)


@given(trees())
def test_folding_loses_no_module_and_no_operator(made: Attribution) -> None:
    counts = Counter(made.hierarchy.tag(origins[0].call) for origins in made.nodes.values())
    expected = {made.hierarchy.tag(call): counts[made.hierarchy.tag(call)] for call in made.hierarchy}
    folded = text(made, dict.fromkeys(made.nodes, "Op"))
    unfolded: dict[str, int] = {}
    for change in diff("", folded, limit=10_000):
        tag, _, count = change.removeprefix("+ ").partition(": Op ")
        for member in members(tag):
            assert member not in unfolded
            unfolded[member] = int(count or 0)
    assert unfolded == expected


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


class Tower(torch.nn.Module):
    def __init__(self, height: int) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(height))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_an_export_and_its_file_have_one_text(tmp_path: Path) -> None:
    path = tmp_path / "tower.onnx"
    made = export(Tower(3), (torch.ones(1, 4),), path=path)
    expected = "/Tower\n/Tower/Block.{0..2} ×3: Gemm 1, Relu 1\n"
    assert hierarchy_text(made) == expected
    assert hierarchy_text(path) == expected


def test_a_file_without_tags_has_no_text(tmp_path: Path) -> None:
    path = tmp_path / "plain.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "graph", [], [])), path)
    with pytest.raises(TagError):
        hierarchy_text(path)


def test_something_else_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match="not int"):
        hierarchy_text(3)


KEPT = Path(__file__).parents[1] / "__hierexport__"


@pytest.mark.parametrize("file", sorted(KEPT.glob("*.txt")), ids=lambda file: file.stem)
def test_a_snapshot_is_recognised_without_its_list(file: Path) -> None:
    assert is_hierarchy(file)


@pytest.mark.parametrize("above", ["Model", "odd name: x"])
def test_any_text_of_a_hierarchy_is_recognised(tmp_path: Path, above: str) -> None:
    made = attribution([("", 0, above, None), ("a", 0, "Sub", "")], {"n": "a"})
    file = tmp_path / "any.txt"
    file.write_text(text(made, {"n": "com.microsoft::Gelu", "m": "Add"}), encoding="utf-8")
    assert is_hierarchy(file)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "notes: Add 1\n",
        "/Tower\n",
        "/home/me/model.onnx\n/home/me/data.csv\n",
        "/Tower: Add 1\nread me\n",
        "/Tower: see Add 1, below\n",
        "/Tower/Block: Add 1\n",
        "/Tower: Add 1\n\n",
        "\udcff",
    ],
)
def test_a_text_of_the_user_is_no_hierarchy(tmp_path: Path, content: str) -> None:
    file = tmp_path / "any.txt"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert not is_hierarchy(file)
