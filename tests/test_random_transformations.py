"""Random pairs of graphs with known owners: `benchmarks/random_transformations.py`."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from benchmarks import random_transformations
from benchmarks.random_transformations import _HEAD, TRANSFORMATIONS, Drawn, Step, drawn, fuse, main, merge, outcome
from pytest_hierexport import carry
from pytest_hierexport._calls.attribution import Evidence, Origin


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_each_transformation_leaves_a_graph_with_owners(transformation: Any) -> None:
    for seed in range(20):
        after = transformation(drawn(Random(seed)), Random(seed))
        onnx.checker.check_model(ir.to_proto(ir.from_onnx_text(f"{_HEAD} {after}")))
        assert all(step.owners for step in after.steps)


def test_a_seed_gives_one_pair() -> None:
    assert outcome(5) == outcome(5) != outcome(6)


def steps(*texts: str) -> Drawn:
    """Return a graph of steps such as `h Neg x a`: a name, the operator, an input, and the owners."""
    parts = (text.split() for text in texts)
    return Drawn(tuple(Step(operator, (taken,), name, frozenset(owners)) for name, operator, taken, owners in parts))


def test_merged_and_fused_steps_have_the_owners_of_both() -> None:
    merged = merge(steps("h Neg x a", "k Neg x b", "y Exp k c"), Random(0))
    assert merged == steps("h Neg x ab", "y Exp h c")
    fused = next(f for i in range(9) if len((f := fuse(steps("h Neg x a", "y Exp h b"), Random(i))).steps) == 1)
    assert fused == steps("y local.NegExp x ab")


def test_wrong_and_missing_owners_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def carry_wrongly(*graphs: Any) -> Any:
        found = carry(*graphs)
        return replace(found, nodes={**found.nodes, "y": (Origin("", Evidence.TRACED),)})

    monkeypatch.setattr(random_transformations, "carry", carry_wrongly)
    assert [("y" in found.wrong, "y" in found.missing) for found in map(outcome, range(3))] == [(True, True)] * 3
    main(["--count", "3", "--list"])
    printed = capsys.readouterr().out
    assert printed.startswith("seed 0: ")
    assert "3 pairs of graphs" in printed
