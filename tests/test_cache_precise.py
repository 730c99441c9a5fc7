"""What makes a model cold: a change of something that it read, and of nothing that only other models read."""

from __future__ import annotations

from pathlib import Path

import pytest

from projects import Project

ARGUMENTS = ("--hierexport-cache=cache", "-k", "MUST-002")
NAMES = ("one", "two", "three")
HELPER = """
import logging
from functools import cache
from pathlib import Path
from typing import Optional

import torch
from torch import nn

HERE = Path(__file__).parent
LIMITS: dict = {"width": 4}
SCALE = torch.ones(1)
log = logging.getLogger(__name__)

class Head(nn.Module):
    def __init__(self, width: int, bias: Optional[bool] = True) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * SCALE

def read(name: str) -> str:
    log.info("reading %s", name)
    return (HERE / name).read_text()

def built(name: str) -> None:
    with open(HERE / f"{name}.log", "a") as opened:
        opened.write("built\\n")
"""
WITH_HELPER = """
import torch
import helper

def build():
    helper.built("{name}")
    helper.read("{name}.txt")
    return helper.Head(helper.LIMITS["width"]).eval(), (torch.ones(2, 4),)
"""
WITHOUT = """
import os
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        import late
        return self.linear(x) * late.FACTOR

def build():
    import json
    try:
        import extra
    except ImportError:
        pass
    os.environ.get("SIZE")
    with open(os.path.join(os.path.dirname(__file__), "three.log"), "a") as opened:
        opened.write("built\\n")
    return Net().eval(), (torch.ones(2, 4),)
"""


CONFTEST = """
import enum
import logging
from dataclasses import dataclass, field
from os import environ
from pathlib import Path

import pytest
from pytest_hierexport import Rule

log = logging.getLogger("project")
HERE = Path(__file__).parent
pytestmark = pytest.mark.skip(reason="any")

class Kind(enum.Enum):
    SMALL = 1

@dataclass
class Limits:
    sizes: dict[str, int] = field(default_factory=dict)

LIMITS = Limits({"small": 4})

@pytest.fixture(scope="session")
def limits() -> Limits:
    return LIMITS

@pytest.fixture(autouse=True)
def noted(request):
    log.info("%s in %s for %s", request.node.name, HERE / "any", Kind.SMALL)
    yield

def pytest_hierexport_rules(config):
    return [Rule("MUST-002b", "nothing", lambda exported: [])]
"""


@pytest.fixture
def three(project: Project) -> Project:
    """Give a project of three models, two of which share a module, with a usual conftest.py."""
    project.write("conftest.py", CONFTEST)
    project.write("helper.py", HELPER)
    for name in ("one", "two"):
        project.write(f"{name}.py", WITH_HELPER.format(name=name))
        project.write(f"{name}.txt", "any")
    project.write("three.py", WITHOUT)
    project.write("late.py", "FACTOR = 2.0\n")
    project.write("models.toml", "".join(f'[models.{name}]\nmodel = "{name}.py::build"\n' for name in NAMES))
    return project


def cold(project: Project, *arguments: str, models: str = "models.toml") -> set[str]:
    """Run, and return the names of the models that were built."""
    before = logs(project)
    assert project.run(f"--hierexport-models={models}", *ARGUMENTS, *arguments).ret == 0
    return {name for name, content in logs(project).items() if before.get(name) != content}


def logs(project: Project) -> dict[str, str]:
    return {path.stem: path.read_text() for path in project.path.glob("*.log")}


def append(file: Path, text: str = "# a comment\n") -> None:
    with file.open("a") as opened:
        opened.write(text)


