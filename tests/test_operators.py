"""Which operators are functions of their inputs, whichever version of onnx describes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from pytest_hierexport._onnx import operators
from pytest_hierexport._onnx.operators import is_deterministic


@pytest.fixture
def older_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give schemas as onnx 1.18 and 1.19 do: they do not say whether an operator is deterministic."""
    found = operators.definition

    def definition(*asked: Any) -> Any:
        schema = found(*asked)
        return schema and SimpleNamespace(attributes=schema.attributes)

    monkeypatch.setattr(operators, "definition", definition)


@pytest.fixture(autouse=True)
def _forgetting() -> None:
    is_deterministic.cache_clear()


def by_name() -> dict[str, bool]:
    newest = onnx.defs.onnx_opset_version()
    return {
        name: is_deterministic(name, newest, "") for name in ("Add", "Dropout", "If", "Multinomial", "RandomNormal")
    }


EXPECTED = {"Add": True, "Dropout": False, "If": False, "Multinomial": False, "RandomNormal": False}


def test_random_operators_and_holders_of_graphs_are_not_deterministic() -> None:
    assert by_name() == EXPECTED


@pytest.mark.usefixtures("older_onnx")
def test_schemas_without_determinism_are_judged_by_their_attributes() -> None:
    assert by_name() == EXPECTED


def test_an_operator_that_onnx_does_not_define_is_deterministic() -> None:
    assert is_deterministic("NoSuchOperator", 1, "no.such.domain")
