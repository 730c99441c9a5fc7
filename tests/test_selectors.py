from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_hierexport._cases import select
from pytest_hierexport._cases.zoo import ZOO
from pytest_hierexport._errors import UsageError, nearest


def names(root: Path, *selectors: str) -> list[str]:
    return [case.name for case in select(selectors, root)]


def test_all_is_the_whole_zoo_in_its_order(tmp_path: Path) -> None:
    assert names(tmp_path, "all") == list(ZOO)


def test_a_family_is_its_entries(tmp_path: Path) -> None:
    assert names(tmp_path, "family:plain") == [name for name, entry in ZOO.items() if entry.family == "plain"]


def test_a_glob_picks_by_name_and_selectors_keep_their_order(tmp_path: Path) -> None:
    assert names(tmp_path, "nest?d", "bert", "se*l") == ["nested", "bert", "sequential"]


def test_a_model_that_two_selectors_name_is_one_case(tmp_path: Path) -> None:
    assert names(tmp_path, "bert", "be[r]t", "bert") == ["bert"]


def test_case_of_a_file_has_its_function_and_anchor(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def build(): ...\n")
    (case,) = select(["m.py::build"], tmp_path)
    assert (case.name, case.anchor, case.source) == ("build", tmp_path / "m.py", "m.py::build")


def test_module_beyond_sys_path_is_found_in_the_root(tmp_path: Path) -> None:
    (tmp_path / "odd_package").mkdir()
    (tmp_path / "odd_package" / "__init__.py").write_text("")
    (tmp_path / "odd_package" / "m.py").write_text("def build(): return 'made'\n")
    (case,) = select(["odd_package.m:build"], tmp_path)
    assert case.anchor == tmp_path / "odd_package" / "m.py"
    assert case.factory() == "made"


def test_checkpoint_folder_has_weights_and_its_configuration_none(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (folder / "model.safetensors").write_bytes(b"")
    (with_weights,) = select(["tiny"], tmp_path)
    (without,) = select(["tiny/config.json"], tmp_path)
    assert (with_weights.name, with_weights.randomise) == ("tiny", False)
    assert (without.name, without.randomise) == ("tiny", True)
    assert folder / "model.safetensors" in with_weights.files


@pytest.mark.parametrize(
    ("selector", "expected", "do"),
    [
        ("brt", "a model of the zoo", "bert"),
        ("zz*", "a model of the zoo", "albert"),
        ("family:visoin", "a family of the zoo", "vision"),
        ("modle.py::build", "a Python file", "model.py"),
        ("model.py::", "file.py::factory", "build, other"),
        ("no.such.module:build", "package.module:factory", "pythonpath"),
        ("model:", "package.module:factory", "pythonpath"),
        ("modle.toml", "a manifest", "model.py"),
        ("nowhere/ckpt", "a checkpoint folder", "path that exists"),
        ("empty", "a checkpoint folder with a config.json", "save_pretrained"),
        ("./data.json", "a checkpoint folder with a config.json", "save_pretrained"),
    ],
)
def test_missing_selector_is_a_usage_error_with_the_nearest(
    tmp_path: Path, selector: str, expected: str, do: str
) -> None:
    (tmp_path / "model.py").write_text("def build(): ...\ndef other(): ...\n")
    (tmp_path / "data.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as error:
        select([selector], tmp_path)
    assert expected in error.value.expected
    assert do in error.value.do


def test_an_empty_selection_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="an empty selection"):
        select([], tmp_path)


def test_two_models_of_one_name_are_a_usage_error(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.py").write_text("def build(): ...\n")
    with pytest.raises(UsageError, match=r"two models named build: a/m.py::build and b/m.py::build"):
        select(["a/m.py::build", "b/m.py::build"], tmp_path)


def test_file_without_a_factory_lists_its_functions(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def build(): ...\n")
    with pytest.raises(UsageError, match="name one of its functions: build"):
        select(["m.py"], tmp_path)


def test_module_without_the_factory_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "some_models.py").write_text("def build(): ...\n")
    with pytest.raises(UsageError, match="choose from: build"):
        select(["some_models:biuld"], tmp_path)


def test_nearest_names_are_shown_else_the_first() -> None:
    assert nearest("brt", ["bert", "vit"]) == "bert"
    assert nearest("zzz", ["bert", "vit"]) == "bert, vit"
