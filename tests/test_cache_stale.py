"""What decides about a verdict: each of these changes gives another verdict than the one in the cache."""

from __future__ import annotations

import os
import py_compile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from projects import Project

MODELS = ("--hierexport-models=my_model.py::build", "--hierexport-cache=cache", "-k", "OWN-001")

CONFTEST = """
from pathlib import Path
from pytest_hierexport._rules.base import Rule, Violation
{imports}

HERE = Path(__file__).parent

def pytest_addoption(parser):
    parser.addini("limit", "a limit", default="1")
    parser.addoption("--limit", default="1")

def pytest_hierexport_rules(config):
    {before}
    def check(exported):
        {check}
        return [] if str(value).strip() == "1" else [Violation("here", "1", str(value), "change it")]
    return [Rule("OWN-001", "the value is 1", check)]
"""


@dataclass(frozen=True)
class Stale:
    """A project whose rule takes a value from somewhere, and the change that makes it another value."""

    check: str
    """How the rule gets the value: a line of Python."""
    before: str = "pass"
    imports: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str | None] = field(default_factory=dict)
    """The files after the change; None removes one."""
    options: Sequence[str] = ()
    changed_options: Sequence[str] | None = None
    model: str = ""
    """What is put below the model's module."""


OTHER = "value = {}\n"
LOADED = """
def load():
    import importlib.util
    spec = importlib.util.spec_from_file_location("any", HERE / "loaded.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.value
"""
OPTIONAL = """
def load():
    try:
        import extra
    except ImportError:
        return 1
    return extra.value
"""
_HEADER = '{{"any":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}'
SAFETENSORS = chr(len(_HEADER.format())) + "\0" * 7 + _HEADER + "{}"
LATE = """
def load():
    try:
        return (HERE / "late.txt").read_text()
    except OSError:
        return 1
"""
SET_SHARED = "import shared\nshared.value = {}\n"
SET_TO_FILE = "from pathlib import Path\n" + SET_SHARED.format("Path(__file__).with_name('value.txt').read_text()")
READS_AND_EDITS = """
def with_value(make=build):
    from pathlib import Path
    made, file = make(), Path(__file__).with_name("value.txt")
    made[0].value = file.read_text()
    if Path(__file__).with_name("edits").exists():
        file.write_text("2")
    return made

build = with_value
"""

