"""More of what decides about a verdict: which module Python finds, and the kinds of data that a model is made from."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable

import pytest

from projects import Project
from test_cache_precise import append, cold, write_models
from test_cache_stale import CONFTEST, MODELS, OTHER, Stale, assert_kept, set_up, write

FIND_SPEC = "value = 1 if importlib.util.find_spec('extra') is None else 2"
PACKAGE = {"helper.py": OTHER.format(1)}
OWN = {"own/one.txt": "", "own/deep/any.txt": ""}

MODULES = {
    "a package beside a module of its name": Stale(
        "from helper import value", files=PACKAGE, changes={"helper/__init__.py": OTHER.format(2)}
    ),
    "a namespace package that becomes a package": Stale(
        "import own; value = getattr(own, 'value', 1)", files=OWN, changes={"own/__init__.py": OTHER.format(2)}
    ),
    "a second folder of a namespace package": Stale(
        "import own; value = len(own.__path__)",
        files={"one/own/any.txt": "", "two/any.txt": ""},
        changes={"two/own/any.txt": ""},
        options=["-o", "pythonpath=one two"],
    ),
    "a module of a package that appears": Stale(
        "import own; value = 1 if importlib.util.find_spec('own.extra') is None else 2",
        imports="import importlib.util",
        files={"own/__init__.py": ""},
        changes={"own/extra.py": ""},
    ),
    "a module that is asked for": Stale(FIND_SPEC, imports="import importlib.util", changes={"extra.py": ""}),
    "a module in place of the standard library's": Stale(
        "import wave; value = getattr(wave, 'value', 1)", changes={"wave.py": OTHER.format(2)}
    ),
    "a folder of the path that comes": Stale(
        "from helper import value",
        files={"library/helper.py": OTHER.format(1)},
        changes={"nearer/helper.py": OTHER.format(2)},
        options=["-o", "pythonpath=nearer library"],
    ),
    "names of a package's resources": Stale(
        "value = sum(each.name.endswith('.txt') for each in importlib.resources.files('own').iterdir())",
        imports="import importlib.resources",
        files={**OWN, "own/__init__.py": ""},
        changes={"own/two.txt": ""},
    ),
    "names of a namespace package's resources": Stale(
        "value = sum(each.name.endswith('.txt') for each in importlib.resources.files('own').iterdir())",
        imports="import importlib.resources",
        files=OWN,
        changes={"own/two.txt": ""},
    ),
    "the rule itself": Stale(
        "value = 1",
        changes={"conftest.py": CONFTEST.format(imports="", before="pass", check="value = 2")},
    ),
    "code that is run from a file": Stale(
        "value = runpy.run_path(HERE / 'settings.txt')['value']",
        imports="import runpy",
        files={"settings.txt": OTHER.format(1)},
        changes={"settings.txt": OTHER.format(2)},
    ),
    "code that is executed as a text": Stale(
        "names = {}; exec((HERE / 'settings.txt').read_text(), names); value = names['value']",
        files={"settings.txt": OTHER.format(1)},
        changes={"settings.txt": OTHER.format(2)},
    ),
}


@pytest.mark.parametrize("case", MODULES.values(), ids=MODULES)
def test_no_verdict_is_older_than_the_modules_found(project: Project, case: Stale) -> None:
    set_up(project, case)
    assert_kept(project.run(*MODELS, *case.options))
    write(project, case.changes)
    project.run(*MODELS, *case.options).assert_outcomes(failed=1, deselected=11)


def test_a_module_in_place_of_a_packages_counts(project: Project) -> None:
    set_up(project, Stale("import fsspec; value = getattr(fsspec, 'value', 1)"))
    # Only a new process has not loaded the package yet.
    assert_kept(project.process(*MODELS))
    project.write("fsspec.py", OTHER.format(2))
    assert project.process(*MODELS).parseoutcomes() == {"failed": 1, "deselected": 11}


def zipped(project: Project, value: int) -> None:
    with zipfile.ZipFile(project.path / "library.zip", "w") as library:
        library.writestr("helper.py", OTHER.format(value) + "#" * value)


def stored(project: Project, value: int) -> None:
    connection = sqlite3.connect(project.path / "any.db")
    connection.execute("create table if not exists any (value)")
    connection.execute("insert into any values (?)", [value])
    connection.commit()
    connection.close()


def linked(project: Project, value: int) -> None:
    for number in (1, 2):
        project.write(f"{number}.txt", str(number))
    link = project.path / "link.txt"
    link.unlink(missing_ok=True)
    link.symlink_to(f"{value}.txt")


DATA: dict[str, tuple[str, Callable[[Project, int], None]]] = {
    "a module in an archive": (
        "import sys; sys.path.insert(0, str(HERE / 'library.zip')); from helper import value",
        zipped,
    ),
    "a database": (
        "import sqlite3; value = max(sqlite3.connect(HERE / 'any.db').execute(QUERY))[0]",
        stored,
    ),
    "a database by its address": (
        "import sqlite3; value = max(sqlite3.connect(f'file:{HERE}/any.db', uri=True).execute(QUERY))[0]",
        stored,
    ),
    "a link that points elsewhere": ("value = (HERE / 'link.txt').read_text()", linked),
}


@pytest.mark.parametrize("way", DATA.values(), ids=DATA)
def test_no_verdict_is_older_than_its_data(project: Project, way: tuple[str, Callable[[Project, int], None]]) -> None:
    check, make = way
    make(project, 1)
    set_up(project, Stale(check, imports="QUERY = 'select value from any'"))
    assert_kept(project.run(*MODELS))
    make(project, 2)
    project.run(*MODELS).assert_outcomes(failed=1, deselected=11)


def test_the_configuration_of_a_checkpoint_counts(project: Project) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=9
    )
    transformers.BertModel(config).save_pretrained(project.path / "tiny")
    set_up(project, Stale("value = exported.example.model.config.hidden_act.replace('gelu', '1')"))
    arguments = ("--hierexport-models=tiny", *MODELS[1:])
    assert_kept(project.run(*arguments))
    file = project.path / "tiny" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "hidden_act": "relu"}))
    project.run(*arguments).assert_outcomes(failed=1, deselected=11)


def test_the_tolerance_of_a_manifest_counts(project: Project) -> None:
    manifest = "[models.build]\nmodel = 'my_model.py::build'\ntolerances.float32 = {}\n"
    set_up(project, Stale("value = 1 if exported.case.tolerances['float32'] < 0.1 else 2"))
    arguments = ("--hierexport-models=models.toml", *MODELS[1:])
    project.write("models.toml", manifest.format(0.01))
    assert_kept(project.run(*arguments))
    project.write("models.toml", manifest.format(0.5))
    project.run(*arguments).assert_outcomes(failed=1, deselected=11)


def test_a_loaded_module_counts_with_the_places_before_it(project: Project) -> None:
    write_models(
        project, {"first": ("import helper", "pass"), "second": ("import helper", "pass"), "third": ("", "pass")}
    )
    project.write("library/helper.py", "")
    project.write("nearer/any.txt", "")
    path = ("-o", "pythonpath=. nearer library")
    assert cold(project, *path) == {"first", "second", "third"}
    project.write("nearer/other.py", "")
    assert cold(project, *path) == set()
    project.write("nearer/helper.py", "")
    assert cold(project, *path) == {"first", "second"}


@pytest.mark.parametrize(
    "start", ["__import__('subprocess').run(['true'])", "__import__('os').fork() or __import__('os')._exit(0)"]
)
def test_only_the_model_that_starts_a_program_is_cold(project: Project, start: str) -> None:
    write_models(project, {"first": ("", start), "second": ("", "pass"), "third": ("", "pass")})
    assert cold(project) == {"first", "second", "third"}
    assert cold(project) == {"first"}
    append(project.path / "nets" / "third.py")
    assert cold(project) == {"first", "third"}
