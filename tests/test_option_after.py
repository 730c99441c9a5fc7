"""The steps after an export: their results are tested and shown like models of their own."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from projects import Project

MODELS = "--hierexport-models=my_model.py::build"
STEPS = """
    import onnx

    def shorten(source, target):
        "Drop every Relu, which changes values."
        model = onnx.load(source)
        for node in [node for node in model.graph.node if node.op_type == "Relu"]:
            for other in model.graph.node:
                other.input[:] = [node.input[0] if name == node.output[0] else name for name in other.input]
            for output in model.graph.output:
                if output.name == node.output[0]:
                    producer = next(n for n in model.graph.node if node.input[0] in n.output)
                    producer.output[:] = [output.name]
            model.graph.node.remove(node)
        onnx.save(model, target)

    def keep(source, target):
        onnx.save(onnx.load(source), target)

    def spoil(source, target):
        source.write_bytes(b"")
        raise ValueError("no such level")

    def forget(source, target):
        pass

    def misname(source, target):
        model = onnx.load(source)
        model.graph.node[0].op_type = "NoSuchOperator"
        onnx.save(model, target)
"""


@pytest.fixture
def stepped(project: Project) -> Project:
    """Give a project with steps of its own."""
    project.write("steps.py", STEPS)
    return project


def test_result_of_each_step_has_rules_and_snapshot(stepped: Project) -> None:
    after = "--hierexport-after=onnxruntime:extended,steps:keep"
    rules = "--hierexport-rules=MUST-002,MUST-003,MUST-004,MUST-006,MUST-007"
    result = stepped.run(MODELS, after, rules, "--snapshot-update", "-k", "not MUST-001", "--hierexport-report=r.json")
    # The export: five rules, a snapshot. Each result: four rules, a snapshot.
    result.assert_outcomes(passed=6 + 5 + 5, deselected=1)
    names = ["build", "build@onnxruntime:extended", "build@onnxruntime:extended+steps:keep"]
    result.stdout.fnmatch_lines([f"{name} *" for name in names])
    report = json.loads((stepped.path / "r.json").read_text())
    assert [model["name"] for model in report["models"]] == names
    assert report["models"][1]["checks"]["MUST-006"]["verdict"] == "does not apply"
    assert report["cardinal_rules_not_run"] == {"build": ["MUST-001"]}
    snapshots = {file.name for file in (stepped.path / "__hierexport__").glob("*.txt")}
    assert snapshots == {
        "build.txt",
        "build@onnxruntime%3Aextended.txt",
        "build@onnxruntime%3Aextended+steps%3Akeep.txt",
    }
    fused = (stepped.path / "__hierexport__" / "build@onnxruntime%3Aextended.txt").read_text()
    assert "FusedGemm" in fused


def test_step_that_changes_values_is_unproven_and_repeatable(stepped: Project) -> None:
    result = stepped.run(MODELS, "--hierexport-after=steps:shorten", "-k", "steps and MUST-007")
    result.assert_outcomes(failed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(
        [
            "*MUST-007*build@steps:shorten*",
            "  where *the model's own call*",
            "  to do *compare the values with `hierexport diverge`; if a step is meant to change them, *`tolerances`",
            "  repeat *pytest --hierexport-models=my_model.py::build --hierexport-after=steps:shorten *[[]MUST-007]'",
        ]
    )
    again = stepped.run(
        MODELS, "--hierexport-after=steps:shorten", "my_model.py::build@steps%3Ashorten::test_must[MUST-007]"
    )
    again.assert_outcomes(failed=1)


def test_changed_graph_of_a_step_shows_by_module(stepped: Project) -> None:
    arguments = (MODELS, "--hierexport-after=steps:keep", "-k", "snapshot")
    stepped.run(*arguments, "--snapshot-update").assert_outcomes(passed=2, deselected=14)
    stepped.write("steps.py", STEPS.replace("def keep", "def kept").replace("def shorten", "def keep"))
    result = stepped.run(*arguments)
    result.assert_outcomes(passed=1, failed=1, deselected=14)
    result.stdout.fnmatch_lines(["the hierarchy of build@steps:keep has changed", "*Relu*"])


@pytest.mark.parametrize(
    ("step", "expected"), [("spoil", "*ValueError: no such level*"), ("forget", "*no such file after it returned*")]
)
def test_failing_step_leaves_the_export_and_its_rules(step: str, expected: str, stepped: Project) -> None:
    result = stepped.run(MODELS, f"--hierexport-after=steps:{step}", "-k", "MUST-002")
    result.assert_outcomes(passed=1, failed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines([f"build@steps:{step}: the step steps:{step} failed", expected])
    assert "Traceback" not in result.stdout.str()


def test_input_of_a_failing_step_is_kept(stepped: Project) -> None:
    result = stepped.run(MODELS, "--hierexport-after=steps:spoil", "-k", "spoil and MUST-002")
    kept = stepped.path / ".hierexport" / "build@steps%3Aspoil"
    result.stdout.fnmatch_lines(["*to do *call it on a copy of the kept file*", "*kept *model.onnx*"])
    assert {file.name for file in kept.glob("[!.]*")} == {"model.hierarchy.json", "model.onnx", "traceback.txt"}
    assert len(onnx.load(kept / "model.onnx").graph.node) == 6


def test_manifest_states_steps_with_what_is_allowed(stepped: Project) -> None:
    manifest = """
        [models.tower]
        model = "my_model.py::build"
        after = [
            "onnxruntime:basic",
            {{ step = "steps:shorten", known_failures = [
                {{ rule = "{rule}", until = 2100-01-01, reason = "it drops every Relu" }},
            ] }},
        ]
    """
    stepped.write("models.toml", manifest.format(rule="MUST-007"))
    models = "--hierexport-models=models.toml"
    result = stepped.run(models, "-k", "MUST-007")
    result.assert_outcomes(passed=2, xfailed=1, deselected=result.parseoutcomes()["deselected"])
    # A rule on exports is not checked on the result of a step, so it would excuse nothing.
    stepped.write("models.toml", manifest.format(rule="MUST-005"))
    result = stepped.run(models)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'MUST-005' at models.tower.after.1.known_failures.0.rule in *models.toml"])


@pytest.mark.parametrize(
    ("step", "nearest"),
    [
        ("onnxruntime:extendde", "onnxruntime:extended"),
        ("optimize", "package.module:function"),
        ("steps:kep", "a function kep"),
        ("no_such_module:run", "no module no_such_module"),
    ],
)
def test_unknown_step_is_a_usage_error(step: str, nearest: str, stepped: Project) -> None:
    stepped.write("models.toml", f"[models.build]\nmodel = 'my_model.py::build'\nafter = ['{step}']\n")
    for arguments in ([MODELS, f"--hierexport-after={step}"], ["--hierexport-models=models.toml"]):
        result = stepped.run(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*{nearest}*"])
        assert "correct the manifest" not in result.stderr.str()


@pytest.mark.parametrize(("key", "value"), [("after", "['steps:keep']"), ("exporter", "'steps:keep'")])
def test_module_of_another_manifest_is_not_taken_silently(key: str, value: str, stepped: Project) -> None:
    for folder in ("one", "two"):
        stepped.write(f"{folder}/steps.py", f"def keep(source, target): raise ValueError({folder!r})\n")
        stepped.write(f"{folder}/models.toml", f"[models.{folder}]\nmodel = '../my_model.py::build'\n{key} = {value}\n")
    (stepped.path / "steps.py").unlink()
    both = stepped.run("--hierexport-models=one/models.toml,two/models.toml", "--co", "-q")
    assert both.ret == pytest.ExitCode.USAGE_ERROR
    both.stderr.fnmatch_lines([f"*module steps to be two/steps.py at models.two.{key} *found one/steps.py*"])
    stepped.write("two/steps.py", (stepped.path / "one" / "steps.py").read_text())
    assert stepped.run("--hierexport-models=one/models.toml,two/models.toml", "--co", "-q").ret == 0


def test_results_of_steps_are_skipped_where_the_export_fails(stepped: Project) -> None:
    stepped.write("my_model.py", "def build():\n    raise ValueError('no weights')\n")
    result = stepped.run(MODELS, "--hierexport-after=steps:keep", "-k", "MUST-002")
    result.assert_outcomes(failed=1, skipped=1, deselected=result.parseoutcomes()["deselected"])


def test_run_without_the_option_keeps_its_snapshots(stepped: Project) -> None:
    stepped.write("pytest.ini", "[pytest]\nhierexport_models = my_model.py::build\n")
    rules = ("--hierexport-rules=MUST-002", "--snapshot-update")
    stepped.run("--hierexport-after=steps:keep", *rules)
    result = stepped.run(*rules)
    assert "removed" not in result.stdout.str()
    assert len(list((stepped.path / "__hierexport__").glob("*.txt"))) == 2


def test_step_of_the_docs_works(stepped: Project) -> None:
    page = (Path(__file__).parents[1] / "docs" / "pytest.md").read_text(encoding="utf-8")
    stepped.write("project/tools.py", page.partition("# project/tools.py")[2].partition("```")[0])
    after = "--hierexport-after=onnxruntime:extended,project.tools:fewer_names"
    result = stepped.run(MODELS, after, "-k", "fewer_names and MUST")
    result.assert_outcomes(passed=4, deselected=result.parseoutcomes()["deselected"])


def test_workers_share_exports_and_results_of_steps(stepped: Project) -> None:
    result = stepped.run(MODELS, "--hierexport-after=steps:keep", "-k", "MUST-002 or MUST-007", "-n", "2")
    result.assert_outcomes(passed=4)


def test_cached_result_of_a_step_follows_its_function(stepped: Project) -> None:
    arguments = (MODELS, "--hierexport-after=steps:keep", "--hierexport-cache=cache", "-k", "MUST-002 or MUST-007")
    stepped.run(*arguments).assert_outcomes(passed=4, deselected=12)
    assert stepped.builds == 1
    stepped.run(*arguments).assert_outcomes(passed=4, deselected=12)
    assert stepped.builds == 1
    stepped.write("steps.py", STEPS.replace("def keep", "def kept").replace("def shorten", "def keep"))
    stepped.run(*arguments).assert_outcomes(passed=3, failed=1, deselected=12)


def test_missing_snapshot_of_a_step_names_the_same_step(stepped: Project) -> None:
    after, snapshot = "--hierexport-after=onnxruntime:basic,steps:keep", ("-k", "snapshot")
    assert stepped.run("--hierexport-models=a=my_model.py::build", after, "--snapshot-update", *snapshot).ret == 0
    result = stepped.run("--hierexport-models=b=my_model.py::build", after, *snapshot)
    for name in ("a.txt", "a@onnxruntime%3Abasic.txt", "a@onnxruntime%3Abasic+steps%3Akeep.txt"):
        assert f"rename __hierexport__/{name} if the model was renamed" in result.stdout.str()


def test_file_that_a_step_broke_names_the_step(stepped: Project) -> None:
    result = stepped.run(MODELS, "--hierexport-after=steps:misname", "-k", "steps and MUST-004")
    result.stdout.fnmatch_lines(["MUST-004 *", "  to do     correct the step steps:misname; *"])
