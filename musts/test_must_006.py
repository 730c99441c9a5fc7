"""MUST-006: the numbers agree.

ONNX Runtime against the eager model, per output, with a tolerance by dtype: shapes and dtypes, every element, NaN and
infinity where the model has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from pytest_hierexport import export
from pytest_hierexport._cases import Example
from pytest_hierexport._proof.session import Fetched, run_graph
from pytest_hierexport._rules import must_006
from pytest_hierexport._rules.base import ExportedCase
from toys import breaks, case_of, damaged, exported


class Model(torch.nn.Module):
    """Returns a bit of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.arange(1.0, 5.0) * torch.ones(3, 1))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        scaled = x * self.scale
        return {"scaled": scaled, "more": [scaled.argmax(-1), (scaled / 0, scaled.half())], "mask": scaled > 3}


def build() -> tuple[Model, tuple[torch.Tensor, ...]]:
    return Model().eval(), (torch.tensor([[0.0, 1.0, -1.0, 1.5]] * 3),)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("whole"), build)


def weights(proto: onnx.ModelProto) -> onnx.TensorProto:
    found: onnx.TensorProto
    (found,) = (tensor for tensor in proto.graph.initializer if list(tensor.dims) == [3, 4])
    return found


def one_weight(factor: float) -> Callable[[onnx.ModelProto], None]:
    def damage(proto: onnx.ModelProto) -> None:
        tensor = weights(proto)
        array = numpy_helper.to_array(tensor).copy()
        array[1, 3] *= factor
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    damage.__name__ = f"one_weight_times_{factor}"
    return damage


def computed(operator: str, output: int) -> Callable[[onnx.ModelProto], None]:
    """Put one more operation in front of an output."""

    def damage(proto: onnx.ModelProto) -> None:
        name = proto.graph.output[output].name
        for node in proto.graph.node:
            node.input[:] = [f"{name}_before" if value == name else value for value in node.input]
            node.output[:] = [f"{name}_before" if value == name else value for value in node.output]
        proto.graph.node.append(onnx.helper.make_node(operator, [f"{name}_before"], [name]))

    damage.__name__ = f"{operator}_on_output_{output}"
    return damage


def as_double(proto: onnx.ModelProto) -> None:
    computed("Cast", 0)(proto)
    proto.graph.node[-1].attribute.append(onnx.helper.make_attribute("to", onnx.TensorProto.DOUBLE))
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE


def fewer_outputs(proto: onnx.ModelProto) -> None:
    del proto.graph.output[2:]


def other_order(proto: onnx.ModelProto) -> None:
    outputs = list(proto.graph.output)
    del proto.graph.output[:]
    proto.graph.output.extend([outputs[0], outputs[1], outputs[3], outputs[2], outputs[4]])


@dataclass(frozen=True)
class Damage:
    by: Callable[[onnx.ModelProto], None]
    places: Sequence[str]
    """The outputs that differ, by what the model calls them."""


DAMAGE = [
    Damage(one_weight(1.05), ["output['scaled']", "output['more'][1][1]"]),
    Damage(computed("Neg", 0), ["output['scaled']"]),
    Damage(computed("Neg", 1), ["output['more'][0]"]),
    Damage(computed("Neg", 2), ["output['more'][1][0]"]),
    Damage(computed("Not", 4), ["output['mask']"]),
    Damage(other_order, ["output['more'][1][0]", "output['more'][1][1]"]),
    Damage(fewer_outputs, ["the outputs"]),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.by.__name__)
def test_wrong_numbers_are_found_with_their_output(damage: Damage, whole: ExportedCase, tmp_path: Path) -> None:
    violations = breaks("MUST-006", damaged(whole, tmp_path, damage.by))
    assert len(violations) == len(damage.places)
    for violation, place in zip(violations, damage.places, strict=True):
        assert place in violation.where


def test_the_element_that_differs_most_visibly_is_shown(whole: ExportedCase, tmp_path: Path) -> None:
    violation, *_ = breaks("MUST-006", damaged(whole, tmp_path, one_weight(1.01)))
    assert violation.expected.startswith("6.0 at [1, 3], as in the model")
    assert violation.found == "6.059999942779541; 1 of 12 elements differ"


