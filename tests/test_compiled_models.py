"""What has no modules that Python runs: models of TorchScript and programs of torch.export, served or refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pytest_hierexport import export
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._errors import CollectError, ExportError, UsageError
from pytest_hierexport._proof import prove
from pytest_hierexport._rules.renaming import renamed

X = torch.linspace(-1, 1, 8).reshape(2, 4)

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.lin(x))


class Pair(nn.Module):
    def __init__(self, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = Block(), second

    def forward(self, x: torch.Tensor) -> Any:
        return self.second(self.first(x)) + 1


def pair() -> Pair:
    return Pair(Block()).eval()


def traced(module: nn.Module) -> Any:
    return torch.jit.trace(module.eval(), (X,))


def scripted(module: nn.Module) -> Any:
    return torch.jit.script(module.eval())


CALLED = ("first", "first.lin", "second")
COMPILERS = [traced, scripted]


@pytest.mark.parametrize("exporter", ["auto", "torchscript"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_compiled_model_is_refused_in_one_sentence(compiler: Any, exporter: str) -> None:
    with pytest.raises(UsageError, match="TorchScript compiled") as raised:
        export(compiler(pair()), (X,), exporter=exporter)
    assert "pass the module that was scripted or traced" in str(raised.value)


@pytest.mark.parametrize("inputs", [(), ((X,),)], ids=["inputs to find", "inputs given"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_factory_of_a_compiled_model_is_refused(compiler: Any, inputs: tuple[Any, ...]) -> None:
    case = Case("pair", lambda: (compiler(pair()), *inputs), "m.py::pair")
    with pytest.raises(CollectError, match="TorchScript compiled the model, so that its calls cannot be observed"):
        case.load()


def test_a_factory_of_a_program_is_refused() -> None:
    case = Case("pair", lambda: (torch.export.export(pair(), (X,)), (X,)), "m.py::pair")
    with pytest.raises(CollectError, match="a program has no modules whose calls") as raised:
        case.load()
    assert "`pytest_hierexport.export()` takes the program itself" in str(raised.value)


def test_exported_program_keeps_its_calls() -> None:
    result = export(torch.export.export(pair(), (X,)))
    assert set(result.attribution.hierarchy) >= {"", "first", "second"}


def test_the_module_of_a_program_is_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="GraphModule to go into eval mode") as raised:
        export(torch.export.export(pair(), (X,)).module(), (X,))
    assert "the module that it was made of" in str(raised.value)


def test_a_traced_part_is_one_call_and_keeps_its_names() -> None:
    model = Pair(traced(Block())).eval()
    randomise(model)
    result = export(model, (X,))
    assert result.exporter == "dynamo"
    assert prove(Example(model, (X,)), result.model, result.attribution).unproven == {}
    registries = {name for name, _ in model.named_parameters()}
    with renamed(model) as renaming:
        assert renaming.paths["second.lin"].endswith(".lin")
        assert set(export(model, (X,)).attribution.hierarchy) == {"", *(renaming.paths[path] for path in CALLED)}
    assert {name for name, _ in model.named_parameters()} == registries


def test_compiled_parts_that_no_exporter_takes_are_named() -> None:
    with pytest.raises(ExportError, match=r"compiled by TorchScript: second\n") as raised:
        export(Pair(scripted(Pair(Block()))).eval(), (X,))
    assert "put the modules that were scripted or traced in their place" in raised.value.do
