"""MUST-007: the tags are proven.

Running the graph and the model on the same input shows for every call that the nodes attributed to it turn that call's
inputs into its outputs. An unproven call fails the rule, and the value that does not fit is named.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import onnx
import pytest
import torch
from torch import nn

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._onnx.storage import attach_proto, rewrite
from pytest_hierexport._rules.base import ExportedCase, Violation
from toys import breaks, damaged, exported


class Layer(nn.Module):
    """Scales by a factor that every layer computes by the same operations, so that CSE merges them."""

    def __init__(self, mix: nn.Module) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.mix = mix

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.mix(torch.relu(self.linear(x)) * (1 - mask))
        return mixed


class Tower(nn.Module):
    """Two layers with one module that both of them call."""

    def __init__(self) -> None:
        super().__init__()
        mix = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.layers = nn.ModuleList([Layer(mix), Layer(mix)])

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x


def build() -> object:
    torch.manual_seed(0)
    model = Tower().eval()
    randomise(model)
    return model, (torch.rand(2, 4), torch.rand(2, 4))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("whole"), build)


Change = Callable[[str, Origins], Origins]


def retagged(whole: ExportedCase, folder: Path, change: Change) -> ExportedCase:
    """Return the same case with other tags in its file and its sidecar."""
    shutil.copytree(whole.path.parent, folder, dirs_exist_ok=True)

    def changed(attribution: Attribution) -> Attribution:
        nodes = {key: change(key, origins) for key, origins in attribution.nodes.items()}
        return replace(attribution, nodes=nodes)

    rewrite(folder / whole.path.name, changed)
    return ExportedCase(whole.case, folder / whole.path.name, whole.example, whole.exporter_name)


def found(whole: ExportedCase, folder: Path, change: Change) -> list[Violation]:
    return breaks("MUST-007", retagged(whole, folder, change))


def traced(call: str) -> Origins:
    return (Origin(call, Evidence.TRACED),)


def renaming(names: dict[str, str]) -> Change:
    return lambda _, origins: tuple(replace(origin, call=names.get(origin.call, origin.call)) for origin in origins)


def only(whole: ExportedCase, call: str) -> str:
    """Return the key of the one node that comes from a call and from no other."""
    (key,) = (key for key, origins in whole.attribution.nodes.items() if [o.call for o in origins] == [call])
    return key


def merged(whole: ExportedCase) -> str:
    """Return the key of the node that both layers own."""
    (key,) = (key for key, origins in whole.attribution.nodes.items() if len(origins) == 2)
    return key


def test_the_tags_as_they_were_exported_pass(whole: ExportedCase, tmp_path: Path) -> None:
    assert not breaks("MUST-007", whole)
    assert not found(whole, tmp_path, lambda _, origins: origins)


def test_tag_shifted_to_a_sibling_is_found_with_its_value(whole: ExportedCase, tmp_path: Path) -> None:
    key = only(whole, "layers.0.linear")
    violations = found(whole, tmp_path, lambda k, origins: traced("layers.1.linear") if k == key else origins)
    (violation,) = [violation for violation in violations if violation.where.startswith("call layers.0.linear ")]
    assert violation.where == "call layers.0.linear (/Tower/Layer.0)"
    assert violation.found == f"the call gave a value that none of its nodes produces: {key} (/Tower/Layer.1)"


@pytest.mark.parametrize("step", ["", "steps:quantize"])
def test_advice_names_tolerances_for_the_result_of_a_step(step: str, whole: ExportedCase, tmp_path: Path) -> None:
    key = only(whole, "layers.0.linear")
    changed = retagged(whole, tmp_path, lambda k, origins: traced("layers.1.linear") if k == key else origins)
    of_step = ExportedCase(replace(changed.case, step=step), changed.path, changed.example, changed.exporter_name)
    violations = breaks("MUST-007", of_step)
    assert {"`tolerances`" in violation.do for violation in violations} == {bool(step)}


@pytest.mark.parametrize("dropped", [0, 1])
def test_a_dropped_co_owner_is_found(dropped: int, whole: ExportedCase, tmp_path: Path) -> None:
    key = merged(whole)
    violations = found(whole, tmp_path, lambda k, origins: (origins[1 - dropped],) if k == key else origins)
    assert {violation.where.split()[1] for violation in violations} == {"layers.0", "layers.1"}


def test_the_same_node_with_both_owners_in_another_order_passes(whole: ExportedCase, tmp_path: Path) -> None:
    key = merged(whole)
    assert not found(whole, tmp_path, lambda k, origins: origins[::-1] if k == key else origins)


def test_everything_tagged_with_the_root_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    violations = found(whole, tmp_path, lambda *_: traced(""))
    assert {violation.where.split()[1] for violation in violations} >= {"layers.0", "layers.1", "layers.0.linear"}


def test_two_calls_of_a_shared_layer_swapped_are_found(whole: ExportedCase, tmp_path: Path) -> None:
    calls = [name for name, call in whole.attribution.hierarchy.items() if call.path.partition(".mix")[1]]
    first = [name for name in calls if name.startswith("layers.0")]
    second = [name for name in calls if name.startswith("layers.1")]
    assert [name.replace("layers.0", "layers.1") for name in first] == second
    violations = found(whole, tmp_path, renaming(dict(zip(calls, [*second, *first], strict=True))))
    assert {violation.where.split()[1] for violation in violations} >= {*first, *second}


def test_one_call_taken_for_another_all_through_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    names = list(whole.attribution.hierarchy)
    shifted = {name: name.replace("layers.0", "layers.1") for name in names if name.startswith("layers.0")}
    back = {other: name for name, other in shifted.items()}
    assert found(whole, tmp_path, renaming(shifted | back))


def test_a_tag_too_many_is_found(whole: ExportedCase, tmp_path: Path) -> None:
    key = only(whole, "layers.0.linear")
    extra = traced("layers.1")
    (violation,) = found(whole, tmp_path, lambda k, origins: (*origins, *extra) if k == key else origins)
    assert violation.where == "call layers.1 (/Tower/Layer.1)"
    assert "reads a value that the call was not given" in violation.found


class Told(nn.Module):
    """A layer that is told what it has no use for."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, *, flag: bool) -> torch.Tensor:
        del mask, flag
        return torch.tanh(self.linear(x)) + x