@pytest.mark.parametrize(
    ("damage", "advice"),
    [
        (computed("Neg", 0), ["state `tolerances`"]),
        (computed("Neg", 1), ["take other inputs"]),
        (as_double, []),
        (fewer_outputs, []),
    ],
    ids=["floating", "integers", "dtype", "count"],
)
def test_tolerances_are_advised_where_they_help(
    damage: Callable[[onnx.ModelProto], None], advice: list[str], whole: ExportedCase, tmp_path: Path
) -> None:
    (found,) = breaks("MUST-006", damaged(whole, tmp_path, damage))
    assert [each for each in ("state `tolerances`", "take other inputs") if each in found.do] == advice


@pytest.mark.parametrize(
    "repair", [one_weight(1.0), one_weight(1 + 1e-6), computed("Identity", 0)], ids=lambda repair: repair.__name__
)
def test_rounding_and_what_changes_no_number_pass(
    repair: Callable[[onnx.ModelProto], None], whole: ExportedCase, tmp_path: Path
) -> None:
    assert not breaks("MUST-006", damaged(whole, tmp_path, repair))


def test_the_file_as_it_was_exported_passes(whole: ExportedCase) -> None:
    assert not breaks("MUST-006", whole)


@pytest.mark.parametrize(("tolerance", "found"), [(1e-6, True), (0.1, False)])
def test_a_case_may_state_how_much_it_bears(tolerance: float, found: bool, whole: ExportedCase, tmp_path: Path) -> None:
    stated = {"float32": tolerance, "float16": tolerance}
    case = damaged(whole, tmp_path, one_weight(1 + 1e-4), tolerances=stated)
    assert bool(breaks("MUST-006", case)) is found


class Largest(torch.nn.Module):
    """Gives the place of the largest of a few numbers, of which two lie near each other."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale).argmax(-1)


@pytest.mark.parametrize("tolerances", [{}, {"float32": 1e-3}], ids=["own", "stated"])
def test_stated_tolerances_hold_for_what_is_put_in_order(tolerances: dict[str, float], tmp_path: Path) -> None:
    whole = exported(tmp_path, lambda: (Largest().eval(), (torch.tensor([[1.0, 2.0, 3.0, 3.001]] * 3),)))
    case = damaged(whole, tmp_path / "damaged", one_weight(1 - 5e-4), tolerances=tolerances)
    assert bool(breaks("MUST-006", case)) is (not tolerances)


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_advice_where_optimizing_changes_numbers(
    factor: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of two outputs, the graph is wrong in one, and the runtime's optimizations change both or the same."""

    def run(*args: Any, optimized: bool = False, **options: Any) -> Iterator[Fetched]:
        for value in run_graph(*args, **options):
            yield replace(value, arrays=tuple(array * (factor if optimized else 1) for array in value.arrays))

    whole = exported(tmp_path, lambda: (Twice().eval(), (torch.rand(3, 4),)))
    monkeypatch.setattr(must_006, "run_graph", run)
    found = breaks("MUST-006", damaged(whole, tmp_path / "damaged", one_weight(1.1)))
    advice = ["optimizations off" in violation.do for violation in found]
    assert advice == ([False] if factor == 1 else [False, True])


class Twice(torch.nn.Module):
    """Scales its input in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(3, 4) + 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * self.scale, x.exp()


def test_model_that_refuses_its_inputs_is_told_of_first(tmp_path: Path) -> None:
    narrow = exported(tmp_path, lambda: (torch.nn.Linear(4, 2).half().eval(), (torch.ones(3, 4),)))
    (violation,) = breaks("MUST-006", narrow)
    assert violation.expected == "a model that runs on the example's inputs"


def test_a_file_that_does_not_run_is_a_finding(whole: ExportedCase, tmp_path: Path) -> None:
    def damage(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].op_type = "NoSuchOperator"

    (violation,) = breaks("MUST-006", damaged(whole, tmp_path, damage))
    assert "NoSuchOperator" in violation.found


@dataclass
class Pairing:
    """Two tensors, in a type that torch's trees are told of without the names of its parts."""

    one: torch.Tensor
    other: torch.Tensor


torch.utils._pytree.register_pytree_node(
    Pairing, lambda pairing: ([pairing.one, pairing.other], None), lambda parts, _: Pairing(*parts)
)


