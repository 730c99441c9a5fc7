from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_hierexport._cases.factories import (
    file_of_spec,
    find_module,
    functions_of,
    line_of,
    load_from_file,
    load_from_module,
    may_define,
)
from pytest_hierexport._errors import CollectError


@pytest.fixture(autouse=True)
def _imports_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_factory.py").write_text("VALUE = 'near'\n")
    file = tmp_path / "some_factory.py"
    file.write_text("from neighbour_of_factory import VALUE\ndef build(): return VALUE\n")
    assert load_from_file(file, "build") == "near"


def test_a_file_in_a_package_may_import_relatively(tmp_path: Path) -> None:
    package = tmp_path / "a_package" / "deep"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("VALUE = 'relative'\n")
    (package / "factory.py").write_text("from . import VALUE\ndef build(): return VALUE, __name__\n")
    assert load_from_file(package / "factory.py", "build") == ("relative", "a_package.deep.factory")


def test_factory_in_the_init_file_is_one_of_its_package(tmp_path: Path) -> None:
    package = tmp_path / "package_with_factory"
    package.mkdir()
    (package / "__init__.py").write_text("def build(): return __name__, __package__\n")
    assert load_from_file(package / "__init__.py", "build") == ("package_with_factory", "package_with_factory")


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text(f"class Model: ...\ndef build(): return {folder!r}, Model\n")
    built = [load_from_file(tmp_path / folder / "same_name.py", "build") for folder in ("a", "b", "a")]
    assert built[0] == built[2] != built[1]


def two_folders(home: Path, *, helpers: tuple[str, str], imports: str = "from its_helper import VALUE") -> list[Path]:
    """Write a factory in each of two folders that returns the value of the helper beside it."""
    for folder, helper in zip("ab", helpers, strict=True):
        (home / folder).mkdir()
        (home / folder / "its_helper.py").write_text(helper)
        (home / folder / "with_helper.py").write_text(f"{imports}\ndef build(): return VALUE\n")
    return [home / folder / "with_helper.py" for folder in "ab"]


def test_helper_of_another_folder_is_not_taken_silently(tmp_path: Path) -> None:
    first, second = two_folders(tmp_path, helpers=("VALUE = 'a'\n", "VALUE = 'b'\n"))
    assert load_from_file(first, "build") == "a"
    with pytest.raises(CollectError, match=r"module its_helper to be its_helper\.py; found its_helper\.py, which was"):
        load_from_file(second, "build")
    assert load_from_file(first, "build") == "a"


def test_helper_of_an_equal_helper_is_not_taken_silently(tmp_path: Path) -> None:
    first, second = two_folders(tmp_path, helpers=("from its_values import VALUE\n",) * 2)
    for file in (first, second):
        (file.parent / "its_values.py").write_text(f"VALUE = {file.parent.name!r}\n")
    assert load_from_file(first, "build") == "a"
    with pytest.raises(CollectError, match="module its_values"):
        load_from_file(second, "build")


@pytest.mark.parametrize("imports", ["from its_helper import VALUE", "VALUE = 1\nimport json"])
def test_helper_with_equal_content_or_unused_is_no_error(tmp_path: Path, imports: str) -> None:
    helpers = ("VALUE = 1\n", "VALUE = 1\n" if "helper" in imports else "VALUE = 2\n")
    files = two_folders(tmp_path, helpers=helpers, imports=imports)
    assert [load_from_file(file, "build") for file in files] == [1, 1]


