"""A fault of this package stops an export; what torch or the model cannot do is left to the next capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from pytest_hierexport import export
from pytest_hierexport._cases.zoo.plain import Gate
from pytest_hierexport._errors import ExportError
from pytest_hierexport._export.dynamo import module_stacks
from pytest_hierexport._export.faults import fault_in
from pytest_hierexport._export.torchscript import adapter, capturer

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, _other: Any = None) -> torch.Tensor:
        return torch.relu(self.lin(x))


class TakesTooMuch(nn.Module):
    """Gives a part more inputs than it takes: what is raised comes out of our frame that calls the part's forward."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> Any:
        return self.block(x, x, x)


class OneByOne(nn.Module):
    """Runs its part by the part's forward, with too few inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> Any:
        nothing: tuple[Any, ...] = ()
        return self.block.forward(*nothing) + x


class Hub(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self) -> None:
        super().__init__(PretrainedConfig())
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.block(x)
        return hidden


def hub() -> nn.Module:
    model: nn.Module = Hub().eval()  # type: ignore[no-untyped-call]
    return model


def told(model: nn.Module, exporter: str, args: Any = (X,)) -> str:
    with pytest.raises(ExportError) as raised:
        export(model, args, exporter=exporter)
    return str(raised.value)


def test_a_fault_before_torch_runs_stops_the_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(capturer, "get_callable_argument_names")
    message = told(Block(), "torchscript")
    assert "pytest-hierexport to capture Block by torchscript" in message
    assert "a fault of its own: NameError" in message
    assert "(capturer.py, line " in message


def test_a_fault_in_a_hook_below_torch_is_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(module_stacks, "_open_stack")
    message = told(Block(), "auto")
    assert "to capture Block by dynamo" in message
    assert "a fault of its own: NameError" in message
    assert "(module_stacks.py, line " in message


def test_unknown_result_of_transformers_is_no_fallback(
    monkeypatch: pytest.MonkeyPatch, hub_exporter: type[Any]
) -> None:
    monkeypatch.setattr(hub_exporter, "export", lambda *_, **__: object())
    assert "a fault of its own: AttributeError" in told(hub(), "transformers")


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("model", [TakesTooMuch(), OneByOne(), Gate(4, None)], ids=lambda model: type(model).__name__)  # type: ignore[arg-type]
def test_what_the_model_raises_is_no_fault(model: nn.Module, exporter: str) -> None:
    message = told(model, exporter)
    assert f"{type(model).__name__} to run on its example inputs, before any export; found in " in message
    assert ": TypeError: " in message


def test_inputs_that_cannot_be_copied_are_no_fault() -> None:
    message = told(Block(), "torchscript", (X, (x for x in "a generator")))
    assert "Block to be captured as a graph; found torchscript: TypeError: cannot pickle" in message


def test_an_older_transformers_without_an_exporter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers.exporters.exporter_onnx", None)
    assert "has no ONNX exporter" in told(hub(), "transformers")


def test_error_of_the_machine_is_no_fault() -> None:
    nested: list[Any] = []
    for _ in range(10_000):
        nested = [nested]
    deep = raised_by(lambda: list(adapter._tensors(nested)))
    assert isinstance(deep, RecursionError)
    assert fault_in(deep, "") is None


def raised_by(function: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # whatever it is
        function()
    return raised.value


def test_a_fault_beneath_what_torch_raised_is_found() -> None:
    def wrapping() -> None:
        try:
            adapter._positional(Block(), "two")  # type: ignore[arg-type]
        except TypeError as error:
            raise RuntimeError("step 1 of 3 failed") from error

    found = fault_in(raised_by(wrapping), "to test")
    assert found is not None
    assert "TypeError" in found.found
