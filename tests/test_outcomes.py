"""The benchmarks that ask many models what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.libraries import build
from benchmarks.outcomes import Population

if TYPE_CHECKING:
    import pytest


def test_unknown_model_that_was_asked_for_fails(capsys: pytest.CaptureFixture[str]) -> None:
    population = Population("benchmarks.libraries", list, build)
    assert population.main([]) == 0
    assert population.main(["--only", "NoSuchModel"]) == 1
    assert "NoSuchModel" in capsys.readouterr().out
