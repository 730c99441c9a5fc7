"""Which files are an exporter's source: `pytest_hierexport._rules.source.files`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_hierexport._errors import UsageError
from pytest_hierexport._rules.source import decisions, source_files
from pytest_hierexport._rules.source.files import module_name


def write(folder: Path, **files: str) -> Path:
    """Write files whose names have `__` for `/`; a name that ends in it is a package's `__init__.py`."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path = path.parent / "__init__.py" if name.endswith("__") else path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def names(start: Path, folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in source_files(start)}


def test_a_module_is_named_as_it_is_imported(tmp_path: Path) -> None:
    write(tmp_path, package__="", package__inner__="")
    assert module_name(tmp_path / "package" / "inner" / "exporter.py") == "package.inner.exporter"
    assert module_name(tmp_path / "package" / "inner" / "__init__.py") == "package.inner"
    assert module_name(tmp_path / "exporter.py") == "exporter"


def test_imports_from_the_own_package_are_source(tmp_path: Path) -> None:
    write(
        tmp_path,
        package__="",
        package__exporter="import os\nfrom . import inner\nfrom package.names import NAMES\n",
        package__inner__="from ..tables import TABLE\n",
        package__tables="",
        package__names="",
        package__unrelated="",
    )
    found = names(tmp_path / "package" / "exporter.py", tmp_path / "package")
    assert found == {"__init__.py", "exporter.py", "inner/__init__.py", "tables.py", "names.py"}


def test_packages_beside_an_installed_exporter_are_not_source(tmp_path: Path) -> None:
    write(
        tmp_path,
        mine__="",
        mine__exporter="import torch\nfrom mine.tables import TABLE\n",
        mine__tables="from torch import nn\n",
        torch__="def broken(:\n",
        torch__nn="",
    )
    assert names(tmp_path / "mine" / "exporter.py", tmp_path) == {"mine/exporter.py", "mine/tables.py"}


def test_packages_beside_an_installed_single_module_are_not_source(tmp_path: Path) -> None:
    write(tmp_path, exporter="import torch\nimport tables\n", tables="", torch__="def broken(:\n")
    (tmp_path / "torch-2.0.dist-info").mkdir()
    assert names(tmp_path / "exporter.py", tmp_path) == {"exporter.py", "tables.py"}


def test_packages_beside_a_projects_module_are_source(tmp_path: Path) -> None:
    write(tmp_path, exporter="from helpers import tables\n", helpers__="", helpers__tables="")
    found = names(tmp_path / "exporter.py", tmp_path)
    assert found == {"exporter.py", "helpers/__init__.py", "helpers/tables.py"}


def test_a_package_without_init_finds_its_own_modules(tmp_path: Path) -> None:
    write(
        tmp_path,
        plain__exporter="from plain.tables import A\nfrom .names import B\n",
        plain__tables="",
        plain__names="",
    )
    found = names(tmp_path / "plain" / "exporter.py", tmp_path / "plain")
    assert found == {"exporter.py", "tables.py", "names.py"}


@pytest.mark.parametrize("text", ["def f(:\n", "\0"])
def test_source_that_is_no_python_is_a_usage_error(text: str, tmp_path: Path) -> None:
    write(tmp_path, exporter=text)
    with pytest.raises(UsageError, match="to be Python that can be read"):
        source_files(tmp_path / "exporter.py")


def test_source_that_nests_too_deeply_is_a_usage_error(tmp_path: Path) -> None:
    write(tmp_path, exporter="x = " + " + ".join(["y"] * 4000))
    with pytest.raises(UsageError, match=r"exporter\.py: its expressions or statements nest too deeply"):
        decisions(source_files(tmp_path / "exporter.py"))
