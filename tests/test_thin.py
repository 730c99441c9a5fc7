"""Thin models: the modules of a model that is larger than a laptop, with widths that it can prove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from projects import Project
from pytest_hierexport import Case, Example
from pytest_hierexport._cases import select, thin_check, thinning
from pytest_hierexport._cases.thin_check import check_thin
from pytest_hierexport._cases.thinning import _places, structure, thin_config
from pytest_hierexport._errors import CollectError, ExportError, HierexportError
from pytest_hierexport.cli import main

FACTORIES = """
import torch

class Block(torch.nn.Module):
    def __init__(self, width, twice=False):
        super().__init__()
        self.linear, self.twice = torch.nn.Linear(width, width), twice

    def forward(self, x):
        x = torch.relu(self.linear(x))
        return torch.tanh(x) if self.twice else x

class Tower(torch.nn.Module):
    def __init__(self, width, depth=2, twice=False):
        super().__init__()
        self.blocks = torch.nn.Sequential(*(Block(width, twice) for _ in range(depth)))

    def forward(self, x):
        return self.blocks(x)

def made(width, **options):
    return Tower(width, **options).eval(), (torch.randn(2, width),)

def wide():
    return made(4096)

def small():
    return made(8)

def deep():
    return made(8, depth=3)

def other():
    return made(8, twice=True)
"""


@pytest.fixture
def tower(tmp_path: Path) -> Callable[[str], Case]:
    """Give a function that makes the case of a wide tower, with the thin factory of that name."""
    (tmp_path / "towers.py").write_text(FACTORIES)

    def case(thin: str) -> Case:
        entry = f'[models.tower]\nmodel = "towers.py::wide"\nweights = "thin"\nthin = "towers.py::{thin}"\n'
        (tmp_path / "models.toml").write_text(entry)
        (found,) = select(["models.toml"], tmp_path)
        return found

    return case


def llama() -> Example:
    """Make a decoder whose key and value heads must stay fewer than its query heads."""
    config = transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=96,
    )
    ids = torch.tensor([[0, 1, 95], [2, 3, 4]])
    return Example(transformers.LlamaModel(config).eval(), kwargs={"input_ids": ids, "use_cache": False})


@pytest.fixture
def thin_llama(monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(thinning, "ENOUGH", 50_000)
    return Case("llama", llama, "a test", weights="thin")


def parameters(model: torch.nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def test_configuration_is_cut_in_widths_and_keeps_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "ENOUGH", 50_000)
    example = llama()
    config: Any = example.model.config
    before = config.to_dict()
    sizes = thin_config(example, config)
    cut = transformers.LlamaModel(sizes.config)
    assert structure(cut) == structure(example.model)
    assert parameters(cut) == sizes.parameters < 100_000 < parameters(example.model)
    assert sizes.cut["hidden_size"][0] == 256 > sizes.cut["hidden_size"][1]
    # Equal numbers of heads would take the repetition of keys out of the graph.
    assert sizes.config.num_attention_heads > sizes.config.num_key_value_heads
    # The largest token id needs the whole vocabulary.
    assert sizes.config.vocab_size == 96
    assert config.to_dict() == before


def test_configuration_within_one_that_has_a_mixin_is_found() -> None:
    class Mine: ...

    class Config(transformers.LlamaConfig, Mine): ...

    config = Config()
    config.text_config = transformers.LlamaConfig()
    places = set(_places(config))
    assert ("text_config", "hidden_size") in places
    assert ("text_config",) not in places


def test_thin_case_has_weights_and_the_real_inputs(thin_llama: Case) -> None:
    example = thin_llama.load()
    assert torch.equal(example.kwargs["input_ids"], llama().kwargs["input_ids"])
    with torch.no_grad():
        (hidden,) = example.model(**example.kwargs).to_tuple()
    assert hidden.shape[:2] == (2, 3)
    assert hidden.std() > 0


def test_hierarchy_of_the_thin_model_is_the_real_one(thin_llama: Case) -> None:
    check_thin(thin_llama)


def test_smaller_model_of_a_factory_serves(tower: Callable[[str], Case]) -> None:
    case = tower("small")
    assert parameters(case.load().model) == 2 * (8 * 8 + 8)
    check_thin(case)


def test_other_modules_are_an_error_that_says_where(tower: Callable[[str], Case]) -> None:
    with pytest.raises(CollectError) as caught:
        tower("deep").load()
    assert caught.value.found.startswith("blocks.2 (towers.Block, no parameters) in place of no module")


def test_other_operators_are_an_error_that_says_where(tower: Callable[[str], Case]) -> None:
    with pytest.raises(ExportError) as caught:
        check_thin(tower("other"))
    assert "/Tower/Block.{0..1}: Tanh 0 → 1" in caught.value.found


def test_differences_of_a_thin_model_are_counted_right(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = iter(["".join(f"/Net/Part_{i}: {operator} 1\n" for i in range(100)) for operator in ("Add", "Mul")])
    monkeypatch.setattr(thin_check, "_hierarchy", lambda _: next(texts))
    with pytest.raises(ExportError) as caught:
        check_thin(Case("net", lambda: None, weights="thin"))
    assert caught.value.found.endswith("/Net/Part_4: Add 1 → 0, Mul 0 → 1; … and 95 more changes")


def test_model_without_configuration_needs_a_factory() -> None:
    case = Case("plain", lambda: (torch.nn.Linear(2, 2), (torch.ones(1, 2),)), "a test", weights="thin")
    with pytest.raises(CollectError) as caught:
        case.load()
    assert "Linear" in caught.value.found
    assert "thin = " in caught.value.do


def test_thin_entry_of_full_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "towers.py").write_text(FACTORIES)
    (tmp_path / "models.toml").write_text('[models.a]\nmodel = "towers.py::wide"\nthin = "towers.py::small"\n')
    with pytest.raises(HierexportError, match=r"models\.a\.weights"):
        select(["models.toml"], tmp_path)


def test_command_refuses_what_cannot_be_thin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "towers.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)
    assert main(["export", "towers.py::wide", "--thin", "-o", "tower.onnx"]) != 0
    assert "thin = " in capsys.readouterr().err
    assert not (tmp_path / "tower.onnx").exists()


def test_rules_that_need_numbers_run_on_the_thin_model(project: Project) -> None:
    project.write("towers.py", FACTORIES)
    project.write("models.toml", '[models.a]\nmodel = "towers.py::wide"\nweights = "thin"\nthin = "towers.py::small"\n')
    result = project.run("--hierexport-models=models.toml", "-k", "MUST-006 or MUST-007 or MUST-002")
    assert result.parseoutcomes() == {"passed": 3, "deselected": 8}
