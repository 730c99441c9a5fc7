"""The plugin from a user's side: an empty folder with a model in it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from projects import OWN_RULE, Project
from pytest_hierexport._rules import registry

MODELS = "--hierexport-models=my_model.py::build"
RULES = [rule.id for rule in registry.rules()]


def ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::test_" in line]


def test_a_single_file_and_no_configuration_are_enough(project: Project) -> None:
    result = project.run(MODELS, "-v")
    assert result.ret == 0
    for rule in RULES:
        result.stdout.fnmatch_lines([f"my_model.py::build::test_must[[]{rule}[]] PASSED*"])
    result.stdout.fnmatch_lines(["my_model.py::build::test_snapshot SKIPPED*"])
    result.stdout.fnmatch_lines(["model *exporter *nodes *MUST-001 *002 *snapshot", "build *pass *pass *pass *skip"])


def test_command_of_the_skip_writes_the_snapshot(project: Project) -> None:
    result = project.run(MODELS, "-k", "snapshot", "-rs")
    command = f"pytest {MODELS} -m hierexport --snapshot-update"
    result.stdout.fnmatch_lines([f"SKIPPED*there are no snapshots yet; to make them: {command}"])
    assert project.run(*command.split()[1:]).ret == 0
    snapshot = project.path / "__hierexport__" / "build.txt"
    assert snapshot.read_text() == "/Tower\n/Tower/Block.{0..2} ×3: Gemm 1, Relu 1\n"
    result = project.run(MODELS, "-k", "snapshot")
    result.assert_outcomes(passed=1, deselected=result.parseoutcomes()["deselected"])


def test_two_workers_share_one_export_of_each_model(project: Project) -> None:
    model = project.path / "my_model.py"
    model.write_text(model.read_text() + "\ndef other():\n    return build()\n")
    result = project.process(f"{MODELS},my_model.py::other", "-n", "2", "-k", "MUST-002 or snapshot")
    assert result.ret == 0
    assert project.builds == 2
    result.stdout.fnmatch_lines(["build *dynamo *pass *skip", "other *dynamo *pass *skip"])


def test_collecting_lists_the_items_and_builds_nothing(project: Project) -> None:
    result = project.run(MODELS, "--co", "-q")
    assert result.ret == 0
    listed = ids(result)
    assert listed[0] == "my_model.py::build::test_snapshot"
    assert sorted(listed[1:]) == [f"my_model.py::build::test_must[{rule}]" for rule in RULES]
    assert project.builds == 0


def test_collecting_succeeds_with_snapshots_that_syrupy_would_call_unused(project: Project) -> None:
    project.write("test_own.py", "def test_it(snapshot): assert snapshot == 1")
    project.run(MODELS, "--snapshot-update", "-k", "snapshot or test_it")
    result = project.run(MODELS, "--co", "-q")
    assert result.ret == 0
    assert "1 snapshot unused" not in result.stdout.str()


def test_names_of_folders_above_a_model_are_no_keywords(project: Project) -> None:
    for keyword in (project.pytester.path.name, "models"):
        result = project.run("--hierexport-models=bert,vit", "--co", "-q", "-k", keyword)
        result.stdout.fnmatch_lines(["no tests collected (* deselected)*"])
    result = project.run("--hierexport-models=bert,vit", "--co", "-q", "-k", "vit and snapshot")
    result.stdout.fnmatch_lines([".::vit::test_snapshot"])


def test_keyword_picks_items_and_summary_lists_rules_not_run(project: Project) -> None:
    result = project.run(MODELS, "-k", "MUST-002")
    assert result.parseoutcomes()["passed"] == 1
    result.stdout.fnmatch_lines(["cardinal rules not run: *MUST-003 on build"])


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_models_without_a_selected_test_are_counted_only(project: Project, workers: str) -> None:
    models = "--hierexport-models=a=my_model.py::build,b=my_model.py::build,c=my_model.py::build"
    result = project.run(models, "-k", "b and MUST-002", workers, "--hierexport-report=report.json")
    rows = [line.split()[0] for line in result.outlines if " dynamo " in line or " -  " in line]
    assert rows == ["b"]
    result.stdout.fnmatch_lines(["2 models deselected: a, c"])
    report = json.loads((project.path / "report.json").read_text())
    assert ([model["name"] for model in report["models"]], report["deselected"]) == (["b"], ["a", "c"])


def test_models_after_an_early_stop_keep_their_rows(project: Project) -> None:
    project.write("my_model.py", "def build():\n    raise ValueError\n")
    result = project.run("--hierexport-models=a=my_model.py::build,b=my_model.py::build", "-x", "-k", "MUST-002")
    assert [line.split()[0] for line in result.outlines if line.startswith(("a  ", "b  "))] == ["a", "b"]
    assert not any("deselected:" in line for line in result.outlines)


def test_a_marker_picks_the_models_or_leaves_them_out(project: Project) -> None:
    project.write("test_own.py", "def test_it(): pass")
    only = project.run(MODELS, "-m", "hierexport", "--co", "-q", "--strict-markers")
    assert not any("test_own" in line for line in ids(only))
    rest = project.run(MODELS, "-m", "not hierexport")
    rest.assert_outcomes(passed=1, deselected=rest.parseoutcomes()["deselected"])
    assert "model " not in rest.stdout.str()


def test_an_id_runs_that_item_alone(project: Project) -> None:
    project.write("test_own.py", "def test_it(): assert False")
    result = project.run(MODELS, "my_model.py::build::test_must[MUST-002]")
    result.assert_outcomes(passed=1)


def test_last_failed_runs_what_failed(project: Project) -> None:
    project.write("test_own.py", "def test_it(): assert False\ndef test_other(): pass")
    (project.path / "__hierexport__").mkdir()
    first = project.run(MODELS, "-k", "MUST-002 or snapshot or test_own")
    first.assert_outcomes(passed=2, failed=2, deselected=first.parseoutcomes()["deselected"])
    again = project.run(MODELS, "--lf", "-v")
    assert [line.split()[0] for line in ids(again) if "FAILED" in line and "%" in line] == [
        "my_model.py::build::test_snapshot",
        "test_own.py::test_it",
    ]
    assert again.parseoutcomes()["failed"] == 2
    assert "passed" not in again.parseoutcomes()


def test_another_working_directory_gives_the_same_items(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project.write("pytest.ini", "[pytest]\n")
    project.write("below/empty.txt", "")
    monkeypatch.chdir(project.path / "below")
    result = project.run("--hierexport-models=../my_model.py::build", "--co", "-q")
    assert ids(result)[0] == "pytest.ini::build::test_snapshot"
    monkeypatch.chdir(tmp_path_factory.mktemp("far"))
    models, root = f"--hierexport-models={project.path}/my_model.py::build", f"--rootdir={project.path}"
    result = project.run(models, root, "-c", f"{project.path}/pytest.ini", "-k", "MUST-002 or snapshot")
    assert result.parseoutcomes()["passed"] == 1
    (command,) = {line.split(": ", 1)[1] for line in result.outlines if "to make them" in line}
    assert project.run(*command.split()[1:]).ret == 0
    assert (project.path / "__hierexport__" / "build.txt").exists()


def test_zoo_model_without_any_file_is_named_by_the_folder(project: Project) -> None:
    (project.path / "my_model.py").unlink()
    result = project.run("--hierexport-models=sequential,nested", "--co", "-q")
    assert ids(result)[0] == ".::sequential::test_snapshot"
    result = project.run("--hierexport-models=sequential,nested", ".::sequential::test_must[MUST-002]", "-v")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("folder", [".hidden", "build", "plain"])
def test_anchor_in_a_folder_that_pytest_ignores_is_collected(project: Project, folder: str) -> None:
    project.write(f"{folder}/models.toml", "[models.tower]\nmodel = '../my_model.py::build'\n")
    project.write("pytest.ini", f"[pytest]\nhierexport_models = {folder}/models.toml\n")
    item = f"{folder}/models.toml::tower::test_must[MUST-002]"
    assert item in ids(project.run("--co", "-q"))
    project.run(item).assert_outcomes(passed=1)
    manifest = f"{folder}/models.toml"
    assert item in ids(project.run("--co", "-q", manifest, f"--hierexport-models={manifest}"))


def test_model_whose_tests_are_not_collected_is_a_usage_error(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.hookimpl(wrapper=True)
        def pytest_collect_file(file_path, parent):
            collectors = yield
            return [] if file_path.name == "my_model.py" else collectors
        """,
    )
    result = project.run(MODELS, ".")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*expected tests of build; found none*"])


