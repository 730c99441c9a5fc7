"""The public names of the package."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_hierexport

ROOT = Path(__file__).parents[1]

_LOOK_UP = """
import importlib, itertools, sys, types

def look_up(name):
    package = importlib.import_module("pytest_hierexport")
    found = getattr(package, name)
    assert not isinstance(found, types.ModuleType), f"{name} gives {found}"
    assert getattr(package, name) is found, f"{name} gives two things"

name, *modules = sys.argv[1:]
for order in itertools.permutations([name, *modules]):
    for loaded in [key for key in sys.modules if key.partition(".")[0] == "pytest_hierexport"]:
        del sys.modules[loaded]
    for step in order:
        look_up(name) if step == name else importlib.import_module(step)
    look_up(name)
"""


def _modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(pytest_hierexport.__path__)]


def test_no_module_of_the_package_bears_a_public_name() -> None:
    assert set(_modules()) & set(pytest_hierexport.__all__) == set()


@pytest.mark.parametrize("name", pytest_hierexport.__all__)
def test_a_public_name_gives_one_object_in_every_import_order(name: str) -> None:
    # A module can take the place of a name by having it, with or without an underscore, or by defining it.
    modules = [module for module in _modules() if module.strip("_") == name or module == pytest_hierexport._HOME[name]]
    command = [sys.executable, "-c", _LOOK_UP, name, *(f"pytest_hierexport.{module}" for module in modules)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_every_public_name_is_listed() -> None:
    assert dir(pytest_hierexport) == sorted(pytest_hierexport.__all__)
    assert set(pytest_hierexport._HOME) == set(pytest_hierexport.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pytest_hierexport.no_such_name