def test_an_edit_makes_only_its_readers_cold(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cold(three, "-n0") == set(NAMES)
    assert cold(three, "-n0") == set()
    for file, readers in {
        "one.py": {"one"},
        "helper.py": {"one", "two"},
        "one.txt": {"one"},
        "two.txt": {"two"},
        "late.py": {"three"},
        "README.md": set(),
        "not_asked.py": set(),
    }.items():
        append(three.path / file)
        assert (file, cold(three, "-n0")) == (file, readers)
    monkeypatch.setenv("SIZE", "2")
    assert cold(three, "-n0") == {"three"}
    three.write("extra.py", "")
    assert cold(three, "-n0") == {"three"}
    append(three.path / "models.toml", "inputs.x = { shape = [3, 4] }\n")
    assert cold(three, "-n0") == {"three"}


def test_models_on_workers_are_as_apart(three: Project) -> None:
    assert cold(three, "-n2") == set(NAMES)
    append(three.path / "one.py")
    assert cold(three, "-n2") == {"one"}
    append(three.path / "helper.py")
    assert cold(three, "-n2") == {"one", "two"}


NET = """
import torch
from pathlib import Path
from torch import nn
{above}
HERE = Path(__file__).parent

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)

def build():
    {inside}
    with open(HERE / "{name}.log", "a") as opened:
        opened.write("built\\n")
    return Net().eval(), (torch.ones(2, 4),)
"""


def write_models(project: Project, models: dict[str, tuple[str, str]]) -> None:
    """Write a package with a model in each module, given what is above its class and what its factory begins with."""
    project.write("nets/__init__.py", "")
    for name, (above, inside) in models.items():
        project.write(
            f"nets/{name}.py", NET.format(name=name, above=above, inside=inside).replace("HERE /", "HERE.parent /")
        )
    project.write("models.toml", "".join(f'[models.{name}]\nmodel = "nets.{name}:build"\n' for name in models))


WAYS = {
    "first": ("import helper", "pass"),
    "name": ("from helper import VALUE", "pass"),
    "inside": ("", "import helper"),
    "again": ("", "from helper import VALUE"),
    "importlib": ("import importlib", "importlib.import_module('helper')"),
    "function": ("", "__import__('helper')"),
    "through": ("from . import between", "pass"),
    "beside": ("", "pass"),
}


def test_a_loaded_module_counts_however_it_is_imported(project: Project) -> None:
    write_models(project, WAYS)
    helper = project.write("helper.py", "VALUE = 1\n")
    project.write("nets/between.py", "from .deep.below import VALUE\n")
    project.write("nets/deep/below.py", "from helper import VALUE\n")
    assert cold(project) == WAYS.keys()
    append(helper)
    assert cold(project) == WAYS.keys() - {"beside"}
    append(project.path / "nets" / "deep" / "below.py")
    assert cold(project) == {"through"}
    append(project.path / "nets" / "first.py")
    assert cold(project) == {"first"}


LAZY = """
import importlib

def __getattr__(name):
    return importlib.import_module(f"parts.{name}")
"""


@pytest.mark.parametrize(
    ("package", "above", "inside"),
    [
        ("__all__ = ['layers']\n", "from parts import *", "layers.VALUE"),
        (LAZY, "import parts", "parts.layers.VALUE"),
    ],
    ids=["star", "lazy"],
)
def test_modules_that_a_package_provides_by_name_count(project: Project, package: str, above: str, inside: str) -> None:
    write_models(project, dict.fromkeys(("first", "second"), (above, inside)))
    project.write("parts/__init__.py", package)
    layers = project.write("parts/layers.py", "VALUE = 1\n")
    assert cold(project) == {"first", "second"}
    append(layers)
    assert cold(project) == {"first", "second"}


def test_no_result_depends_on_what_pytest_remembers(three: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMEMBERED", "own")
    three.write("pytest.ini", "[pytest]\ncache_dir = $REMEMBERED/cache\n")
    three.write("tests/test_any.py", "def test_any():\n    assert False\n")
    assert cold(three, "models.toml") == {*NAMES}
    three.run("tests")
    assert cold(three, "models.toml") == set()


def test_what_says_nothing_of_a_model_leaves_its_results(three: Project) -> None:
    assert cold(three) == {*NAMES}
    assert cold(three, models="models.toml::one") == set()
    for _ in "12":
        assert cold(three, "--hierexport-shard=1/1", "--hierexport-store-durations") == set()
    append(three.path / "models.toml", "known_failures = [{ rule = 'MUST-005', until = 2999-01-01, reason = 'any' }]\n")
    assert cold(three) == set()


KEPT = {
    "a cache": ("load()", "load()"),
    "an entry of a dict": ("KNOWN['value'] = read()", "KNOWN"),
    "a name": ("shared.value = read()", "value"),
    "a default": ("remember(read())", "remember"),
    "an object": ("BOX.value = read()", "BOX.value"),
    "a class": ("Box.value = read()", "BOX"),
    "a package's decorator": ("shape.register(float, partial(max, read()))", "shape"),
}
SHARED = """
import shared
from functools import cache, partial, singledispatch
from pathlib import Path

value, KNOWN = None, {}

class Box:
    pass

BOX = Box()

def read():
    return (Path(__file__).parent / "value.txt").read_text()

@cache
def load():
    return read()

def remember(value, known=[]):
    known.append(value)

@singledispatch
def shape(value):
    return ()
"""


@pytest.mark.parametrize("way", KEPT.values(), ids=KEPT)
def test_what_a_model_leaves_in_memory_counts_for_the_next(project: Project, way: tuple[str, str]) -> None:
    first, second = way
    everything = "from shared import *; import shared"
    write_models(
        project, {"first": (everything, first), "second": (everything, f"shared.{second}"), "third": ("", "pass")}
    )
    project.write("shared.py", SHARED)
    value = project.write("value.txt", "1")
    assert cold(project) == {"first", "second", "third"}
    value.write_text("2")
    assert cold(project) == {"first", "second"}


def test_what_a_module_reads_in_threads_counts_for_its_importers(project: Project) -> None:
    importing = ("import shared", "pass")
    write_models(project, {"first": importing, "second": importing, "third": ("", "pass")})
    project.write(
        "shared.py",
        """
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path

        with ThreadPoolExecutor() as pool:
            LINES = list(pool.map(Path.read_text, [Path(__file__).parent / "value.txt"]))
        """,
    )
    value = project.write("value.txt", "1")
    assert cold(project) == {"first", "second", "third"}
    value.write_text("2")
    assert cold(project) == {"first", "second"}


def test_factories_of_one_file_are_cold_by_what_each_imports(project: Project) -> None:
    write_models(project, {"first": ("", "pass"), "second": ("", "pass")})
    project.write(
        "factories.py",
        """
        def first():
            from nets.first import build
            return build()

        def second():
            from nets.second import build
            return build()
        """,
    )
    models = "factories.py::*"
    assert cold(project, models=models) == {"first", "second"}
    for name in ("first", "second"):
        append(project.path / "nets" / f"{name}.py")
        assert cold(project, models=models) == {name}


def test_a_file_that_a_model_makes_counts_as_asked(project: Project) -> None:
    make = 'if not (HERE / "made").exists(): (HERE / "made").write_text("")'
    write_models(project, {"one": ("", make), "two": ("", "pass")})
    assert cold(project, "-n0") == {"one", "two"}
    made = project.path / "made"
    made.unlink()
    assert cold(project, "-n0") == set()
    made.touch()
    assert cold(project, "-n0") == {"one"}
    assert cold(project, "-n0") == set()


def test_files_that_a_test_asks_for_leave_models(three: Project) -> None:
    three.write(
        "test_any.py",
        """
        from pathlib import Path
        import pytest

        @pytest.mark.parametrize("name", ["MUST-002"])
        def test_any(name):
            Path("late.txt").exists()
        """,
    )
    assert cold(three, "-n0", "test_any.py") == set(NAMES)
    three.write("late.txt", "")
    assert cold(three, "-n0", "test_any.py") == set()
