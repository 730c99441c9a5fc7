"""Shards: each runs some models, together they run each once, and `hierexport merge` joins their reports."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from projects import MODEL, Project
from pytest_hierexport._cases import Case
from pytest_hierexport._cases.case import Step
from pytest_hierexport._cases.steps import with_deployed
from pytest_hierexport._errors import UsageError
from pytest_hierexport._pytest import shards
from pytest_hierexport._pytest.shards import Shard, in_shard, parse_shard, read_durations
from pytest_hierexport._report import as_json
from pytest_hierexport._report.results import Model, Part, Results
from pytest_hierexport.cli import main

FACTORIES = "\n".join(f"def {name}():\n    return build()\n" for name in ("one", "two", "three"))
MODELS = "--hierexport-models=my_model.py::one,my_model.py::two,my_model.py::three"
RULE = "--hierexport-rules=MUST-002"


@pytest.fixture
def three(project: Project) -> Project:
    """Give a project with three models."""
    project.write("my_model.py", MODEL + FACTORIES)
    return project


def cases(*names: str) -> list[Case]:
    return [Case(name, lambda: None, name) for name in names]


def names(shard: str, seconds: dict[str, float], selected: list[Case]) -> list[str]:
    return [case.name for case in in_shard(selected, parse_shard(shard), seconds)]


def test_shards_are_even_by_duration_and_disjoint() -> None:
    selected = cases("a", "b", "c", "d")
    seconds = {"a": 10.0, "b": 10.0, "c": 10.0, "d": 30.0}
    assert names("1/2", seconds, selected) == ["d"]
    assert names("2/2", seconds, selected) == ["a", "b", "c"]


def test_models_without_a_duration_count_as_the_mean() -> None:
    selected = cases("a", "b", "c", "new")
    assert names("1/2", {"a": 9.0, "b": 3.0, "c": 3.0}, selected) == ["a"]
    assert names("2/2", {"a": 9.0, "b": 3.0, "c": 3.0}, selected) == ["b", "c", "new"]
    assert names("2/2", {}, selected) == ["b", "new"]


def test_results_of_steps_stay_with_their_model() -> None:
    base, other = cases("a", "b")
    selected = [*with_deployed(Case("a", base.factory, "a", after=(Step("onnxruntime:all"),))), other]
    assert names("1/2", {}, selected) == ["a", "a@onnxruntime:all"]


@pytest.mark.parametrize(
    ("environment", "text", "expected"),
    [
        ({"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "8"}, "auto", Shard(2, 8)),
        ({"CIRCLE_NODE_INDEX": "0", "CIRCLE_NODE_TOTAL": "3"}, "auto", Shard(1, 3)),
        ({"JOB_COMPLETION_INDEX": "4"}, "auto/5", Shard(5, 5)),
        (
            {"SLURM_ARRAY_TASK_ID": "12", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "10"},
            "auto",
            Shard(3, 4),
        ),
    ],
)
def test_auto_reads_the_environment_of_ci_systems(
    environment: dict[str, str], text: str, expected: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert parse_shard(text) == expected


@pytest.mark.parametrize(
    ("environment", "found", "do"),
    [
        ({}, "none of CI_NODE_INDEX", "write both: 2/8"),
        ({"JOB_COMPLETION_INDEX": "1"}, "JOB_COMPLETION_INDEX=1 without a count", "write the count: auto/8"),
        ({"CI_NODE_INDEX": "4", "CI_NODE_TOTAL": "3"}, "4/3", "write a number from 1 to the count"),
    ],
)
def test_missing_number_is_told(
    environment: dict[str, str], found: str, do: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        parse_shard("auto")
    assert caught.value.found.startswith(found)
    assert caught.value.do == do


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "auto", "auto/3"])
def test_wrong_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="INDEX/COUNT"):
        parse_shard(text)


def test_shards_report_every_model_once(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for shard in (1, 2):
        options = (f"--hierexport-shard={shard}/2", f"--hierexport-report=r{shard}.json", RULE)
        result = three.run(MODELS, *options, "--snapshot-update")
        result.assert_outcomes(passed=4 * (3 - shard))
    assert len(list((three.path / "__hierexport__").glob("*.txt"))) == 3
    monkeypatch.chdir(three.path)
    assert main(["merge", "r2.json", "r1.json", "-o", "all.json", "-o", "all.html", "-o", "all.ctrf.json"]) == 0
    merged = json.loads((three.path / "all.json").read_text())
    assert [model["name"] for model in merged["models"]] == ["one", "two", "three"]
    assert merged["verdicts"]["passed"] == 12
    assert merged["shard"] is None
    assert [model["modules"][0]["path"] for model in merged["models"]] == ["", "", ""]
    page = (three.path / "all.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert all(len(model["tree"]["parent"]) > 1 for model in data["models"])


def test_deselected_models_of_a_shard_are_not_missing(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for shard in (1, 2):
        options = (f"--hierexport-shard={shard}/2", f"--hierexport-report=r{shard}.json", RULE)
        three.run(MODELS, *options, "-k", "MUST-002 and not two")
    monkeypatch.chdir(three.path)
    assert main(["merge", "r1.json", "r2.json", "-o", "all.json"]) == 0
    merged = json.loads((three.path / "all.json").read_text())
    assert ([model["name"] for model in merged["models"]], merged["deselected"]) == (["one", "three"], ["two"])


def test_missing_shard_and_its_models_are_named(
    three: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    three.run(MODELS, "--hierexport-shard=1/2", "--hierexport-report=r1.json", RULE, "-k", "MUST-002")
    monkeypatch.chdir(three.path)
    assert main(["merge", "r1.json", "-o", "all.md", "-o", "all.json"]) == 1
    lacking = "shards without a report: 2/2\nmodels that no shard reported: three"
    assert lacking in capsys.readouterr().out
    assert "shards without a report: 2/2" in (three.path / "all.md").read_text()
    assert main(["merge", "r1.json", "r1.json", "-o", "all.md"]) == 4
    assert "two reports of shard 1/2: r1.json, r1.json" in capsys.readouterr().err
    assert main(["merge", "r1.json", "all.json", "-o", "all.md"]) == 4
    assert "a whole run or a merged one: all.json\nto do: leave it out\n" in capsys.readouterr().err


def test_interrupted_shard_does_not_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = Results((), (Model("net", "net", ".", "my_model.py"),), part=Part(1, 1, ("net",)))
    for interrupted in (False, True):
        (tmp_path / "r.json").write_text(as_json(replace(whole, interrupted=interrupted)))
        assert main(["merge", str(tmp_path / "r.json"), "-o", str(tmp_path / "all.md")]) == int(interrupted)
    assert "interrupted: checks that did not run have no verdict" in capsys.readouterr().out


def test_merged_report_has_the_versions_of_all_shards(tmp_path: Path) -> None:
    for i, version in ((1, "2.12.0"), (2, "2.13.0")):
        shard = Results((), (Model(str(i), "", ".", ""),), versions={"torch": version}, part=Part(i, 2, ("1", "2")))
        (tmp_path / f"r{i}.json").write_text(as_json(shard))
    for order in ("12", "21"):
        reports = [str(tmp_path / f"r{i}.json") for i in order]
        assert main(["merge", *reports, "-o", str(tmp_path / "all.json")]) == 0
        assert json.loads((tmp_path / "all.json").read_text())["versions"] == {"torch": "2.12.0, 2.13.0"}


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}', "{" * 9999])
def test_damaged_report_is_a_usage_error(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text(content)
    report, out = str(tmp_path / "r.json"), tmp_path / "all.json"
    assert main(["merge", report, "-o", str(out)]) == 4
    assert main(["compare", report, report]) == 4
    assert "to be a report of a run" in capsys.readouterr().err
    assert not out.exists()


def test_shard_without_models_passes_and_reports(three: Project) -> None:
    options = ("--hierexport-shard=4/4", "--hierexport-report=r4.json", "-m", "hierexport")
    result = three.run(MODELS, *options, RULE)
    assert result.ret == 0
    assert json.loads((three.path / "r4.json").read_text())["models"] == []


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_shard_of_deselected_models_reports(
    three: Project, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    options = ("--hierexport-shard=1/3", "--hierexport-report=r1.json", RULE, *workers)
    assert three.run(MODELS, *options, "-k", "two").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert json.loads((three.path / "r1.json").read_text())["deselected"] == ["one"]
    monkeypatch.chdir(three.path)
    whole = json.loads((three.path / "r1.json").read_text())
    whole["shard"] = {"index": 1, "count": 1, "selected": ["one"]}
    (three.path / "r.json").write_text(json.dumps(whole))
    assert main(["merge", "r.json", "-o", "all.md"]) == 1


def test_shard_without_models_passes_where_the_manifest_is_named(three: Project) -> None:
    three.write("models.toml", "".join(f'[models.{name}]\nmodel = "my_model.py::{name}"\n' for name in ("one", "two")))
    options = "--hierexport-models=models.toml", "--hierexport-report=r3.json", RULE
    assert three.run("models.toml", *options, "--hierexport-shard=3/3").ret == 0
    assert json.loads((three.path / "r3.json").read_text())["models"] == []
    assert three.run("models.toml", *options, "--hierexport-shard=2/3").ret == 0
    assert [model["name"] for model in json.loads((three.path / "r3.json").read_text())["models"]] == ["two"]


def test_snapshot_of_another_shard_is_no_former_one(three: Project) -> None:
    assert three.run(MODELS, "--snapshot-update", "-k", "snapshot").ret == 0
    (three.path / "__hierexport__" / "one.txt").unlink()
    shard = "--hierexport-shard=1/3", "-k", "snapshot"
    result = three.run(MODELS, *shard)
    result.stdout.fnmatch_lines(["one has no snapshot", "*found *no such file"])
    (three.path / "__hierexport__" / "two.txt").rename(three.path / "__hierexport__" / "former.txt")
    three.run(MODELS, *shard).stdout.fnmatch_lines(["*no such file, but *former.txt of no selected model, *"])


def test_update_in_a_shard_removes_no_snapshot(three: Project) -> None:
    three.write("pytest.ini", f"[pytest]\nhierexport_models = {MODELS.partition('=')[2]}\n")
    three.run(RULE, "--snapshot-update")
    three.write("pytest.ini", "[pytest]\nhierexport_models = my_model.py::one,my_model.py::two\n")
    three.run(RULE, "--snapshot-update", "--hierexport-shard=1/2")
    assert (three.path / "__hierexport__" / "three.txt").exists()
    three.run(RULE, "--snapshot-update")
    assert not (three.path / "__hierexport__" / "three.txt").exists()


def test_durations_are_stored_beside_those_of_other_tests(three: Project) -> None:
    three.write(".test_durations", '{"test_other.py::test_it": 3.0, "my_model.py::gone::test_snapshot": 1}')
    three.run(MODELS, RULE, "-k", "MUST-002", "--hierexport-store-durations", "-n", "2")
    stored = json.loads((three.path / ".test_durations").read_text())
    assert stored["test_other.py::test_it"] == 3.0
    assert stored["my_model.py::one::test_must[MUST-002]"] > 0
    stored = {name: 100.0 if "::two::" in name else 1.0 for name in stored}
    three.write(".test_durations", json.dumps(stored))
    result = three.run(MODELS, RULE, "-k", "MUST-002", "--hierexport-shard=1/2")
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["two *"])


@pytest.mark.skipif(os.name != "posix", reason="only POSIX locks folders")
def test_durations_of_sessions_at_once_are_all_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_slowly(path: Path) -> dict[str, float]:
        read = read_durations(path)
        time.sleep(0.2)
        return read

    monkeypatch.setattr(shards, "read_durations", read_slowly)
    path = tmp_path / "durations"
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: shards.store_durations(path, {name: 1.0}), ("one", "two", "three")))
    assert read_durations(path) == {"one": 1.0, "two": 1.0, "three": 1.0}


def test_durations_that_cannot_be_written_are_named_by_their_file(three: Project) -> None:
    options = ("--hierexport-store-durations", "--hierexport-durations=gone/d.json")
    result = three.run("--hierexport-models=my_model.py::one", "-k", "MUST-002", *options)
    result.stdout.fnmatch_lines(["*durations were not written: */gone/d.json: No such file or directory"])
    assert result.ret == 0


def test_file_of_something_else_is_no_durations(three: Project) -> None:
    three.write(".test_durations", '["two"]')
    result = three.run(MODELS, "--hierexport-shard=1/2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*.test_durations to hold durations*"])
