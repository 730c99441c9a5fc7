"""What rules see and say: `pytest_hierexport._rules.base`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

from pytest_hierexport import Attribution, Hierarchy, Origin, export, rewrite
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._rules import must_007
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, at_most
from pytest_hierexport._rules.messages import broken


def places(count: int) -> list[Violation]:
    return [Violation(f"node {i}", "a tag", "none", "tag it") for i in range(count)]


def test_few_violations_are_all_given() -> None:
    assert list(at_most(places(3), most=3)) == places(3)


def test_first_violations_are_shown_and_the_rest_counted() -> None:
    *first, last = at_most(places(9), most=3)
    assert first == places(3)
    assert last == Violation("and 6 more", "a tag", "the like", "tag it")


def test_message_counts_every_place_and_repeats_no_advice() -> None:
    rule = Rule("OWN-1", "it holds", lambda _: [])
    shared = broken(rule, "net", list(at_most(places(32))))
    assert shared.startswith("OWN-1 it holds: net breaks it in 32 places\n")
    assert shared.count("more") == shared.count("… and 27 more\n") == 1
    each = [replace(place, found=f"value {i}") for i, place in enumerate(places(32))]
    listed = broken(rule, "net", [*at_most(each), replace(each[0], do="another")])
    assert listed.startswith("OWN-1 it holds: net breaks it in 33 places\n")
    assert listed.count("to do") == 1
    assert listed.endswith("  to do     tag it\n\n  … and 23 more places")
    two = broken(rule, "net", [each[0], replace(each[0], do="another")])
    assert two.count("to do") == 2


def test_no_violation_is_none() -> None:
    assert not list(at_most([]))


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(torch.relu(self.layer(x)))
        return result


def test_run_that_the_hierarchy_lacks_is_to_be_listed(tmp_path: Path) -> None:
    model, path = Twice().eval(), tmp_path / "twice.onnx"
    export(model, (torch.rand(2, 3),), path=path)

    def without_second(known: Attribution) -> Attribution:
        nodes = {
            key: tuple(Origin(each.call.removesuffix("@1"), each.evidence) for each in origins)
            for key, origins in known.nodes.items()
        }
        return Attribution(Hierarchy(call for call in known.hierarchy.values() if not call.index), nodes)

    rewrite(path, without_second)
    case = ExportedCase(Case("twice", lambda: None, "tests"), path, Example(model, (torch.rand(2, 3),)))
    advice = {violation.where.split()[1]: violation.do for violation in must_007.check(case)}
    assert "list this run of the module, layer@1, in the hierarchy" in advice["layer@1"]
    assert advice["layer"].startswith("find what moved the value")


class TestRule:
    @staticmethod
    def violations(returned: object) -> list[Violation]:
        case = ExportedCase(Case("any", lambda: None, "tests"), "model.onnx")
        return Rule("OWN-1", "it holds", lambda _: cast("Any", returned)).violations(case)

    @pytest.mark.parametrize("kind", [list, tuple, iter])
    def test_gives_the_violations_that_its_check_returns_or_yields(self, kind: Callable[[object], object]) -> None:
        assert self.violations(kind(places(2))) == places(2)

    @pytest.mark.parametrize(
        ("returned", "found"),
        [
            (None, "None"),
            ("broken", "'broken' (str)"),
            (["broken"], "'broken' (str)"),
            (places(1)[0], "Violation"),
            (True, "True (bool)"),
            ([*places(1), None], "None"),
            ([Violation("here", "a tag", cast("str", 3), "tag it")], "a Violation with found=3 (int)"),
            (
                [Violation("here", "a tag", cast("str", (each for each in "ab")), "tag it")],
                "a Violation with found=<gen",
            ),
        ],
    )
    def test_names_itself_and_what_its_check_returned_instead(self, returned: object, found: str) -> None:
        with pytest.raises(UsageError) as raised:
            self.violations(returned)
        assert raised.value.expected.startswith("the check of OWN-1 ")
        assert raised.value.found.startswith(found)

    def test_shows_the_error_of_a_check_without_a_module(self) -> None:
        def check(_: ExportedCase) -> list[Violation]:
            raise ValueError("no table")

        check.__module__ = cast("str", None)
        with pytest.raises(UsageError, match="no table"):
            Rule("OWN-1", "it holds", check).violations(ExportedCase(Case("any", lambda: None, "tests"), "model.onnx"))


class TestExportedCase:
    def test_builds_the_model_once_and_only_when_asked(self, tmp_path: Path) -> None:
        import torch

        built: list[torch.nn.Module] = []

        def factory() -> torch.nn.Module:
            built.append(torch.nn.Linear(1, 1))
            return built[-1]

        case = Case("linear", lambda: (factory(), (torch.ones(1),)), "tests", randomise=False)
        exported = ExportedCase(case, tmp_path / "model.onnx")
        assert not built
        assert exported.example is exported.example
        assert built == [exported.example.model]

    def test_says_that_a_file_is_no_onnx_file(self, tmp_path: Path) -> None:
        (tmp_path / "model.onnx").write_text("no model", encoding="utf-8")
        exported = ExportedCase(Case("text", lambda: None, "tests"), tmp_path / "model.onnx")
        with pytest.raises(UsageError):
            _ = exported.proto

    def test_says_that_a_file_holds_no_tags(self, tmp_path: Path) -> None:
        import onnx

        graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", [], [])
        onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx")
        exported = ExportedCase(Case("bare", lambda: None, "tests"), tmp_path / "model.onnx")
        with pytest.raises(TagError):
            _ = exported.attribution
        assert exported.node("y") == "y (untagged)"

    def test_exports_again_with_the_exporter_that_served(self, tmp_path: Path) -> None:
        seen: list[tuple[Case, Example, Path]] = []
        case = Case("any", lambda: None, "tests", exporter="auto")
        example = Example(model=None)  # type: ignore[arg-type]  # nothing looks at it here
        exported = ExportedCase(case, "a.onnx", example, "torchscript", exporter=lambda *given: seen.append(given))
        again = exported.export_again(tmp_path / "b.onnx")
        assert seen == [(case, example, tmp_path / "b.onnx")]
        assert (again.path, again.exporter_name, again.case) == (tmp_path / "b.onnx", "torchscript", case)
