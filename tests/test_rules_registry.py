"""Which rules there are and run: `pytest_hierexport._rules.registry`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_hierexport._errors import UsageError
from pytest_hierexport._rules.base import Rule
from pytest_hierexport._rules.registry import BUILT_IN, rules

OWN = Rule("TEAM-1", "no node is called x", lambda exported: [])
CARDINAL = ["MUST-001", "MUST-002", "MUST-003"]


def ids(selected: list[Rule]) -> list[str]:
    return [rule.id for rule in selected]


def test_all_rules_run_in_order_the_projects_own_last() -> None:
    assert ids(rules(extra=[OWN])) == [*(rule.id for rule in BUILT_IN), "TEAM-1"]
    assert ids(list(BUILT_IN)) == sorted(ids(list(BUILT_IN)))


def test_the_first_three_are_cardinal() -> None:
    assert [rule.id for rule in BUILT_IN if rule.cardinal] == CARDINAL


def test_a_selection_cannot_leave_the_cardinal_ones_out() -> None:
    assert ids(rules(["MUST-004"])) == [*CARDINAL, "MUST-004"]
    assert ids(rules(["TEAM-1"], extra=[OWN])) == [*CARDINAL, "TEAM-1"]


def test_an_unknown_id_is_refused_with_the_nearest_ones() -> None:
    with pytest.raises(UsageError, match=r"found 'MUST-04'\n.*MUST-004"):
        rules(["MUST-04"])


def test_all_unknown_ids_are_told_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        rules(["MUST-098", "MUST-004", "team1"], extra=[OWN])
    assert raised.value.found == "'MUST-098', 'team1'"
    assert "for MUST-098 perhaps MUST-009, MUST-008 or" in raised.value.do
    assert "for team1 perhaps TEAM-1" in raised.value.do


def test_proposal_that_all_unknown_ids_share_is_told_once() -> None:
    with pytest.raises(UsageError) as raised:
        rules(["x", "y"])
    assert raised.value.do.count("choose from") == 1


def test_two_rules_of_one_id_are_refused() -> None:
    with pytest.raises(UsageError, match="one rule of the id MUST-002"):
        rules(extra=[Rule("MUST-002", "something else", lambda exported: [])])


def test_ids_and_promises_are_read_without_torch_or_onnx() -> None:
    program = """
import sys
from pytest_hierexport._rules.registry import BUILT_IN
assert all(rule.promise for rule in BUILT_IN)
assert not {"torch", "onnx", "onnx_ir", "onnxruntime", "transformers", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