class Odd(torch.nn.Module):
    """Takes and gives what is neither plain nor usual, computed by a linear module."""

    def __init__(self, compute: Callable[..., object]) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("moved", torch.zeros(4))
        self.compute = compute

    def forward(self, *args: object) -> object:
        return self.compute(self, *args)


def moving(model: Any, x: torch.Tensor) -> object:
    model.moved.add_(x.mean(0))
    return model.linear(x) + model.moved


def coarser_before_the_last(model: Any, x: torch.Tensor) -> object:
    return model.linear(model.linear(x).half().sin().float())


def coarser_in_a_branch(model: Any, x: torch.Tensor) -> object:
    return model.linear(torch.cond(x.sum() < 9, lambda x: (x.half() * 1.1).sin().float(), torch.tanh, (x,)))


X = torch.linspace(-1, 1, 8).reshape(2, 4)
SMALL = X.to(torch.float8_e4m3fn)
ODD: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
    "a type without the names of its parts": (lambda model, x: Pairing(model.linear(x), x * 2), (X,)),
    "a dictionary at the end": (lambda model, x, more: model.linear(x) + more["k"], (X, {"k": X})),
    "a nested input that is not used": (lambda model, batch: model.linear(batch["a"]), ({"a": X, "b": X + 1},)),
    "numbers of eight bits": (lambda model, x: model.linear(x.float()).to(torch.float8_e5m2), (SMALL,)),
    "many at once": (lambda model, x: torch.vmap(model.linear)(x), (X[:, None],)),
    "a buffer that moves": (moving, (X,)),
    "half precision in between": (coarser_before_the_last, (X,)),
    "half precision in a branch": (coarser_in_a_branch, (X,)),
}


# TorchScript exports neither of the first two, moves the buffer itself before it writes it, and knows no `torch.cond`.
BEYOND_TORCHSCRIPT = frozenset(
    {"numbers of eight bits", "many at once", "a buffer that moves", "half precision in a branch"}
)
ODD_EXPORTS = [("dynamo", odd) for odd in ODD] + [("torchscript", odd) for odd in ODD if odd not in BEYOND_TORCHSCRIPT]


@pytest.mark.parametrize(("exporter", "odd"), ODD_EXPORTS)
def test_a_model_may_take_and_give_what_it_likes(odd: str, exporter: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    compute, args = ODD[odd]
    model = Odd(compute).eval()
    model.linear.reset_parameters()
    path = tmp_path / "model.onnx"
    export(model, args, path=path, exporter=exporter)
    case = ExportedCase(case_of(lambda: (model, args)), path, Example(model, args), exporter)
    for rule in ("MUST-005", "MUST-006", "MUST-007"):
        assert not breaks(rule, case), rule


def test_the_same_nan_and_infinity_are_the_same_number(whole: ExportedCase) -> None:
    model, inputs = build()
    divided = model(*inputs)["more"][1][0]
    assert divided.isnan().any()
    assert divided.isinf().any()
    assert not breaks("MUST-006", whole)


class Noisy(torch.nn.Module):
    """Adds noise, and chooses by it among what is nearly equal."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        noisy = x + torch.randn_like(x)
        return noisy.softmax(-1) * 3, (noisy * 1e-7 + 1).topk(3)[1]


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> ExportedCase:
    return exported(tmp_path_factory.mktemp("noisy"), lambda: (Noisy().eval(), (torch.rand(4, 50),)))


def test_random_draws_and_rounding_choices_may_differ(
    noisy: ExportedCase,
) -> None:
    assert not breaks("MUST-006", noisy)


@pytest.mark.parametrize("output", [0, 1])
def test_values_computed_from_drawn_numbers_are_compared(output: int, noisy: ExportedCase, tmp_path: Path) -> None:
    (found,) = breaks("MUST-006", damaged(noisy, tmp_path, computed("Neg", output)))
    assert noisy.proto.graph.output[output].name in found.where


class Corrected(torch.nn.Module):
    """Chooses by scores that a small bias corrects."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.linspace(-0.004, 0.004, 16)[torch.randperm(16)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = (x.softmax(-1) + self.bias).topk(4)[1]
        return chosen


def test_an_order_of_other_numbers_is_no_matter_of_rounding(tmp_path: Path) -> None:
    x = torch.randn(8, 16)
    x[:, 3] = 8
    whole = exported(tmp_path, lambda: (Corrected().eval(), (x,)))
    assert not breaks("MUST-006", whole)

    def lose_the_bias(proto: onnx.ModelProto) -> None:
        (tensor,) = (tensor for tensor in proto.graph.initializer if list(tensor.dims) == [16])
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * 0, tensor.name))

    assert breaks("MUST-006", damaged(whole, tmp_path / "damaged", lose_the_bias))