def test_naming_an_item_runs_no_other_model(project: Project) -> None:
    project.write("models.toml", "[models.tower]\nmodel = 'my_model.py::build'\n")
    models = "--hierexport-models=models.toml,my_model.py::build"
    for item in ("models.toml::tower::test_must[MUST-002]", "my_model.py::build::test_must[MUST-002]"):
        assert ids(project.run(models, item, "--co", "-q")) == [item]


def test_names_that_would_break_an_id_are_escaped_in_it(project: Project) -> None:
    (project.path / "models.toml").write_text('[models."a::b/c[d]"]\nmodel = "my_model.py::build"\n')
    listed = ids(project.run("--hierexport-models=models.toml", "--co", "-q"))
    item = "models.toml::a%3A%3Ab%2Fc%5Bd%5D::test_must[MUST-002]"
    assert item in listed
    project.run("--hierexport-models=models.toml", item).assert_outcomes(passed=1)


def test_factory_file_is_no_test_module_unless_it_is_named(project: Project) -> None:
    model = project.path / "my_model.py"
    model.write_text(model.read_text() + "\ndef test_of_the_file(): pass\n")
    (project.path / "elsewhere").mkdir()
    unnamed = project.run(MODELS, "elsewhere", "--co", "-q", "--rootdir=.")
    assert not any("test_of_the_file" in line for line in ids(unnamed))
    named = project.run(MODELS, "my_model.py", "--co", "-q")
    assert any("test_of_the_file" in line for line in ids(named))
    (project.path / "pytest.ini").write_text("[pytest]\npython_files = my_*.py\n")
    matched = project.run(MODELS, "--co", "-q")
    assert any("test_of_the_file" in line for line in ids(matched))