CASES = {
    "a file that the rule reads": Stale(
        'value = (HERE / "value.txt").read_text()', files={"value.txt": "1"}, changes={"value.txt": "2"}
    ),
    "a file that the rule looks for": Stale(
        'value = 2 if next(HERE.glob("found/*.txt"), None) else 1',
        files={"found/other.csv": ""},
        changes={"found/some.txt": ""},
    ),
    "a file that the rule does not find": Stale(
        "value = load()",
        imports=LATE,
        changes={"late.txt": "2"},
    ),
    "a helper that the rule imports": Stale(
        "from helper import value", files={"helper.py": OTHER.format(1)}, changes={"helper.py": "value = 1 + 1\n"}
    ),
    "a file that conftest.py reads": Stale(
        "value = VALUE",
        imports="VALUE = Path(__file__).with_name('value.txt').read_text()",
        files={"value.txt": "1"},
        changes={"value.txt": "2"},
    ),
    "a value of pyproject.toml that the rule closes over": Stale(
        "value = closed_over",
        before="closed_over = (HERE / 'pyproject.toml').read_text().partition('value = ')[2]",
        files={"pyproject.toml": "[tool.any]\nvalue = 1"},
        changes={"pyproject.toml": "[tool.any]\nvalue = 2"},
    ),
    "a value of the ini": Stale(
        "value = config.getini('limit')",
        files={"pytest.ini": "[pytest]\nlimit = 1\n"},
        changes={"pytest.ini": "[pytest]\nlimit = 2\n"},
    ),
    "a value of the ini on the command line": Stale(
        "value = config.getini('limit')", changed_options=["-o", "limit=2"]
    ),
    "an option": Stale("value = config.getoption('limit')", changed_options=["--limit=2"]),
    "a file that a test module reads": Stale(
        "import shared; value = shared.value",
        files={
            "shared.py": OTHER.format(1),
            "tests/test_any.py": SET_TO_FILE,
            "tests/value.txt": "1",
        },
        changes={"tests/value.txt": "2"},
        options=["tests"],
    ),
    "a test module that is added": Stale(
        "import shared; value = shared.value",
        files={"shared.py": OTHER.format(1), "tests/test_any.py": ""},
        changes={"tests/test_other.py": SET_SHARED.format(2)},
        options=["tests"],
    ),
    "a test module that is left out": Stale(
        "import shared; value = shared.value",
        files={"shared.py": OTHER.format(2), "test_any.py": SET_SHARED.format(1), "test_other.py": ""},
        options=["test_any.py"],
        changed_options=["test_other.py"],
    ),
    "a conftest.py that is added": Stale(
        "import shared; value = shared.value",
        files={"shared.py": OTHER.format(1), "tests/test_any.py": ""},
        changes={"tests/conftest.py": SET_SHARED.format(2)},
        options=["tests"],
    ),
    "a conftest.py that is left out": Stale(
        "import shared; value = shared.value",
        files={
            "shared.py": OTHER.format(2),
            **{f"{name}/test_{name}.py": "" for name in "ab"},
            "a/conftest.py": SET_SHARED.format(1),
        },
        options=["a"],
        changed_options=["b"],
    ),
    "one of two files called conftest.py": Stale(
        "import shared; value = shared.value",
        files={
            "shared.py": OTHER.format(1),
            **{f"{name}/test_{name}.py": "" for name in "ab"},
            "a/conftest.py": SET_SHARED.format(1),
            "b/conftest.py": "",
        },
        changes={"a/conftest.py": SET_SHARED.format("1 + 1")},
        options=["a", "b"],
    ),
    "a file that a conftest.py reads under importlib": Stale(
        "import shared; value = shared.value",
        files={
            "shared.py": OTHER.format(1),
            "tests/test_any.py": "",
            "tests/conftest.py": SET_TO_FILE,
            "tests/value.txt": "1",
        },
        changes={"tests/value.txt": "2"},
        options=["tests", "--import-mode=importlib", "-o", "pythonpath=."],
    ),
    "a module loaded from a file": Stale(
        "value = load()", imports=LOADED, files={"loaded.py": OTHER.format(1)}, changes={"loaded.py": "value = 1 + 1\n"}
    ),
    "a module that is deleted after use": Stale(
        "import sys, helper; value = helper.value; del sys.modules['helper']",
        files={"helper.py": OTHER.format(1)},
        changes={"helper.py": "value = 1 + 1\n"},
    ),
    "a module that appears": Stale("value = load()", imports=OPTIONAL, changes={"extra.py": OTHER.format(2)}),
    "a module that shadows another": Stale(
        "from helper import value",
        files={"library/helper.py": OTHER.format(1), "nearer/any.py": ""},
        changes={"nearer/helper.py": OTHER.format(2)},
        options=["-o", "pythonpath=nearer library"],
    ),
    "a pythonpath that points elsewhere": Stale(
        "from helper import value",
        files={"one/helper.py": OTHER.format(1), "two/helper.py": OTHER.format(2)},
        options=["-o", "pythonpath=one"],
        changed_options=["-o", "pythonpath=two"],
    ),
    "weights that native code reads": Stale(
        "value = int(safe_open(HERE / 'any.safetensors', 'np').get_tensor('any')[0])",
        before="from safetensors import safe_open",
        files={"any.safetensors": SAFETENSORS.format("\x01")},
        changes={"any.safetensors": SAFETENSORS.format("\x02")},
    ),
    "a file that is edited while the export runs": Stale(
        "value = exported.example.model.value",
        model=READS_AND_EDITS,
        files={"value.txt": "1", "edits": ""},
        changes={"edits": None},
    ),
}