def test_package_of_another_folder_is_not_taken_silently(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        package = tmp_path / folder / "its_package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "values.py").write_text(f"VALUE = {folder!r}\n")
        (package / "models.py").write_text("from .values import VALUE\ndef build(): return VALUE\n")
    assert load_from_file(tmp_path / "a" / "its_package" / "models.py", "build") == "a"
    with pytest.raises(CollectError, match="module its_package"):
        load_from_file(tmp_path / "b" / "its_package" / "models.py", "build")


def test_module_of_another_root_is_not_taken_silently(tmp_path: Path) -> None:
    first, second = two_folders(tmp_path, helpers=("VALUE = 'a'\n", "VALUE = 'b'\n"))
    assert load_from_module("with_helper", "build", first.parent, first) == "a"
    with pytest.raises(CollectError, match="module its_helper"):
        load_from_module("with_helper", "build", second.parent, second)


def test_a_class_is_called_the_same_whatever_was_imported_before(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text("class Model: ...\ndef build(): return Model.__module__\n")
    assert [load_from_file(tmp_path / folder / "same_name.py", "build") for folder in ("a", "b")] == ["same_name"] * 2


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    file = tmp_path / "imported_once.py"
    file.write_text("class Model: ...\ndef build(): return Model\n")
    assert load_from_file(file, "build") is load_from_file(file, "build")


def test_a_file_that_fails_leaves_no_half_module_behind(tmp_path: Path) -> None:
    file = tmp_path / "half_module.py"
    file.write_text("raise ValueError\n")
    with pytest.raises(ValueError):  # noqa: PT011  # the file's own
        load_from_file(file, "build")
    assert "half_module" not in sys.modules


def test_function_in_a_class_is_called_by_dotted_name(tmp_path: Path) -> None:
    (tmp_path / "dotted_names.py").write_text("class Models:\n    @staticmethod\n    def build(): return 1\n")
    assert load_from_module("dotted_names", "Models.build", tmp_path) == 1


def test_file_too_deep_to_parse_may_define_anything(tmp_path: Path) -> None:
    file = tmp_path / "too_deep.py"
    file.write_text(f"def build(): ...\nx = {'1+' * 20_000}1\n")
    assert may_define(file, "other")
    assert functions_of(file) == []
    assert line_of(file, "build") == 1


def test_missing_function_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "missing_function.py"
    file.write_text("def build_model(): ...\n")
    with pytest.raises(CollectError, match="perhaps build_model"):
        load_from_file(file, "build_modle")


def test_value_that_is_no_function_is_named_as_that(tmp_path: Path) -> None:
    file = tmp_path / "no_function.py"
    file.write_text("build = 3\n")
    with pytest.raises(CollectError, match="found a int"):
        load_from_file(file, "build")


def test_module_is_found_without_importing_its_packages(tmp_path: Path) -> None:
    package = tmp_path / "never_imported"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError\n")
    (package / "m.py").write_text("")
    assert file_of_spec(find_module("never_imported.m", tmp_path)) == package / "m.py"
    assert find_module("never_imported.other", tmp_path) is None
    assert find_module("not a name", tmp_path) is None


def test_module_is_found_in_folders_that_are_no_packages(tmp_path: Path) -> None:
    folder = tmp_path / "outer_folder" / "inner_folder" / "deep_folder"
    folder.mkdir(parents=True)
    (folder / "m.py").write_text("def build(): return __name__\n")
    assert file_of_spec(find_module("outer_folder.inner_folder.deep_folder.m", tmp_path)) == folder / "m.py"
    assert "outer_folder" not in sys.modules
    name = "outer_folder.inner_folder.deep_folder.m"
    assert load_from_module(name, "build", tmp_path) == name


def test_functions_are_listed_from_the_source_alone(tmp_path: Path) -> None:
    file = tmp_path / "listed.py"
    file.write_text("import nothing_of_this_name\n\ndef build(): ...\n")
    assert functions_of(file) == ["build"]
    assert line_of(file, "build") == 3
    assert line_of(file, "other") == 1
    assert functions_of(tmp_path / "absent.py") == []


@pytest.mark.parametrize(
    ("source", "defined"),
    [
        ("def build(): ...", True),
        ("if True:\n    build = 1", True),
        ("from somewhere import make as build", True),
        ("from somewhere import *", True),
        ("globals()['bu' + 'ild'] = 1", True),
        ("def __getattr__(name): ...", True),
        ("class build: ...", True),
        ("def register(name):\n    globals()[name] = 1\nregister('bu' + 'ild')", True),
        ("def late():\n    global build\n    build = 1\nlate()", True),
        ("import sys\nsys.modules[__name__].build = 1", True),
        ("locals()['build'] = 1", True),
        ("this is no python", True),
        ("def other(build):\n    build = 2", False),
        ("import torch\nprint(build)", False),
    ],
)
def test_missing_name_is_known_without_importing_the_file(source: str, defined: bool, tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(source)
    assert may_define(file, "build") is defined
    assert may_define(file, "build.method") is defined
