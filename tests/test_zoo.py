from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

from pytest_hierexport._cases import Example, select
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._cases.zoo import EXTRAS, ZOO, Entry
from pytest_hierexport._errors import NoVerdictError
from pytest_hierexport.cli import main

ROOT = Path(__file__).parents[1]


EVERY = {**ZOO, **EXTRAS}
EXTRAS_OF = sorted({entry.extra for entry in EXTRAS.values()})


@pytest.fixture(params=EVERY.values(), ids=list(EVERY), scope="module")
def entry(request: pytest.FixtureRequest) -> Entry:
    value: Entry = request.param
    if value.extra and importlib.util.find_spec(value.extra) is None:
        pytest.skip(f"{value.extra} is not installed")
    return value


@pytest.fixture(scope="module")
def example(entry: Entry) -> Example:
    return build(entry)


def build(entry: Entry) -> Example:
    module, _, function = entry.factory.partition(":")
    torch.manual_seed(0)
    example: Example = getattr(importlib.import_module(module), function)()
    randomise(example.model)
    return example


def outputs(example: Example) -> list[torch.Tensor]:
    with torch.no_grad():
        result = example.model(*example.args, **example.kwargs)
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def test_every_model_runs_with_finite_varying_outputs(example: Example) -> None:
    values = outputs(example)
    assert values
    for value in values:
        assert value.isfinite().all()
        assert value.std() > 0


def test_every_model_is_ready_for_inference(example: Example) -> None:
    assert not example.model.training


def test_every_model_is_the_same_when_it_is_built_again(entry: Entry) -> None:
    # Not the fixture's: a cache among its inputs has grown by the run.
    for first, again in zip(outputs(build(entry)), outputs(build(entry)), strict=True):
        assert torch.equal(first, again)


def test_text_inputs_mask_tokens_in_one_row_only(entry: Entry, example: Example) -> None:
    mask = example.kwargs.get("attention_mask")
    if mask is not None and entry.name != "llava_decode":
        assert mask[0].all()
        assert 0 < mask[1].sum() < mask.shape[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_models_named_after_a_dtype_compute_in_it(dtype: str) -> None:
    named = [entry for name, entry in ZOO.items() if name.endswith(f"_{dtype}")]
    assert named
    for entry in named:
        assert {value.dtype for value in outputs(build(entry))} == {getattr(torch, dtype)}


def test_models_named_dynamic_state_dynamic_shapes() -> None:
    named = [entry for name, entry in ZOO.items() if name.endswith("_dynamic")]
    assert named
    assert all(build(entry).dynamic_shapes for entry in named)


def test_every_model_says_on_one_line_what_is_special() -> None:
    assert all(re.fullmatch(r"[A-Z0-9].*\.", entry.special) for entry in EVERY.values())


def test_every_model_has_a_committed_snapshot() -> None:
    assert {file.stem for file in (ROOT / "__hierexport__").glob("*.txt")} == set(EVERY)


def test_page_lists_the_models_as_they_are() -> None:
    page = (ROOT / "docs" / "zoo.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(entry.name, entry.family, entry.special) for entry in EVERY.values()]


def test_command_lists_names_families_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo"]) == 0
    rows = [tuple(re.split("  +", line, maxsplit=2)) for line in capsys.readouterr().out.splitlines()]
    assert rows == [(entry.name, entry.family, entry.special) for entry in EVERY.values()]


def test_command_lists_one_family_and_refuses_unknown_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "video"]) == 0
    assert {line.split()[1] for line in capsys.readouterr().out.splitlines()} == {"video"}
    assert main(["zoo", "vidoe"]) == 4
    assert "video" in capsys.readouterr().err


def test_models_of_extras_are_selected_by_name_and_family_alone() -> None:
    names = [entry.name for entry in EXTRAS.values() if entry.family == "timm"]
    assert [case.name for case in select(["family:timm"], ROOT)] == names
    assert [case.name for case in select([names[0]], ROOT)] == names[:1]
    assert set(EXTRAS).isdisjoint(case.name for case in select(["all"], ROOT))
    assert set(EXTRAS).isdisjoint(case.name for case in select(["*vit*"], ROOT))


@pytest.mark.parametrize("name", [next(name for name in EXTRAS if EXTRAS[name].extra == extra) for extra in EXTRAS_OF])
def test_model_whose_extra_is_absent_is_skipped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = EXTRAS[name].extra
    monkeypatch.setitem(sys.modules, extra, None)
    monkeypatch.delitem(sys.modules, f"pytest_hierexport._cases.zoo.{extra}", raising=False)
    with pytest.raises(NoVerdictError) as caught:
        select([name], ROOT)[0].load()
    assert caught.value.found.endswith(f"is not installed; pip install 'pytest-hierexport[{extra}]'")


def test_the_table_is_read_without_torch_or_transformers() -> None:
    heavy = "{'torch', 'transformers'} & set(sys.modules)"
    code = f"import sys; from pytest_hierexport._cases.zoo import ZOO; print(len(ZOO), {heavy})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == f"{len(ZOO)} set()\n"