def write(project: Project, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        if text is None:
            (project.path / name).unlink()
        else:
            project.write(name, text)


def set_up(project: Project, case: Stale) -> None:
    project.write("conftest.py", CONFTEST.format(imports=case.imports, before=case.before, check=case.check))
    model = project.path / "my_model.py"
    model.write_text(model.read_text() + case.model)
    write(project, case.files)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_verdict_is_older_than_what_it_depends_on(project: Project, case: Stale) -> None:
    set_up(project, case)
    assert_kept(project.run(*MODELS, *case.options))
    write(project, case.changes)
    options = case.options if case.changed_options is None else case.changed_options
    project.run(*MODELS, *options).assert_outcomes(failed=1, deselected=11)


def assert_kept(result: pytest.RunResult) -> None:
    """Check that a run passed and that its cache was not switched off: nothing stale could come from that."""
    result.assert_outcomes(passed=1, deselected=11)
    assert "results are not kept" not in result.stdout.str()


@pytest.mark.parametrize(
    ("before", "after", "without"), [("", "extra_plugin", 1), ("extra_plugin", "", 2)], ids=["added", "dropped"]
)
def test_the_plugins_of_a_session_count(
    project: Project, monkeypatch: pytest.MonkeyPatch, before: str, after: str, without: int
) -> None:
    plugins = "import os; pytest_plugins = os.environ['EXTRA_PLUGINS'].split()"
    set_up(project, Stale("import shared; value = shared.value", imports=plugins))
    write(project, {"shared.py": OTHER.format(without), "extra_plugin.py": SET_SHARED.format(3 - without)})
    monkeypatch.setenv("EXTRA_PLUGINS", before)
    assert_kept(project.run(*MODELS))
    monkeypatch.setenv("EXTRA_PLUGINS", after)
    project.run(*MODELS).assert_outcomes(failed=1, deselected=11)


def test_pythonpath_of_the_environment_counts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(project, CASES["a pythonpath that points elsewhere"])
    inherited = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    for folder, outcome in (("one", "passed"), ("two", "failed")):
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project.path / folder), *inherited]))
        assert project.process(*MODELS).parseoutcomes() == {outcome: 1, "deselected": 11}


def test_warnings_that_python_turns_into_errors_count(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(project, Stale("import sys; value = len(sys.warnoptions) + 1"))
    for options, outcome in (("", "passed"), ("error::UserWarning", "failed")):
        monkeypatch.setenv("PYTHONWARNINGS", options)
        assert project.process(*MODELS).parseoutcomes() == {outcome: 1, "deselected": 11}


def test_a_module_loaded_from_bytecode_alone_counts(project: Project) -> None:
    case = CASES["a module loaded from a file"]
    set_up(project, case)
    py_compile.compile(str(project.path / "loaded.py"))
    project.run(*MODELS).assert_outcomes(passed=1, deselected=11)
    write(project, case.changes)
    project.run(*MODELS).assert_outcomes(failed=1, deselected=11)


@pytest.mark.parametrize(
    ("before", "check"),
    [
        ("pass", "from settings import load; value = load()"),
        ("known = {}", "value = known.get(1) or known.setdefault(1, (HERE / 'value.txt').read_text())"),
    ],
    ids=["by a cache in a module", "by what the rule keeps"],
)
def test_a_file_that_two_models_share_counts_for_both(project: Project, before: str, check: str) -> None:
    project.write("settings.py", SETTINGS)
    project.write("conftest.py", CONFTEST.format(imports="", before=before, check=check))
    project.write("value.txt", "1")
    project.write(
        "models.toml", "[models.one]\nmodel = 'my_model.py::build'\n[models.two]\nmodel = 'my_model.py::build'\n"
    )
    arguments = ("--hierexport-models=models.toml", *MODELS[1:])
    project.run(*arguments).assert_outcomes(passed=2, deselected=22)
    project.write("value.txt", "2")
    project.run(*arguments).assert_outcomes(failed=2, deselected=22)


SETTINGS = """
from functools import lru_cache
from pathlib import Path

@lru_cache
def load():
    return Path(__file__).with_name("value.txt").read_text()
"""


def test_what_decides_about_nothing_leaves_a_verdict_as_it_is(project: Project) -> None:
    set_up(project, CASES["a file that the rule reads"])
    arguments = (*MODELS[:2], "-m", "hierexport", "-k", "MUST-002 or OWN-001")
    project.write("tests/test_any.py", "def test_any(): pass\n")
    assert project.run(*arguments, "tests").ret == 0
    write(project, {"README.md": "changed", "tests/data.json": "{}"})
    assert project.run(*arguments, "tests", "-v", "--log-file=log", "--hierexport-report=report.json").ret == 0
    assert project.builds == 1


@pytest.mark.parametrize("folder", [".", "data"])
def test_files_beside_results_in_the_cache_folder_count(project: Project, folder: str) -> None:
    set_up(project, Stale("value = (HERE / 'data' / 'value.txt').read_text()", files={"data/value.txt": "1"}))
    arguments = (MODELS[0], f"--hierexport-cache={folder}", *MODELS[2:])
    for _ in range(2):
        assert_kept(project.run(*arguments))
    assert project.builds == 1
    project.write("data/value.txt", "2")
    project.run(*arguments).assert_outcomes(failed=1, deselected=11)