class Several(torch.nn.Module):
    """Returns a list of tensors."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [x * 2, x + 1]


@pytest.mark.parametrize(
    ("made", "wrong"),
    [("SequenceConstruct(u, v)", 0), ("SequenceConstruct(u, u)", 1), ("SequenceEmpty()", 1)],
    ids=["both", "one twice", "none"],
)
def test_every_tensor_of_a_sequence_is_compared(made: str, wrong: int, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 20]>
        g (float[2] x) => (seq(float[2]) s) <float[2] one = {{1.0, 1.0}}> {{
            u = Add(x, x) v = Add(x, one) s = {made} }}"""
    )
    onnx.save(proto, tmp_path / "model.onnx")
    case = case_of(lambda: (Several(), (torch.full((2,), 3.0),)))
    found = breaks("MUST-006", ExportedCase(case, tmp_path / "model.onnx", case.load(), "dynamo"))
    assert len(found) == wrong


class Sampling(torch.nn.Module):
    """Returns elements that it draws by the input, which no graph's draws replace, and the input's double."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.bernoulli(x.sigmoid()), x * 2


def test_advice_on_elements_drawn_anew_names_them(tmp_path: Path) -> None:
    sampling = exported(tmp_path, lambda: (Sampling().eval(), (torch.rand(20, 40),)))
    drawn, doubled = breaks("MUST-006", damaged(sampling, tmp_path / "damaged", computed("Neg", 1)))
    assert "each run draws these numbers anew" in drawn.do
    assert "the plain exporter's file" in doubled.do


class Scores(torch.nn.Module):
    """Gives scores from 1e-7 to 0.5."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sigmoid()


def scaled(whole: ExportedCase, folder: Path, factor: float) -> ExportedCase:
    """Multiply the first output by a factor."""

    def scale(proto: onnx.ModelProto) -> None:
        computed("Mul", 0)(proto)
        proto.graph.initializer.append(numpy_helper.from_array(np.float32(factor), "factor"))
        proto.graph.node[-1].input.append("factor")

    return damaged(whole, folder, scale)


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_what_the_runtime_alone_rounds_is_no_finding(factor: float, tmp_path: Path) -> None:
    """Of the runtime's scores, those of 1e-7 are off by a tenth; a graph that is off by a thousandth is found."""
    whole = exported(tmp_path, lambda: (Scores().eval(), (torch.linspace(-16, 0, 64),)))
    assert bool(breaks("MUST-006", scaled(whole, tmp_path / "scaled", factor))) is (factor != 1)


class LogScores(torch.nn.Module):
    """Gives logarithms of scores from 1e-7 to 0.5."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sigmoid().log()


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_advice_where_rounding_explains_a_difference(factor: float, tmp_path: Path) -> None:
    whole = exported(tmp_path, lambda: (LogScores().eval(), (torch.linspace(-16, 0, 64),)))
    (found,) = breaks("MUST-006", scaled(whole, tmp_path / "scaled", factor))
    assert ("so rounding explains it" in found.do) is (factor == 1)


class Cancelling(torch.nn.Module):
    """Gives small differences of large sums beside these sums."""

    def __init__(self) -> None:
        super().__init__()
        large = torch.randn(1024, 32)
        self.weight = torch.nn.Parameter(torch.cat([torch.cat([large, large]), torch.cat([large, -large])], 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x + 1e-3], -1) @ self.weight


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_what_the_model_itself_rounds_is_no_finding(factor: float, tmp_path: Path) -> None:
    whole = exported(tmp_path, lambda: (Cancelling().eval(), (torch.randn(8, 1024),)))
    found = breaks("MUST-006", scaled(whole, tmp_path / "scaled", factor))
    assert bool(found) is (factor != 1)
