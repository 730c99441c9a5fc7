"""The hook by which a project defines models in code."""

from __future__ import annotations

import pytest

from projects import Project

CONFTEST = """
def pytest_hierexport_models(config):
    from pytest_hierexport import Case

    def tower():
        import my_model
        return my_model.build()

    return [Case("tower", tower), Case("wide", tower, opset=19)]
"""


def test_models_of_the_hook_run_without_an_option(project: Project) -> None:
    project.write("conftest.py", CONFTEST)
    result = project.run("-k", "MUST-002")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["tower  dynamo *", "wide   dynamo *"])


def test_model_of_the_hook_is_selected_by_its_name(project: Project) -> None:
    project.write("conftest.py", CONFTEST)
    result = project.run("--hierexport-models=wide,my_model.py::build", "-k", "MUST-002")
    result.assert_outcomes(passed=2, deselected=result.parseoutcomes()["deselected"])
    assert "tower" not in result.stdout.str()


@pytest.mark.parametrize("conftest", ["conftest.py", "tests/conftest.py"])
def test_command_that_repeats_selects_the_model_of_the_hook(project: Project, conftest: str) -> None:
    project.write(conftest, CONFTEST)
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    project.write("__hierexport__/tower.txt", "/Other\n")
    failing = project.run("-k", "snapshot and tower")
    line = next(line for line in failing.outlines if line.startswith("  repeat"))
    repeated = project.run(*line.split()[2:])
    repeated.assert_outcomes(failed=1)
    repeated.stdout.fnmatch_lines(["the hierarchy of tower has changed"])


def test_models_of_the_hook_stay_out_of_other_paths(project: Project) -> None:
    project.write("conftest.py", CONFTEST)
    project.write("test_own.py", "def test_own(): pass\n")
    project.run("test_own.py").assert_outcomes(passed=1)


def test_hook_without_a_model_leaves_the_own_tests_alone(project: Project) -> None:
    project.write("conftest.py", "def pytest_hierexport_models(config): return []\n")
    project.write("test_own.py", "def test_own(): pass\n")
    project.run().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("['tower']", "pytest_hierexport_models to return a list of Case; found 'tower'"),
        (
            "[pytest_hierexport.Case('', print)]",
            "a name for each case of pytest_hierexport_models; found an empty one*",
        ),
        (
            "[pytest_hierexport.Case('tower', print, after=('onnxruntime:all',))]",
            "after of the case tower to be a tuple of Step; found ('onnxruntime:all',)*",
        ),
        (
            "[pytest_hierexport.Case('tower', print, known_failures={'MUST-006': 'why'})]",
            "known_failures of the case tower to be a tuple of KnownFailure; found {'MUST-006': 'why'}*",
        ),
        (
            "[pytest_hierexport.Case('tower', print, after=(pytest_hierexport.Step('onnxruntime:most'),))]",
            "a step after the export: *; found 'onnxruntime:most'*",
        ),
        (
            "[pytest_hierexport.Case('tower', print, after=(pytest_hierexport.Step('x', known_failures=('y',)),))]",
            "known_failures of the case tower to be a tuple of KnownFailure; found ('y',)*",
        ),
        ("[pytest_hierexport.Case(1, print)]", "name of the case 1 to be a text; found 1"),
        (
            "[pytest_hierexport.Case('tower', print, timeout='3')]",
            "timeout of the case tower to be a number or None; found '3'",
        ),
        (
            "[pytest_hierexport.Case('tower', print, weights='thn')]",
            "weights of the case tower to be full, none or thin; found 'thn'",
        ),
        (
            "[pytest_hierexport.Case('tower', print, thin=pytest_hierexport.Case('small', print))]",
            "weights=\"thin\" in the case tower, as it names a thin model; found 'full'",
        ),
        (
            "[pytest_hierexport.Case('tower', print, anchor='my_model.py')]",
            "anchor of the case tower to be a path or None; found 'my_model.py'",
        ),
        (
            "[pytest_hierexport.Case('tower', print, known_failures=(KnownFailure('MUST-006', '2999-01-31', 'y'),))]",
            "until of a KnownFailure of the case tower to be a date without a time; found '2999-01-31'",
        ),
        ("[pytest_hierexport.Case('t', print, timeout=-1)]", "a number of seconds*timeout of the case t; found -1.0"),
        (
            "[pytest_hierexport.Case('t', print, after=(pytest_hierexport.Step('x:y', {'flot32': 1}),))]",
            "a floating dtype*after.0.tolerances of the case t; found 'flot32'",
        ),
        (
            "[pytest_hierexport.Case('t', print, known_failures=(KnownFailure('MUST-001', date.max, 'y'),))]",
            "a rule that is not cardinal as known_failures.0.rule of the case t; found 'MUST-001'",
        ),
        ("[pytest_hierexport.Case('t', print, opset=99)]", "an opset *, for the case t; found 99"),
        ("[pytest_hierexport.Case('t', print, exporter='dynmo')]", "exporter to be *, for the case t; found 'dynmo'"),
    ],
    ids=[
        "a text",
        "no name",
        "a step as a text",
        "a known failure as a mapping",
        "no such step",
        "of a step",
        "a name that is no text",
        "seconds as a text",
        "no such weights",
        "a thin model of other weights",
        "a path as a text",
        "a date as a text",
        "negative seconds",
        "a misspelt dtype",
        "a cardinal rule",
        "an unknown opset",
        "a misspelt exporter",
    ],
)
def test_hook_that_returns_no_cases_is_a_usage_error(project: Project, returned: str, told: str) -> None:
    imports = "import pytest_hierexport\nfrom datetime import date\nfrom pytest_hierexport import KnownFailure"
    project.write("conftest.py", f"{imports}\ndef pytest_hierexport_models(config): return {returned}\n")
    result = project.run()
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*expected {told}"])


