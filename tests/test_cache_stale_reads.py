"""More of what decides about a verdict: the environment, and the ways in which code, data and options are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from projects import Project
from test_cache_stale import MODELS, OTHER, SET_SHARED, Stale, assert_kept, set_up, write


@dataclass(frozen=True)
class Way(Stale):
    """A way that may lead through environment variables."""

    variables: Mapping[str, str] = field(default_factory=dict)
    changed_variables: Mapping[str, str] | None = None


OS = "import os"
FACTORY = """
def with_value(make=build):
    import os
    made = make()
    made[0].value = os.environ["LIMIT"]
    return made

build = with_value
"""
ASKS = """
def with_value(make=build):
    import os
    made = make()
    made[0].value = "2" if os.path.lexists(os.path.join(os.path.dirname(__file__), "late.txt")) else "1"
    return made

build = with_value
"""
FORWARD = """
def forward(self, x, plain=Tower.forward):
    import late_helper
    return plain(self, x)

Tower.forward = forward
"""
IN_THREAD = """
def load():
    import threading
    found = []
    thread = threading.Thread(target=lambda: found.append((HERE / "value.txt").read_text()))
    thread.start()
    thread.join()
    return found[0]
"""
BY_DESCRIPTOR = """
def load():
    import os
    descriptor = os.open(HERE / "value.txt", os.O_RDONLY)
    try:
        return os.read(descriptor, 9).decode()
    finally:
        os.close(descriptor)
