from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import NoReturn

import pytest

from pytest_hierexport._cases import Case, select, select_one
from pytest_hierexport._cases.zoo import ZOO
from pytest_hierexport._errors import CollectError, UsageError, proposal


def names(root: Path, *selectors: str) -> list[str]:
    return [case.name for case in select(selectors, root)]


def test_all_is_the_whole_zoo_in_its_order(tmp_path: Path) -> None:
    assert names(tmp_path, "all") == list(ZOO)


def test_a_family_is_its_entries(tmp_path: Path) -> None:
    assert names(tmp_path, "family:plain") == [name for name, entry in ZOO.items() if entry.family == "plain"]


def test_a_glob_picks_by_name_and_selectors_keep_their_order(tmp_path: Path) -> None:
    assert names(tmp_path, "nest?d", "bert", "se*l") == ["nested", "bert", "sequential"]


def test_misspelled_file_is_found_near_its_name(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text("")
    with pytest.raises(UsageError) as error:
        names(tmp_path, "models.tml")
    assert error.value.do.startswith("perhaps models.toml")


def test_missing_file_proposes_files_of_its_kind(tmp_path: Path) -> None:
    for name in ("a.hierarchy.json", "a.onnx", "towers.py"):
        (tmp_path / name).write_text("")
    with pytest.raises(UsageError) as error:
        names(tmp_path, "x.py::build")
    assert error.value.do == "give a path that exists, choose from towers.py"


def test_missing_file_in_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    for function in ("listdir", "scandir"):
        monkeypatch.setattr(os, function, refuse)
    with pytest.raises(UsageError, match="give a path that exists"):
        names(tmp_path, "models.toml")


def test_models_of_manifests_and_of_code_are_proposed(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text("[models.spotter]\nmodel = 'bert'\n")
    (tmp_path / "broken.toml").write_text("[[")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.toml").write_text("[models.spotted]\nmodel = 'bert'\n")
    with pytest.raises(UsageError) as error:
        select(["spottr"], tmp_path, {"spot": Case("spot", object)}, [tmp_path / "sub" / "more.toml"])
    assert error.value.do == "perhaps models.toml::spotter, spot or sub/more.toml::spotted"


def test_folder_of_a_models_name_proposes_the_model(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text("[models.spotter]\nmodel = 'bert'\n")
    (tmp_path / "spotter").mkdir()
    with pytest.raises(UsageError) as error:
        select(["spotter"], tmp_path)
    assert error.value.do.startswith("perhaps models.toml::spotter; else name a folder that save_pretrained wrote")


@pytest.mark.parametrize("selector", ["models.toml", "models.toml::"])
def test_one_model_of_several_is_named_by_an_example(
    selector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.toml").write_text("[models.one]\nmodel = 'bert'\n[models.two]\nmodel = 'beit'\n")
    with pytest.raises(UsageError, match=r"found one, two\nto do: name one of them, such as models\.toml::one$"):
        select_one(selector)


def test_a_model_that_two_selectors_name_is_one_case(tmp_path: Path) -> None:
    assert names(tmp_path, "bert", "be[r]t", "bert") == ["bert"]


def test_case_of_a_file_has_its_function_and_anchor(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def build(): ...\n")
    (case,) = select(["m.py::build"], tmp_path)
    assert (case.name, case.anchor, case.source) == ("build", tmp_path / "m.py", "m.py::build")


def test_factory_that_needs_an_argument_is_shown(tmp_path: Path) -> None:
    (tmp_path / "wide.py").write_text("\ndef build(width): ...\n")
    (case,) = select(["wide.py::build"], tmp_path)
    with pytest.raises(CollectError) as error:
        case.load()
    assert error.value.found == "build(width) (wide.py, line 2)"
    assert error.value.do.startswith("give its parameters defaults")


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
        ("no.such.module:build", "package.module:factory", "PYTHONPATH"),
        ("model:", "package.module:factory", "PYTHONPATH"),
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


def test_name_before_a_selector_tells_equal_factories_apart(tmp_path: Path) -> None:
    for file in ("encoder.py", "decoder.py"):
        (tmp_path / file).write_text("def build(): ...\n")
    cases = select(["encoder.py::build", "decoder=decoder.py::build"], tmp_path)
    assert [(case.name, case.source) for case in cases] == [
        ("build", "encoder.py::build"),
        ("decoder", "decoder=decoder.py::build"),
    ]
    with pytest.raises(UsageError, match=r"give one of them a name: other=decoder\.py::build"):
        select(["encoder.py::build", "decoder.py::build"], tmp_path)
    with pytest.raises(UsageError, match=r"give one of them a name: other=decoder\.py::build"):
        select(["one=encoder.py::build", "one=decoder.py::build"], tmp_path)
    with pytest.raises(UsageError, match=r"one model for the name two; found bert, beit"):
        select(["two=be[ir]t"], tmp_path)


def test_name_that_is_proposed_for_a_manifest_works(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def build(): ...\n")
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text("[models.a]\nmodel = 'm.py::build'\n")
    with pytest.raises(UsageError, match=r"give one of them a name: other=two\.toml::a"):
        select(["one.toml", "two.toml"], tmp_path)
    assert [case.name for case in select(["one.toml", "other=two.toml::a"], tmp_path)] == ["a", "other"]


@pytest.mark.parametrize(
    ("selector", "do"),
    [("::build", "name a Python file in it"), ("bert.onnx", "hierexport validate bert.onnx checks the file by itself")],
)
def test_folder_or_onnx_file_is_no_model(selector: str, do: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        select([selector], tmp_path)
    assert do in error.value.do


def test_path_with_an_equals_sign_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "lr=1.py").write_text("def build(): ...\n")
    assert names(tmp_path, "lr=1.py::build", "x=lr=1.py::build") == ["build", "x"]


def test_glob_of_a_file_takes_its_factories(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import functools\n"
        "def small(): return 1\n"
        "def large(width=3, *, depth=4): return 2\n"
        "def sized(width): return 3\n"
        "def needs(*, depth): return 3\n"
        "def nothing(): print()\n"
        "def _private(): return 4\n"
        "@functools.cache\ndef wrapped(): return 5\n"
    )
    assert names(tmp_path, "m.py::*") == ["small", "large"]
    assert names(tmp_path, "m.py::l*") == ["large"]
    with pytest.raises(UsageError, match="choose from small, large, sized"):
        select(["m.py::x*"], tmp_path)


def test_one_model_of_a_manifest_is_a_selector(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def build(): ...\n")
    entry = '[models."{}"]\nmodel = "m.py::build"\n'
    (tmp_path / "models.toml").write_text(
        entry.format("a") + entry.format("b::c") + '[models.d]\nmodel = "none.py::x"\n'
    )
    (case,) = select(["models.toml::b::c"], tmp_path)
    assert (case.name, case.source, case.manifest) == ("b::c", "models.toml::b::c", tmp_path / "models.toml")
    with pytest.raises(UsageError, match="no 'e'"):
        select(["models.toml::e"], tmp_path)


def test_file_without_a_factory_lists_its_functions(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def build(): ...\n")
    with pytest.raises(UsageError, match="name one of its functions: build"):
        select(["m.py"], tmp_path)


def test_module_without_the_factory_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "some_models.py").write_text("def build(): ...\n")
    with pytest.raises(UsageError, match="perhaps build"):
        select(["some_models:biuld"], tmp_path)


def test_similar_names_are_proposed_else_all_or_the_first() -> None:
    assert proposal("brt", ["bert", "vit"]) == "perhaps bert"
    assert proposal("SPOT-3", ["MUST-003", "SPOT-1", "SPOT-2"]) == "perhaps SPOT-2 or SPOT-1"
    assert proposal("zzz", ["bert", "vit"]) == "choose from bert, vit"
    assert proposal("zzz", [f"a{i}" for i in range(30)]).startswith("choose one of 30, such as a0, a1, ")


def test_name_in_other_case_is_proposed_first() -> None:
    assert proposal("spot-1", ["SPOT-2", "SPOT-1", "spot-12"]).startswith("perhaps SPOT-1, ")