def test_exporter_of_a_case_is_found_in_the_root(project: Project) -> None:
    model = "lambda: (torch.nn.Linear(4, 4), torch.ones(2, 4))"
    case = f"pytest_hierexport.Case('tower', {model}, exporter='own:export')"
    project.write(
        "conftest.py", f"import pytest_hierexport, torch\ndef pytest_hierexport_models(config): return [{case}]\n"
    )
    project.write(
        "own.py",
        "import pytest_hierexport\n"
        "def export(model, args, kwargs, path): pytest_hierexport.export(model, args, kwargs, path=path)\n",
    )
    assert project.run("--import-mode=importlib", "-k", "MUST-002").ret == 0


STEP_AND_FAILURE = """
from datetime import date

def pytest_hierexport_models(config):
    from my_model import build
    from pytest_hierexport import Case, KnownFailure, Step

    known = KnownFailure("MUST-004", date(2999, 1, 31), "it is said to break it")
    return [Case("tower", build, after=(Step("onnxruntime:basic"),), known_failures=(known,))]
"""


def test_case_of_the_hook_has_steps_and_known_failures(project: Project) -> None:
    project.write("conftest.py", STEP_AND_FAILURE)
    project.write("pytest.ini", "[pytest]\npythonpath = .\n")
    result = project.run("-k", "MUST-004")
    result.assert_outcomes(passed=1, failed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["tower: the known failure of MUST-004 is over"])
    result.stdout.fnmatch_lines(["  to do *remove the known failure from pytest_hierexport_models"])


ONLY_SNAPSHOTS = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "must" not in item.name]
"""


def test_a_run_without_the_hook_keeps_its_snapshots(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\npythonpath = .\nhierexport_models = my_model.py::build\n")
    project.write("conftest.py", ONLY_SNAPSHOTS)
    conftest = project.write("tests/conftest.py", CONFTEST)
    strict = "--hierexport-require-snapshots"
    assert project.run("--snapshot-update").ret == 0
    # pytest does not load tests/conftest.py for this path.
    alone = ("my_model.py", "--hierexport-models=my_model.py::build", strict)
    assert project.run(*alone).ret == 0
    assert project.run(*alone, "--snapshot-update").ret == 0
    assert {path.stem for path in project.path.glob("__hierexport__/*.txt")} == {"build", "tower", "wide"}
    conftest.write_text(CONFTEST.replace(', Case("wide", tower, opset=19)', ""))
    result = project.run(strict)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["snapshots of models that are gone: __hierexport__/wide.txt"])
    conftest.unlink()
    result = project.run(strict)
    result.stdout.fnmatch_lines(
        ["snapshots of models that are gone: __hierexport__/tower.txt, __hierexport__/wide.txt"]
    )