"""
SET_TO_VARIABLE = "import os\n" + SET_SHARED.format("os.environ['LIMIT']")
ONE, TWO = {"LIMIT": "1"}, {"LIMIT": "2"}
FILES, CHANGES = {"value.txt": "1"}, {"value.txt": "2"}

WAYS = {
    "a variable that the rule reads": Way(
        "value = os.getenv('LIMIT')", imports=OS, variables=ONE, changed_variables=TWO
    ),
    "a variable that the rule does not find": Way(
        "value = 2 if 'LIMIT' in os.environ else 1", imports=OS, changed_variables=ONE
    ),
    "a variable that is unset": Way(
        "value = os.environ.get('LIMIT', '2')", imports=OS, variables=ONE, changed_variables={}
    ),
    "a variable that comes to those that the rule lists": Way(
        "value = 1 + len([name for name in os.environ if name.startswith('LIMIT_')])",
        imports=OS,
        changed_variables={"LIMIT_A": ""},
    ),
    "a variable read as bytes": Way(
        "value = os.getenvb(b'LIMIT').decode()", imports=OS, variables=ONE, changed_variables=TWO
    ),
    "a variable in a path": Way(
        "value = os.path.expandvars('$LIMIT')", imports=OS, variables=ONE, changed_variables=TWO
    ),
    "a variable in a copy of the environment": Way(
        "value = dict(os.environ)['LIMIT']", imports=OS, variables=ONE, changed_variables=TWO
    ),
    "a variable that conftest.py reads": Way(
        "value = VALUE", imports="import os; VALUE = os.environ['LIMIT']", variables=ONE, changed_variables=TWO
    ),
    "a variable that a test module reads": Way(
        "import shared; value = shared.value",
        files={
            "shared.py": OTHER.format(1),
            "tests/test_any.py": "import os\n" + SET_SHARED.format("os.getenv('LIMIT')"),
        },
        options=["tests"],
        variables=ONE,
        changed_variables=TWO,
    ),
    "a variable that the factory reads": Way(
        "value = exported.example.model.value", model=FACTORY, variables=ONE, changed_variables=TWO
    ),
    "code that forward imports": Way(
        "import sys; value = sys.modules['late_helper'].value if 'late_helper' in sys.modules else 1",
        model=FORWARD,
        files={"late_helper.py": OTHER.format(1)},
        changes={"late_helper.py": "value = 1 + 1\n"},
    ),
    "a file that numpy maps": Way(
        "value = chr(numpy.memmap(HERE / 'value.txt', 'u1', 'r')[0])",
        before="import numpy",
        files=FILES,
        changes=CHANGES,
    ),
    "a file that numpy reads": Way(
        "value = chr(numpy.fromfile(HERE / 'value.txt', 'u1')[0])", before="import numpy", files=FILES, changes=CHANGES
    ),
    "a file that is opened by its descriptor": Way(
        "value = load()", imports=BY_DESCRIPTOR, files=FILES, changes=CHANGES
    ),
    "a file that a thread reads": Way("value = load()", imports=IN_THREAD, files=FILES, changes=CHANGES),
    "a resource of a package": Way(
        "value = importlib.resources.files('own').joinpath('value.txt').read_text()",
        imports="import importlib.resources",
        files={"own/__init__.py": "", "own/value.txt": "1"},
        changes={"own/value.txt": "2"},
    ),
    "modules that are discovered": Way(
        "value = len(list(pkgutil.iter_modules([str(HERE / 'plugins')])))",
        imports="import pkgutil",
        files={"plugins/one.py": ""},
        changes={"plugins/two.py": ""},
    ),
    "a file that a pattern names in each folder": Way(
        "value = len(glob.glob('data/*/one.csv', root_dir=HERE))",
        imports="import glob",
        files={"data/a/one.csv": "", "data/b/any.csv": ""},
        changes={"data/b/one.csv": ""},
    ),
    "a file of a folder that a pattern names": Way(
        "value = len(list(HERE.glob('data/*/deep/one.csv')))",
        files={"data/a/deep/one.csv": "", "data/b/any.csv": ""},
        changes={"data/b/deep/one.csv": ""},
    ),
    "a folder that is walked": Way(
        "value = sum(len(files) for _, _, files in os.walk(HERE / 'data'))",
        imports=OS,
        files={"data/deep/one.csv": ""},
        changes={"data/deep/two.csv": ""},
    ),
    "a file that appears where the rule asked for one": Way(
        "value = 2 if (HERE / 'late.txt').exists() else 1", changes={"late.txt": ""}
    ),
    "a file that the rule asked for and that goes": Way(
        "value = 1 if os.path.isfile(path=HERE / 'value.txt') else 2",
        imports=OS,
        files={"value.txt": ""},
        changes={"value.txt": None},
    ),
    "a file that an installed package asks for": Way(
        "value = 2 if cached_file(HERE, 'late.txt', _raise_exceptions_for_missing_entries=False) else 1",
        before="from transformers.utils import cached_file",
        changes={"late.txt": ""},
    ),
    "a file that conftest.py asks for as it is loaded": Way(
        "value = VALUE",
        imports="VALUE = 2 if Path(__file__).with_name('late.txt').is_file() else 1",
        changes={"late.txt": ""},
    ),
    "a file that the factory asks for": Way(
        "value = exported.example.model.value", model=ASKS, changes={"late.txt": ""}
    ),
    "a line of source": Way(
        "value = linecache.getline(str(HERE / 'value.txt'), 1)",
        imports="import linecache",
        files=FILES,
        changes=CHANGES,
    ),
    "the version of a package on the path": Way(
        "value = importlib.metadata.version('any')",
        imports="import importlib.metadata",
        files={"site/any.dist-info/METADATA": "Name: any\nVersion: 1\n"},
        changes={"site/any.dist-info/METADATA": "Name: any\nVersion: 2\n"},
        options=["-o", "pythonpath=site"],
    ),
    "the opset": Way(
        "value = 2 if any(each.version == 21 for each in exported.proto.opset_import) else 1",
        changed_options=["--hierexport-opset=21"],
    ),
    "another configuration file": Way(
        "value = config.getini('limit')",
        files={"one.ini": "[pytest]\nlimit = 1\n", "two.ini": "[pytest]\nlimit = 2\n"},
        options=["-c", "one.ini"],
        changed_options=["-c", "two.ini"],
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_verdict_is_older_than_what_was_read(project: Project, monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    set_up(project, way)
    set_variables(monkeypatch, way.variables)
    assert_kept(project.run(*MODELS, *way.options))
    write(project, way.changes)
    set_variables(monkeypatch, way.variables if way.changed_variables is None else way.changed_variables)
    options = way.options if way.changed_options is None else way.changed_options
    project.run(*MODELS, *options).assert_outcomes(failed=1, deselected=11)


def set_variables(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    monkeypatch.delenv("LIMIT", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_an_edit_that_keeps_size_and_time_counts(project: Project) -> None:
    set_up(project, Stale('value = (HERE / "value.txt").read_text()', files=FILES))
    file = project.path / "value.txt"
    os.utime(file, (1, 1))
    assert_kept(project.run(*MODELS))
    file.write_text("2")
    os.utime(file, (1, 1))
    project.run(*MODELS).assert_outcomes(failed=1, deselected=11)


def test_variables_that_are_not_read_leave_a_verdict(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(project, Stale("import os; os.environ['OWN'] = '2'; value = 1 if os.environ['OWN'] else 2"))
    for number in "123":
        monkeypatch.setenv("NOT_READ", number)
        assert_kept(project.run(*MODELS))
    assert project.builds == 1