class Telling(nn.Module):
    """Two such layers, and a mask that the model makes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Told(), Told()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.sigmoid(x)
        for layer in (self.first, self.second):
            x = layer(x, mask, flag=False)
        return x * mask


def telling() -> object:
    torch.manual_seed(0)
    model = Telling().eval()
    randomise(model)
    return model, (torch.randn(2, 4),)


def test_invented_fusion_is_found(tmp_path: Path) -> None:
    case = exported(tmp_path, telling)
    key = only(case, "first.linear")
    both = tuple(Origin(call, Evidence.FUSED) for call in ("first.linear", "second"))
    violations = found(case, tmp_path / "damaged", lambda k, origins: both if k == key else origins)
    assert [violation.where.split()[1] for violation in violations] == ["second"]


class Rearranging(nn.Module):
    """Hands the values of one layer to the next in another order, which an operation of the model's own makes."""

    def __init__(self, rearrange: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 3)
        self.rearrange = rearrange

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.rearrange(torch.tanh(self.first(x))))
        return result


def rearranging(folder: Path, rearrange: Callable[[torch.Tensor], torch.Tensor]) -> tuple[ExportedCase, set[str]]:
    """Return a case, and the keys of the nodes that put elements in another order."""
    model = Rearranging(rearrange).eval()
    randomise(model)
    case = exported(folder, lambda: (model, (torch.randn(2, 4, 3),)))
    own = {key for key, origins in case.attribution.nodes.items() if [each.call for each in origins] == [""]}
    return case, own - {node.output[0] for node in case.proto.graph.node if node.op_type == "Tanh"}


def fused(*calls: str) -> Origins:
    return tuple(Origin(call, Evidence.FUSED) for call in calls)


def test_flip_given_to_the_layer_behind_it_is_found(tmp_path: Path) -> None:
    case, flips = rearranging(tmp_path, lambda x: x.flip(2))
    assert flips
    violations = found(case, tmp_path / "wrong", lambda key, own: fused("second") if key in flips else own)
    assert [violation.where.split()[1] for violation in violations] == ["second"]
    assert "reads a value that the call was not given" in violations[0].found
    assert not found(case, tmp_path / "right", lambda key, own: fused("") if key in flips else own)


def with_transposition_taken_in(whole: ExportedCase, folder: Path, origins: Origins) -> ExportedCase:
    """Return the case with its transposition in the product behind it, as fusions do, and the origins of that node."""

    def fuse(proto: onnx.ModelProto) -> None:
        nodes = {node.op_type: node for node in proto.graph.node}
        turn, product = nodes["Transpose"], [node for node in proto.graph.node if node.op_type == "MatMul"][-1]
        product.op_type, product.input[0] = "Einsum", turn.input[0]
        product.attribute.append(onnx.helper.make_attribute("equation", "abc,cd->bad"))
        proto.graph.node.remove(turn)
        kept = {key: own for key, own in whole.attribution.nodes.items() if key != turn.output[0]}
        attach_proto(proto, replace(whole.attribution, nodes={**kept, product.output[0]: origins}))

    return damaged(whole, folder, fuse)


