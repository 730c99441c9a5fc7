"""The TorchScript capture of quantized models, whose traces torch runs and freezes before it converts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.ao import quantization as ao
from torch.ao.quantization import quantize_fx

from pytest_hierexport import Attribution, Evidence, Export, Origin, export
from pytest_hierexport._cases import Example
from pytest_hierexport._errors import ExportError
from pytest_hierexport._proof import prove
from test_torchscript import owners, plain, stripped

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*torch.ao.quantization", "ignore:Please use quant_min")

_ZERO = 100
# Integers at scale 1: the integers of torch and the floating numbers of the graph round to the same on any machine.
EXACT = ao.QConfig(
    activation=ao.FixedQParamsObserver.with_args(scale=1.0, zero_point=_ZERO, dtype=torch.quint8),
    weight=ao.FixedQParamsObserver.with_args(
        scale=1.0, zero_point=0, dtype=torch.qint8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine
    ),
)
IMAGES = torch.randint(-4, 5, (2, 3, 6, 6), generator=torch.Generator().manual_seed(0)).float()
ROWS = torch.randint(-4, 5, (3, 4), generator=torch.Generator().manual_seed(1)).float()
MASK = torch.tensor([[True, False, True, True], [False, True, True, False], [True, True, False, False]])


class Scorer(nn.Module):
    """A quantized layer between floating operations; the mask is computed anew in each."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.lin, self.dequant = ao.QuantStub(), nn.Linear(4, 4), ao.DeQuantStub()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.dequant(self.lin(self.quant(x)))
        return hidden + torch.where(mask, 0.0, -3.0)


class Scorers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Scorer() for _ in range(2))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Twice(nn.Module):
    """Computes one value in two modules, and uses that of one."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused, self.scorer = nn.ReLU(), nn.ReLU(), Scorer()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.used(x)
        self.unused(x)
        result: torch.Tensor = self.scorer(hidden, mask)
        return result


def sequence() -> nn.Module:
    return nn.Sequential(
        ao.QuantStub(), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5), ao.DeQuantStub()
    )


def floating() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))


def quantized(model: nn.Module, *args: torch.Tensor) -> nn.Module:
    """Quantize a model with small integers as weights."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randint(-1, 2, parameter.shape, generator=generator))
    return calibrated(ao.prepare(with_config(model.eval(), EXACT)), ao.convert, *args)


def with_config(model: nn.Module, config: Any) -> nn.Module:
    vars(model)["qconfig"] = config
    return model


def calibrated(prepared: nn.Module, convert: Callable[..., nn.Module], *args: torch.Tensor) -> nn.Module:
    """Run a prepared model, whose observers take the ranges, and convert it."""
    prepared(*args)
    return convert(prepared.eval()).eval()


def trained() -> nn.Module:
    config = ao.get_default_qat_qconfig(torch.backends.quantized.engine)
    return calibrated(ao.prepare_qat(with_config(sequence().train(), config)), ao.convert, IMAGES)


def by_fx() -> nn.Module:
    mapping = ao.get_default_qconfig_mapping(torch.backends.quantized.engine)
    return calibrated(quantize_fx.prepare_fx(floating().eval(), mapping, (IMAGES,)), quantize_fx.convert_fx, IMAGES)


def by_fx_trained() -> nn.Module:
    mapping = ao.get_default_qat_qconfig_mapping(torch.backends.quantized.engine)
    prepared = quantize_fx.prepare_qat_fx(floating().train(), mapping, (IMAGES,))
    return calibrated(prepared, quantize_fx.convert_fx, IMAGES)


def exported(model: nn.Module, *args: torch.Tensor) -> Export:
    """Export a model and hold every tag to the proof."""
    result = export(model, args)
    assert result.exporter == "torchscript"
    proof = prove(Example(model, args), result.model, result.attribution)
    assert (proof.unproven, proof.contaminated) == ({}, {})
    assert proof.verdicts.keys() == {call.name for call in result.attribution.hierarchy.values()}
    coverage = result.attribution.coverage()
    assert (coverage["derived"], coverage["untagged"]) == (0, 0)
    return result


@pytest.mark.parametrize(
    "build",
    [lambda: quantized(sequence(), IMAGES), trained, by_fx, by_fx_trained],
    ids=["eager", "qat", "fx", "fx qat"],
)
def test_quantized_model_gives_the_graph_of_torch(build: Callable[[], nn.Module]) -> None:
    model = build()
    result = export(model, (IMAGES,), exporter="torchscript", opset=17)
    assert stripped(result.model) == stripped(plain(model, (IMAGES,), 17))


def test_nodes_of_quantized_model_belong_to_the_quantized_modules() -> None:
    result = exported(quantized(sequence(), IMAGES), IMAGES)
    assert owners(result, "QuantizeLinear") == [["0"], ["1"], ["2"], ["3"], ["4"]]
    assert [owners(result, operator) for operator in ("Conv", "Relu", "Gemm")] == [[["1"]], [["2"]], [["4"]]]
    assert owners(result, "DequantizeLinear")[-1] == ["5"]


def test_constants_of_quantized_layers_belong_to_their_consumers() -> None:
    found = owners(exported(quantized(sequence(), IMAGES), IMAGES), "Constant")
    assert [""] not in found
    assert {call for calls in found for call in calls} == {"0", "1", "2", "3", "4", "5"}


def test_merged_mask_of_quantized_layers_keeps_both() -> None:
    result = exported(quantized(Scorers(), ROWS, MASK), ROWS, MASK)
    assert owners(result, "Where") == [["layers.0", "layers.1"]]
    assert owners(result, "Gemm") == [["layers.0.lin"], ["layers.1.lin"]]


def test_unused_duplicate_in_quantized_model_keeps_both_calls() -> None:
    assert owners(exported(quantized(Twice(), ROWS, MASK), ROWS, MASK), "Relu") == [["used", "unused"]]


def test_wrong_tag_between_quantized_layers_is_unproven() -> None:
    model = quantized(sequence(), IMAGES)
    result = exported(model, IMAGES)
    nodes = dict(result.attribution.nodes)
    relu = next(key for key in nodes if key.endswith("Relu_output_0"))
    nodes[relu] = (Origin("3", Evidence.TRACED),)
    attribution = Attribution(result.attribution.hierarchy, nodes)
    assert prove(Example(model, (IMAGES,)), result.model, attribution).unproven.keys() == {"2", "3"}


@pytest.mark.parametrize(
    ("kind", "build", "args", "found"),
    [
        (nn.Linear, lambda: nn.Sequential(nn.Linear(4, 4)), (ROWS,), "quantized::linear_dynamic"),
        (nn.LSTM, lambda: nn.Sequential(nn.LSTM(4, 4)), (ROWS[None],), "CellParamsBase"),
    ],
    ids=["linear", "lstm"],
)
def test_dynamic_quantization_is_refused_in_one_sentence(
    kind: type, build: Callable[[], nn.Module], args: tuple[torch.Tensor, ...], found: str
) -> None:
    model = ao.quantize_dynamic(build().eval(), {kind}, dtype=torch.qint8)
    with pytest.raises(ExportError, match="to be captured as a graph") as raised:
        export(model, args)
    assert "torchscript: " in str(raised.value)
    assert found in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert "hierexport::mark" not in str(raised.value)
