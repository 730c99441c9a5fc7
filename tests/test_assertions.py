from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from pytest_hierexport import assertions, export
from pytest_hierexport._errors import NoVerdictError, UsageError
from pytest_hierexport._rules import registry
from pytest_hierexport._rules.base import Rule, Violation
from pytest_hierexport.assertions import assert_every_node_attributed, assert_no_torch_nn_tags, assert_rule


class Halver(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        halved: torch.Tensor = self.linear(x)
        return halved


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "halver.onnx"
    export(Halver().eval(), (torch.ones(1, 4),), path=path)
    return path


def test_every_rule_has_an_assertion_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(assertions, "assert_rule", lambda _, rule: asked.append(rule))
    for name in assertions.__all__:
        if name != "assert_rule":
            getattr(assertions, name)(None)
    assert len(set(asked)) == len(asked)
    assert {rule.id for rule in registry.rules()} <= set(asked)


def test_a_file_that_keeps_a_rule_passes(file: Path) -> None:
    assert_no_torch_nn_tags(file)
    assert_every_node_attributed(str(file))


def test_a_broken_rule_says_where_what_and_what_to_do(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule("MUST-002", "never kept", lambda exported: [Violation(exported.path.name, "this", "that", "fix it")])
    monkeypatch.setattr(registry, "rules", lambda _: [rule])
    with pytest.raises(AssertionError) as error:
        assert_no_torch_nn_tags(file)
    assert str(error.value).splitlines() == [
        "MUST-002 never kept: halver breaks it in 1 place",
        "  where     halver.onnx",
        "  expected  this",
        "  found     that",
        "  to do     fix it",
    ]


def test_rule_without_a_verdict_warns(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_: object) -> list[Violation]:
        raise NoVerdictError("a peer", found="no plain peer", do="nothing")

    monkeypatch.setattr(registry, "rules", lambda _: [Rule("MUST-002", "kept", check)])
    for asserted in (partial(assert_rule, file, "MUST-002"), partial(assert_no_torch_nn_tags, file)):
        with pytest.warns(UserWarning, match="MUST-002 is neither kept nor broken: no plain peer") as warned:
            asserted()
        assert [warning.filename for warning in warned] == [__file__]


def test_rule_that_needs_the_model_refuses_a_file(file: Path) -> None:
    with pytest.raises((AssertionError, UsageError), match=r"the file halver.onnx alone"):
        assert_rule(file, "MUST-005")


def test_an_unknown_rule_is_told_with_the_nearest(file: Path) -> None:
    with pytest.raises(UsageError, match="MUST-00"):
        assert_rule(file, "MUST-02")