def test_transposition_that_a_fusion_took_in_passes(tmp_path: Path) -> None:
    case, _ = rearranging(tmp_path, lambda x: x.transpose(0, 1))
    taken = with_transposition_taken_in(case, tmp_path / "fused", fused("", "second"))
    assert not breaks("MUST-007", taken)
    alone = with_transposition_taken_in(case, tmp_path / "traced", traced("second"))
    (violation,) = breaks("MUST-007", alone)
    assert "Einsum val_3 of the call reads a value that the call was not given" in violation.found


def test_transposition_that_no_fusion_took_in_is_found(tmp_path: Path) -> None:
    case, turns = rearranging(tmp_path, lambda x: x.transpose(0, 1))
    assert turns
    (violation,) = found(case, tmp_path / "wrong", lambda key, own: fused("", "second") if key in turns else own)
    assert "reads a value that the call was not given" in violation.found


def test_one_wrong_output_of_several_is_found(tmp_path: Path) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.tanh(self.one(x)), torch.sigmoid(self.other(x))

    def damage(proto: onnx.ModelProto) -> None:
        next(node for node in proto.graph.node if node.op_type == "Sigmoid").op_type = "Neg"

    model = Both().eval()
    randomise(model)
    case = exported(tmp_path, lambda: (model, (torch.randn(2, 4),)))
    violations = breaks("MUST-007", damaged(case, tmp_path / "damaged", damage))
    assert [violation.where for violation in violations] == ["the model's own call (/Both)"]
    assert violations[0].found.startswith("the graph does not give what the model returned: output[1]")


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_the_nodes_in_the_file_hides_nothing(
    whole: ExportedCase, tmp_path: Path, *, reverse: bool
) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        nodes = list(proto.graph.node)[:: -1 if reverse else 1]
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)

    assert not breaks("MUST-007", damaged(whole, tmp_path / "right", damage))
    key = only(whole, "layers.0.linear")
    wrong = retagged(whole, tmp_path / "wrong", lambda k, origins: traced("layers.1") if k == key else origins)
    violations = breaks("MUST-007", damaged(wrong, tmp_path / "damaged", damage))
    assert {violation.where.split()[1] for violation in violations} == {"layers.0.linear", "layers.0", "layers.1"}


def test_untagged_node_is_found_by_the_missing_output(whole: ExportedCase, tmp_path: Path) -> None:
    key = only(whole, "layers.0.linear")
    violations = found(whole, tmp_path, lambda k, origins: () if k == key else origins)
    assert any("(untagged)" in violation.found for violation in violations)


def test_a_file_that_computes_something_else_proves_nothing(whole: ExportedCase, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        relu = next(node for node in proto.graph.node if node.op_type == "Relu")
        relu.op_type = "Neg"

    violations = breaks("MUST-007", damaged(whole, tmp_path, damage))
    assert [violation.where for violation in violations] == ["the model's own call (/Tower)"]
    assert violations[0].found.startswith("the graph does not give what the model returned")


class Caching(nn.Module):
    """Keeps a table where no export can restore it."""

    table: ClassVar[list[torch.Tensor]] = []

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.table:
            self.table.append(torch.arange(4.0) / 7)
        out: torch.Tensor = self.layer(x + self.table[0]).exp()
        return out


@pytest.mark.parametrize("ran", [False, True])
def test_a_cache_that_an_export_filled_is_found(ran: bool, tmp_path: Path) -> None:
    def build_caching() -> object:
        torch.manual_seed(0)
        model = Caching().eval()
        randomise(model)
        Caching.table.clear()
        if ran:
            model(torch.rand(2, 4))
        return model, (torch.rand(2, 4),)

    violations = breaks("MUST-007", exported(tmp_path, build_caching))
    assert ["Caching keeps a tensor" in violation.found for violation in violations] == ([] if ran else [True])


def test_a_file_without_tags_is_a_finding(whole: ExportedCase, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        attach_proto(proto, whole.attribution, tags="none")

    case = damaged(whole, tmp_path, damage)
    (tmp_path / "model.hierarchy.json").unlink()
    (violation,) = breaks("MUST-007", case)
    assert violation.expected == "an ONNX model with tags"


class Sampling(nn.Module):
    """Draws elements by its input, which no graph's draws replace."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bernoulli(x.sigmoid()) * 2


def test_advice_on_elements_drawn_anew_names_them(tmp_path: Path) -> None:
    (violation,) = breaks("MUST-007", exported(tmp_path, lambda: (Sampling().eval(), (torch.rand(20, 40),))))
    assert "each run draws these numbers anew" in violation.do