def test_a_project_that_names_its_tests_otherwise_still_gets_ours(project: Project) -> None:
    (project.path / "pytest.ini").write_text("[pytest]\npython_functions = check_*\npython_classes = Check*\n")
    assert len(ids(project.run(MODELS, "--co", "-q"))) == len(RULES) + 1


def test_conftest_fixtures_go_before_ours(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture
        def hierexport_case():
            return "theirs"

        @pytest.fixture(autouse=True)
        def around(request):
            print("around", request.node.name)
            yield
        """,
    )
    project.write("test_own.py", "def test_it(hierexport_case): assert hierexport_case == 'theirs'")
    result = project.run(MODELS, "-k", "MUST-002 or test_it", "-s")
    assert result.parseoutcomes()["passed"] == 2
    result.stdout.fnmatch_lines(["*around test_must[[]MUST-002[]]*"])


def test_misspelled_model_of_the_stated_manifest_is_proposed(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_models = own/models.toml\n")
    project.write("own/models.toml", "[models.spotter]\nmodel = '../my_model.py::build'\n")
    project.run("--hierexport-models=spoter").stderr.fnmatch_lines(["*perhaps own/models.toml::spotter*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hierexport-models=brt"], "*perhaps bert*"),
        (["--hierexport-models="], "*an empty selection*"),
        (["--hierexport-models=no.py::build"], "*found no no.py*"),
        (["--hierexport-models=my_model.py::biuld"], "*perhaps build*"),
        (["--hierexport-models=bad.toml"], "*bad.toml to be TOML*"),
        (["--hierexport-models=a/m.py::build,b/m.py::build"], "*two models named build*"),
        ([MODELS, "--hierexport-rules=MUST-999"], "*MUST-999*"),
        ([MODELS, "--hierexport-report=report.txt"], "*.html or .json*"),
        ([MODELS, "--hierexport-report=my_model.py/report.html"], "*to be written*"),
        ([MODELS, "--hierexport-cache=my_model.py"], "*a folder for the cache*"),
        ([MODELS, "--hierexport-summary=."], "*to be written*"),
        ([MODELS, "--hierexport-opset=999"], "*an opset from 7 to *"),
        ([MODELS, "--hierexport-opset=new"], "*expected an opset as a whole number*"),
    ],
)
def test_wrong_option_is_a_usage_error_without_traceback(project: Project, arguments: list[str], message: str) -> None:
    for folder in "ab":
        (project.path / folder).mkdir()
        (project.path / folder / "m.py").write_text("def build(): ...\n")
    (project.path / "bad.toml").write_text("[models")
    before = sorted(project.path.rglob("*"))
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "Traceback" not in result.stderr.str()
    assert sorted(project.path.rglob("*")) == before


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("raise RuntimeError('no such weights')", "*RuntimeError: no such weights (my_model.py, line *"),
        ("return 3", "*found *a int*"),
        ("return Tower(), (torch.ones(2, 5),)", "*could not be exported*"),
        ("return no_such_name", "*NameError*"),
    ],
    ids=["raises", "no model", "its forward fails", "its code is wrong"],
)
def test_failing_export_fails_every_item_without_traceback(project: Project, body: str, found: str) -> None:
    model = project.path / "my_model.py"
    model.write_text(model.read_text() + f"\ndef broken():\n    {body}\n")
    result = project.run("--hierexport-models=my_model.py::broken", "-k", "MUST-002 or snapshot")
    assert result.parseoutcomes() == {"failed": 1, "unchecked": 1, "deselected": 9}
    result.stdout.fnmatch_lines([found])
    result.stdout.fnmatch_lines(["*to do *", "*repeat *pytest --hierexport-models=my_model.py::broken *"])
    assert "Traceback" not in result.stdout.str()


def test_ini_models_run_only_if_no_path_is_named(project: Project) -> None:
    (project.path / "pytest.ini").write_text("[pytest]\nhierexport_models = my_model.py::build\n")
    (project.path / "tests").mkdir()
    (project.path / "tests" / "test_own.py").write_text("def test_it(): pass\n")
    assert "pytest.ini::build::test_snapshot" in ids(project.run("--co", "-q"))
    assert ids(project.run("tests", "--co", "-q")) == ["tests/test_own.py::test_it"]
    assert len(ids(project.run("tests", MODELS, "--co", "-q"))) > 2
    named = project.run("pytest.ini::build::test_must[MUST-002]", "--co", "-q")
    assert ids(named) == ["pytest.ini::build::test_must[MUST-002]"]


@pytest.mark.parametrize(
    ("file", "command"), [("pytest.ini", "pytest ../pytest.ini"), ("conftest.py", "pytest without paths")]
)
def test_header_tells_that_named_paths_leave_models_out(project: Project, file: str, command: str) -> None:
    stated = {
        "pytest.ini": "[pytest]\nhierexport_models = my_model.py::build\n",
        "conftest.py": """
            from pytest_hierexport import Case
            from my_model import build

            def pytest_hierexport_models(config):
                return [Case("tower", build)]
        """,
    }
    project.write(file, stated[file])
    project.write("tests/test_own.py", "def test_it(): pass\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path / "tests")
        result = project.run(f"--rootdir={project.path}", "test_own.py", "--co")
    line = f"hierexport: 1 model not selected, as the command line names other paths; to run them: {command}"
    result.stdout.fnmatch_lines([line])


@pytest.mark.parametrize("folder", ["one", ".one"])
def test_naming_a_manifest_of_the_ini_runs_no_other_model(project: Project, folder: str) -> None:
    for each in (folder, ".two"):
        project.write(f"{each}/models.toml", f"[models.{each.strip('.')}]\nmodel = '../my_model.py::build'\n")
    project.write("pytest.ini", f"[pytest]\nhierexport_models = {folder}/models.toml, .two/models.toml\n")
    assert {item.split("::")[1] for item in ids(project.run("--co", "-q"))} == {"one", "two"}
    listed = ids(project.run("--co", "-q", f"{folder}/models.toml"))
    assert {item.split("::")[1] for item in listed} == {"one"}


def test_broken_ini_selection_leaves_other_named_tests_running(project: Project) -> None:
    (project.path / "pytest.ini").write_text("[pytest]\nhierexport_models = gone.py::build\n")
    project.write("test_own.py", "def test_it(): pass")
    assert project.run("test_own.py").ret == 0
    assert project.run().ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("named", ["models.toml", "models.toml::tower::test_snapshot", "pytest.ini"])
def test_the_error_of_a_named_manifest_is_told(project: Project, named: str) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_models = models.toml\n")
    project.write("models.toml", "[models.tower]\nmodle = 'my_model.py::build'\n")
    result = project.run(named)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*models.tower.modle*to be a known key*"])


def test_a_failing_item_keeps_its_files_and_says_where(project: Project) -> None:
    (project.path / "__hierexport__").mkdir()
    (project.path / "__hierexport__" / "build.txt").write_text("/Other\n")
    result = project.run(MODELS, "-k", "snapshot")
    kept = project.path / ".hierexport" / "build"
    result.stdout.fnmatch_lines(["*kept *.hierexport/build/model.hierarchy.json, .hierexport/build/model.onnx"])
    assert {path.name for path in kept.glob("[!.]*")} == {"model.onnx", "model.hierarchy.json"}
    assert (project.path / ".hierexport" / ".gitignore").read_text() == "*\n"


def test_the_command_of_a_failure_repeats_it(project: Project) -> None:
    (project.path / "__hierexport__").mkdir()
    result = project.run(MODELS, "-k", "snapshot")
    # Where CI is set, pytest says a failure twice: its short summary holds the whole message.
    (line,) = {line.strip() for line in result.outlines if line.strip().startswith("repeat")}
    repeated = project.run(*line.split()[2:])
    repeated.assert_outcomes(failed=1)


def test_repeat_names_the_configuration_where_another_is_nearer(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_models = below/models.toml\n")
    project.write("below/pyproject.toml", "[tool.pytest.ini_options]\nminversion = '8'\n")
    project.write("below/models.toml", "[models.tower]\nmodel = '../my_model.py::build'\n")
    project.write("below/__hierexport__/tower.txt", "/Other\n")
    result = project.run("-k", "snapshot")
    (line,) = {line.strip() for line in result.outlines if line.strip().startswith("repeat")}
    assert line.split()[2:] == ["-c", "pytest.ini", "below/models.toml::tower::test_snapshot"]
    project.run(*line.split()[2:]).assert_outcomes(failed=1)


def test_repeat_leaves_out_a_configuration_that_is_nearer(project: Project) -> None:
    project.write("below/pytest.ini", "[pytest]\n")
    project.write("below/my_model.py", (project.path / "my_model.py").read_text())
    project.write("below/__hierexport__/build.txt", "/Other\n")
    result = project.run("--hierexport-models=below/my_model.py::build", "-k", "snapshot")
    (line,) = {line.strip() for line in result.outlines if line.strip().startswith("repeat")}
    assert line.split()[2:5] == ["-c", os.devnull, "--rootdir=."]
    project.run(*line.split()[2:]).assert_outcomes(failed=1)


def test_the_command_of_a_failure_carries_what_overrides_the_configuration(project: Project) -> None:
    project.write("__hierexport__/build.txt", "/Other\n")
    hidden = ("-o", "hierexport_cache=file://me:secret@/cache", "-o", "hierexport_summary=summary.md")
    stated = ("-o", "hierexport_models=my_model.py::build", "-o", "hierexport_opset=20")
    result = project.run(*stated, *hidden, "-k", "snapshot")
    (line,) = {line.strip() for line in result.outlines if line.strip().startswith("repeat")}
    assert line.split()[2:6] == [*stated]
    assert "secret" not in line
    assert "summary" not in line
    project.run(*line.split()[2:]).assert_outcomes(failed=1)


def test_command_of_a_failure_loads_the_same_plugins(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("ours.py", OWN_RULE)
    monkeypatch.syspath_prepend(project.path)
    result = project.run(MODELS, "-p", "no:doctest", "-pours", "-k", "OWN-001")
    (line,) = {line.strip() for line in result.outlines if line.strip().startswith("repeat")}
    assert line.split()[2:4] == ["-p", "ours"]
    assert "doctest" not in line
    project.run(*shlex.split(line)[2:]).assert_outcomes(failed=1)


def test_failure_of_a_run_without_arguments_names_its_command(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nhierexport_models = my_model.py::build\nhierexport_fast = true\n")
    project.write("__hierexport__/build.txt", "/Other\n")
    result = project.run()
    (line,) = {line.strip() for line in result.outlines if line.strip().startswith("repeat")}
    assert line.split()[1:] == ["pytest", "pytest.ini::build::test_snapshot"]
    project.run(*line.split()[2:]).assert_outcomes(failed=1)


def test_installed_and_unused_it_imports_nothing_that_costs(project: Project) -> None:
    project.write(
        "test_unused.py",
        """
        import sys

        def test_it():
            ours = [name for name in sys.modules if name.partition(".")[0] == "pytest_hierexport"]
            assert "pytest_hierexport.plugin" in ours
            assert len(ours) <= 5, ours
            heavy = {"torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "transformers", "rich", "filelock"}
            assert not heavy & set(sys.modules)
        """,
    )
    assert project.process("test_unused.py").ret == 0


def test_imports_of_the_plugin_stay_within_their_budget(project: Project) -> None:
    script = (
        "import sys, pytest, _pytest.config\n"
        "before = set(sys.modules)\n"
        "import pytest_hierexport.plugin, pytest_hierexport._pytest.options\n"
        "print(len(set(sys.modules) - before))\n"
    )
    result = project.pytester.run(sys.executable, "-c", script)
    assert int(result.outlines[0]) <= 25


def test_collecting_models_imports_no_torch(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import sys

        def pytest_collection_finish(session):
            assert not {"torch", "onnx", "onnxruntime", "transformers"} & set(sys.modules)
        """,
    )
    result = project.process(f"{MODELS},bert,models.toml", "--co", "-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (project.path / "models.toml").write_text('[models.tower]\nmodel = "my_model.py::build"\n')
    result = project.process(f"{MODELS},bert,models.toml", "--co", "-q")
    assert result.ret == 0


def test_a_checkpoint_folder_is_a_model(project: Project) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, vocab_size=32
    )
    transformers.BertModel(config).save_pretrained(project.path / "tiny")
    result = project.run("--hierexport-models=tiny", "-v", "-k", "not MUST-001")
    assert result.ret == 0
    result.stdout.fnmatch_lines([".::tiny::test_must[[]MUST-004[]] PASSED*"])


def test_run_leaves_no_files_in_project_or_temporary_folder(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = {path.name for path in project.path.iterdir()}
    project.run(MODELS, "-k", "MUST-002", "-p", "no:cacheprovider")
    after = {path.name for path in project.path.iterdir()} - {"my_model.py.log", "__pycache__"}
    assert after == before - {"__pycache__"}
    assert not list(tmp_path.glob("hierexport-*"))


def test_run_of_other_tests_leaves_no_temporary_files(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(project.path)
    ini = f"hierexport_{MODELS[13:].replace('=', ' = ')}\nhierexport_cache = cache\naddopts = -p my_plugin\n"
    project.write("pytest.ini", f"[pytest]\n{ini}")
    project.write("my_plugin.py", "")
    project.write("test_own.py", "def test_it(): pass\n")
    project.run("test_own.py").assert_outcomes(passed=1)
    assert not list(tmp_path.glob("hierexport-*"))


@pytest.mark.parametrize("plugin", ["logging", "debugging", "setupplan", "capture"])
def test_rules_run_without_optional_plugins_of_pytest(project: Project, plugin: str) -> None:
    result = project.run(MODELS, "-p", f"no:{plugin}", "-k", "MUST-002")
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] == 1


def test_rules_run_without_xdist_and_syrupy(project: Project) -> None:
    project.write("__hierexport__/build.txt", "/Other\n")
    program = """
import sys
sys.modules["xdist"] = sys.modules["syrupy"] = None
import pytest
options = ["-p", "pytest_hierexport.plugin", "--hierexport-models=my_model.py::build", "-k", "MUST-002 or snapshot"]
sys.exit(pytest.main(options))
"""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=project.path, env=environment, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout
    assert "to do     pip install syrupy" in done.stdout


def test_places_of_tests_are_those_of_their_model(project: Project) -> None:
    project.write("__hierexport__/build.txt", "/Other\n")
    line = (project.path / "my_model.py").read_text().splitlines().index("def build():") + 1
    result = project.run(
        "--hierexport-models=my_model.py::build",
        "-k",
        "snapshot",
        "--tb=line",
        "--junitxml=j.xml",
        "-ojunit_family=xunit1",
    )
    result.stdout.fnmatch_lines([f"{project.path}/my_model.py:{line}: *"])
    assert f'file="my_model.py" line="{line - 1}"' in (project.path / "j.xml").read_text()
