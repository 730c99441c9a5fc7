"""Conditions that are switched off one at a time: `benchmarks/conditions.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import replay_case
from benchmarks.conditions import conditions, main, noticing
from pytest_hierexport._carry import aliases
from test_carry import carried

if TYPE_CHECKING:
    import pytest

SOURCE = """
def middle(x):
    if x > 1 and x < 5:
        return [i for i in range(x) if i % 2]
    return (y := x) if (y := x) > 3 else None
"""


def test_each_condition_is_switched_off_alone(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    found: dict[str, Any] = {}
    for condition in conditions(path):
        names: dict[str, Any] = {}
        exec(condition.code, names)  # noqa: S102  # written above
        found[condition.text] = names["middle"](3), names["middle"](7)
    assert found == {
        "x > 1 and x < 5": (None, 7),
        "x > 1": ([1], 7),
        "x < 5": ([1], [1, 3, 5]),
        "i % 2": ([0, 1, 2], 7),
        "(y := x) > 3": ([1], None),
    }


def test_case_notices_a_condition_that_it_needs() -> None:
    def dropped() -> object:
        before = "g (float[2] x) => (float[2] y) { c = Squeeze(x) y = Relu(c) }"
        return carried(before, "g (float[2] x) => (float[2] y) { y = Relu(x) }", c="a", y="b")

    off = {each.text.partition(" and ")[0]: each for each in conditions(Path(aliases.__file__)) if " and " in each.text}
    cases = {"other": (dict, {}), "dropped": (dropped, dropped())}
    assert noticing(off["len(changed) == len(pairs)"], cases, list(cases), 60) == "dropped"
    assert not noticing(off["own"], cases, list(cases), 60)
    assert dropped() == cases["dropped"][1]


def test_proof_of_a_recorded_model_notices_its_conditions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "zoo/sequential"
    replay_case.record(name, replay_case.case_of(name), tmp_path)
    assert main([str(tmp_path), "--room", "proof", "--modules", "both_runs"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("1 cases\n")
    assert "call not in self.calls" in printed  # no call of this model is in a loop
    assert "self._is_among(value, numbers)" not in printed
