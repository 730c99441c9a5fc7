"""The public names, with their signatures: what users build on does not change by accident."""

from __future__ import annotations

import inspect
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest

import pytest_hierexport
from pytest_hierexport._export.choices import ExportOptions

PACKAGE = Path(pytest_hierexport.__file__).parent
SIGNATURES = Path(__file__).parent / "data" / "public_api.txt"


def signature(name: str) -> str:
    """Return a public name with its signature and, for a class, its public members."""
    found = getattr(pytest_hierexport, name)
    if not inspect.isclass(found):
        return f"{name}{inspect.signature(found)}"
    if issubclass(found, Enum):
        return f"{name}: {', '.join(found.__members__)}"
    members = sorted(member for member in dir(found) if not member.startswith("_") and member not in dir(Exception))
    return ": ".join([f"{name}{inspect.signature(found)}", *([", ".join(members)] if members else [])])


def test_public_names_keep_their_signatures() -> None:
    found = "\n".join(signature(name) for name in sorted(pytest_hierexport.__all__))
    assert found == SIGNATURES.read_text(encoding="utf-8").rstrip()


def test_export_takes_every_option_with_its_default() -> None:
    keywords = {
        name: parameter.default
        for name, parameter in inspect.signature(pytest_hierexport.export).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert keywords == vars(ExportOptions())


def modules() -> set[str]:
    return {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def test_every_other_module_is_private_by_its_name() -> None:
    assert {name for name in modules() if not name.startswith("_")} == {"assertions", "cli", "plugin"}


def test_no_module_has_the_name_of_a_public_function() -> None:
    assert modules().isdisjoint(pytest_hierexport.__all__)


def test_every_public_name_is_described() -> None:
    text = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in pytest_hierexport.__all__ if f"`{name}" not in text] == []


@pytest.mark.parametrize("heavy", ["torch", "onnx", "onnx_ir", "transformers"])
def test_importing_the_package_imports_nothing_heavy(heavy: str) -> None:
    code = f"import sys, pytest_hierexport; pytest_hierexport.Hierarchy; print({heavy!r} in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


def test_export_carry_and_prove_import_no_test_runner() -> None:
    code = """
import sys
import torch
from pytest_hierexport import Example, carry, export, prove
model, inputs = torch.nn.Linear(2, 2), (torch.ones(1, 2),)
made = export(model, inputs)
carried = carry(made.model, made.attribution, export(model, inputs).model)
prove(Example(model, inputs), made.model, carried)
print({"pytest", "_pytest", "xdist", "syrupy"} & {*sys.modules})
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n", result.stderr
