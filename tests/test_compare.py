"""`hierexport compare`: what differs between two reports, and whether the second is worse."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_hierexport._report import as_json
from pytest_hierexport._report.comparing import ModelChange, compare
from pytest_hierexport._report.results import Check, Model, Part, Results, RuleText, Status
from pytest_hierexport.cli import main
from schemas import strict_schema

TREE = "/Net\n/Net/Block.{0..1} ×2: Add 1, Gelu 1\n"
MODEL = Model(
    "net",
    "my_model.py::net",
    ".",
    "my_model.py",
    checks={"MUST-002": Check(Status.PASSED, seconds=1.0), "MUST-007": Check(Status.FAILED, "unproven", 2.0)},
    exporter="dynamo",
    coverage={"traced": 4},
    hierarchy=TREE,
)
BEFORE = Results(
    (RuleText("MUST-002", "no torch.nn"), RuleText("MUST-007", "proven")),
    (MODEL, replace(MODEL, name="other")),
    versions={"torch": "2.12.0", "onnx": "1.23"},
)


def compared(tmp_path: Path, after: Results, *options: str) -> int:
    for name, results in (("a.json", BEFORE), ("b.json", after)):
        (tmp_path / name).write_text(as_json(results))
    return main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), *options])


def test_equal_reports_are_not_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(tmp_path, BEFORE, "--strict") == 0
    assert capsys.readouterr().out == ("checks took 6.0 s -> 6.0 s\nmodels: 0 different, 2 equal\nnot worse\n")


def test_slower_export_shows_though_no_check_holds_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = ({"exporting": 2.0, "comparing the snapshot": 0.01}, {"exporting": 7.5, "importing torch": 3.0})
    before, after = (replace(BEFORE, models=(replace(MODEL, stages=each), BEFORE.models[1])) for each in stages)
    (tmp_path / "a.json").write_text(as_json(before))
    (tmp_path / "b.json").write_text(as_json(after))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--strict"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "  exporting: 2.0 s -> 7.5 s",
        "  importing torch: 0.0 s -> 3.0 s",
    ]


def test_new_failure_is_worse_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checks = {"MUST-002": Check(Status.FAILED, "a Linear"), "MUST-007": Check(Status.PASSED)}
    changed = replace(
        MODEL, checks=checks, exporter="torchscript", coverage={"traced": 6}, hierarchy=TREE.replace("Gelu 1", "Erf 2")
    )
    after = replace(BEFORE, models=(changed, BEFORE.models[1]), versions={"torch": "2.13.0", "onnx": "1.23"})
    assert compared(tmp_path, after) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[:6] == [
        "torch: 2.12.0 -> 2.13.0",
        "net",
        "  newly fails: MUST-002",
        "  holds now: MUST-007",
        "  exporter: dynamo -> torchscript",
        "  nodes: 4 -> 6",
    ]
    assert "Erf" in out
    assert out.endswith("models: 1 different, 1 equal\nworse: 1 newly failing or unchecked, 0 gone\n")


def test_model_that_is_not_exported_has_no_gone_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = replace(
        MODEL, checks=dict.fromkeys(MODEL.checks, Check(Status.FAILED)), exporter="", coverage={}, hierarchy=""
    )
    assert compared(tmp_path, replace(BEFORE, models=(failed, BEFORE.models[1]))) == 1
    told = capsys.readouterr().out.partition("checks took")[0].splitlines()
    assert told == ["net", "  newly fails: MUST-002", "  exporter: dynamo -> not exported"]


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_other_snapshot_fails_only_when_strict(tmp_path: Path, options: tuple[str, ...], code: int) -> None:
    after = replace(BEFORE, models=(replace(MODEL, hierarchy="/Net: Add 2\n"), BEFORE.models[1]))
    assert compared(tmp_path, after, *options) == code


def test_missing_model_or_check_is_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(tmp_path, replace(BEFORE, models=BEFORE.models[:1])) == 1
    assert "other: gone" in capsys.readouterr().out
    unchecked = replace(MODEL, checks={"MUST-007": MODEL.checks["MUST-007"]})
    assert compared(tmp_path, replace(BEFORE, models=(unchecked, BEFORE.models[1])), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, strict_schema("compare"))
    assert found["worse"]
    assert found["changes"][0]["not_checked"] == ["MUST-002"]


@pytest.mark.parametrize(("status", "code"), [(Status.FAILED, 1), (Status.KNOWN, 0)])
def test_new_model_or_check_that_fails_is_worse(
    status: Status, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    added = replace(MODEL, name="added", checks={"MUST-007": Check(status)})
    assert compared(tmp_path, replace(BEFORE, models=(*BEFORE.models, added))) == code
    out = capsys.readouterr().out
    assert "added: new\n" in out
    assert ("added\n  newly fails: MUST-007\n" in out) is bool(code)
    checked = replace(MODEL, checks={**MODEL.checks, "MUST-004": Check(status)})
    rules = (*BEFORE.rules, RuleText("MUST-004", "valid"))
    assert compared(tmp_path, replace(BEFORE, rules=rules, models=(checked, BEFORE.models[1]))) == code


def test_known_failure_is_told_and_does_not_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = replace(MODEL, checks=dict.fromkeys(MODEL.checks, Check(Status.KNOWN)))
    after = replace(BEFORE, models=(known, BEFORE.models[1]))
    assert compared(tmp_path, after) == 0
    assert capsys.readouterr().out.startswith("net\n  known to fail now: MUST-002, MUST-007\nchecks took")
    assert compared(tmp_path, after, "--json", "--strict") == 1
    jsonschema.validate(json.loads(capsys.readouterr().out), strict_schema("compare"))


def test_known_failure_that_is_over_is_told() -> None:
    known, held = (replace(MODEL, checks={"MUST-007": Check(status)}) for status in (Status.KNOWN, Status.PASSED))
    found = compare(*(replace(BEFORE, models=(model,)) for model in (known, held)))
    assert found.changes == (ModelChange("net", fixed=("MUST-007",)),)


def test_deselected_model_is_not_gone_but_unchecked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    after = replace(BEFORE, models=(MODEL,), deselected=("other",))
    assert compared(tmp_path, after) == 1
    out = capsys.readouterr().out
    assert "other\n  no longer checked: MUST-002\n" in out
    assert "other: gone" not in out
    assert compared(tmp_path, BEFORE) == 0


@pytest.mark.parametrize("lacking", [{"unreported": ("other",)}, {"part": Part(1, 2, ("net", "other"))}])
def test_model_that_no_shard_reported_is_not_gone(lacking: dict[str, Any]) -> None:
    part = replace(BEFORE, models=BEFORE.models[:1], **lacking)
    found = compare(BEFORE, part)
    assert (found.gone, found.changes) == ((), (ModelChange("other", not_checked=("MUST-002",)),))
    assert compare(part, BEFORE).new == ()


def test_deselected_model_without_held_checks_is_no_difference() -> None:
    failed = replace(MODEL, name="other", checks={"MUST-002": Check(Status.FAILED)})
    found = compare(replace(BEFORE, models=(MODEL, failed)), replace(BEFORE, models=(MODEL,), deselected=("other",)))
    assert (found.differs, found.gone) == (False, ())


def test_name_with_control_characters_is_shown_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared(tmp_path, replace(BEFORE, models=(*BEFORE.models, replace(MODEL, name="\x1b[31m"))))
    assert "\\x1b[31m: new" in capsys.readouterr().out
