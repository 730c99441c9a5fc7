"""MUST-001: no hardcoded names.

Fragments of exporters are decided by both halves together, on the toy model.

In the source: a string that names a class, module, parameter or node of a model under test, used to decide something
(comparison, `in`, `startswith`, regex, match, lookup) about an expression that yields a name of the model
(`__name__`, `named_*`, a path, a scope, a node's name, and what is computed from them). The forbidden words come from
the models themselves; our own package has no finding and no waiver.

In behaviour: rename every class, and every attribute that is no list index or dict key, through generated subclasses
that still resolve the old names, and export again: the tags must be the renamed tags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import pytest_hierexport
import toy_models
from exporters import ASKING
from fragments import broken_by, configured
from hardcoded import PAIRS
from innocent import INNOCENT
from pairs import Pair, source
from pytest_hierexport import Export, export, walk
from pytest_hierexport._calls.attribution import Attribution, Origin
from pytest_hierexport._calls.hierarchy import Call
from pytest_hierexport._cases import Case, Example, select
from pytest_hierexport._onnx.storage import attach
from pytest_hierexport._rules.base import ExportedCase, Exporter
from pytest_hierexport._rules.hardcoded import exporter_sources, violations
from pytest_hierexport._rules.renamed_export import renaming_violations
from pytest_hierexport._rules.source import words_of
from toys import breaks, exported


def findings(folder: Path, block: str) -> list[str]:
    """Return what is found in an exporter's source."""
    path = folder / "exporter.py"
    path.write_text(source(block), encoding="utf-8")
    return [violation.found for violation in violations((path,), words_of(configured()[0]), "export")]


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.title for pair in PAIRS])
class TestFragments:
    """Most fragments break both halves; what the source half finds is not run."""

    def test_that_decide_by_a_name_of_the_model_are_found(self, pair: Pair, tmp_path: Path) -> None:
        assert findings(tmp_path, pair.hardcoded) or broken_by(tmp_path / "exporter.py")

    def test_that_decide_by_something_else_are_not(self, pair: Pair, tmp_path: Path) -> None:
        (tmp_path / "exporter.py").write_text(source(pair.repaired), encoding="utf-8")
        assert not broken_by(tmp_path / "exporter.py")


@pytest.mark.parametrize("title", INNOCENT)
def test_words_that_decide_nothing_about_a_name_are_innocent(title: str, tmp_path: Path) -> None:
    assert not findings(tmp_path, INNOCENT[title])


def test_the_forbidden_words_are_those_of_the_model_under_test(tmp_path: Path) -> None:
    path = tmp_path / "exporter.py"
    path.write_text("def is_gate(path):\n    return 'gate' in path\n", encoding="utf-8")

    class Gated(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = torch.nn.Linear(2, 2)

    assert not list(violations((path,), words_of(toy_models.BertModel())))
    (violation,) = violations((path,), words_of(Gated()))
    assert violation.where == "exporter.py:2"
    assert violation.found == "'gate' decides `'gate' in path`: gate is a module or parameter of the model"


def test_model_type_of_a_configuration_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "exporter.py"
    path.write_text("def depth(model):\n    return {'page_reader': 2}.get(model.config.model_type, 9)\n")
    model = toy_models.BertModel()
    assert not list(violations((path,), words_of(model)))
    vars(model)["config"] = SimpleNamespace(model_type="page_reader")
    (violation,) = violations((path,), words_of(model))
    assert "'page_reader' decides `{'page_reader': 2}.get(" in violation.found
    assert violation.found.endswith("page_reader is the type of the model")


def test_finding_names_the_nearest_name_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "exporter.py"
    path.write_text("def depth(path):\n    return path.startswith('encoder.layer.1') or 'pooler' in path\n")
    found = [violation.found for violation in violations((path,), words_of(toy_models.BertModel()))]
    assert found == [
        "'pooler' decides `'pooler' in path`: pooler is a module or parameter of the model",
        "'encoder.layer.1' decides `path.startswith('encoder.layer.1')`: encoder.layer.1 is a path of the model",
    ]


def test_template_for_an_import_is_told_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "exporter.py"
    path.write_text(
        "from importlib import import_module\n"
        "def load(model):\n    return import_module(f'exporters.{model.config.model_type}')\n"
    )
    (violation,) = violations((path,), words_of(toy_models.BertModel()))
    assert violation.found.startswith("'exporters.…' decides `import_module(")
    assert violation.found.endswith(": a name of the model is put into it")


def move_tags(chosen: Callable[[Call], bool]) -> Exporter:
    """Make an exporter that gives the nodes of chosen calls to the parent of the call."""

    def moved(case: Case, example: Example, path: Path) -> Export:
        made = export(example.model, example.args, example.kwargs, exporter=case.exporter)
        calls = made.attribution.hierarchy

        def above(origin: Origin) -> Origin:
            call = calls[origin.call]
            return Origin(call.parent or "", origin.evidence) if chosen(call) else origin

        nodes = {key: tuple(map(above, origins)) for key, origins in made.attribution.nodes.items()}
        attribution = Attribution(calls, nodes, made.attribution.initializers)
        attach(made.model, attribution)
        result = replace(made, attribution=attribution)
        result.save(path)
        return result

    return moved


def in_behaviour(case: ExportedCase) -> list[str]:
    """Return where an export under other names is another one; what the source says is left out."""
    return [violation.where for violation in breaks("MUST-001", case) if ".py:" not in violation.where]


class TestBehaviour:
    def test_exporter_that_depends_on_a_class_name_is_found(self, tmp_path: Path) -> None:
        case = exported(tmp_path, exporter=move_tags(lambda call: call.class_name == "BertAttention"))
        assert in_behaviour(case)

    def test_one_that_treats_all_classes_equally_is_not(self, tmp_path: Path) -> None:
        case = exported(tmp_path, exporter=move_tags(lambda call: call.index > 0))
        assert not in_behaviour(case)

    def test_exporter_that_depends_on_an_attribute_name_is_found(self, tmp_path: Path) -> None:
        case = exported(tmp_path, exporter=move_tags(lambda call: call.path.endswith("attention")))
        assert in_behaviour(case)

    def test_exporter_that_depends_on_a_list_index_passes(self, tmp_path: Path) -> None:
        case = exported(tmp_path, exporter=move_tags(lambda call: call.path.endswith(".1")))
        assert not in_behaviour(case)


def note(value: Callable[[Call], str]) -> Exporter:
    """Make an exporter that writes something about the call of each node into its metadata."""

    def noted(case: Case, example: Example, path: Path) -> Export:
        made = export(example.model, example.args, example.kwargs, exporter=case.exporter)
        for key, node in walk(made.model):
            node.metadata_props["note"] = value(made.attribution.hierarchy[made.attribution.nodes[key][0].call])
        made.save(path)
        return made

    return noted


class TestMetadataOfTheExportersOwn:
    def test_that_only_named_modules_have_is_found(self, tmp_path: Path) -> None:
        case = exported(tmp_path, exporter=note(lambda call: "4" if call.path.endswith("attention") else "8"))
        assert breaks("MUST-001", case)[0].expected == "note = '4'"

    def test_that_is_a_name_is_not(self, tmp_path: Path) -> None:
        assert not in_behaviour(exported(tmp_path, exporter=note(lambda call: call.path.rpartition(".")[2])))

    def test_that_is_computed_from_any_name_is_not(self, tmp_path: Path) -> None:
        assert not in_behaviour(exported(tmp_path, exporter=note(lambda call: str(sum(map(ord, call.path)) % 5))))


EXPORTER = """
from pytest_hierexport import export

def try_(ask):
    try:
        return ask()
    except AttributeError:
        return None

def run(model, args, kwargs, path):
    {}
    export(model, args, kwargs, exporter="dynamo").save(path)
"""


def run_as_exporter(folder: Path, line: str) -> list[str]:
    """Return where and why an exporter with one more line differs under other names."""
    source_file = folder / "own.py"
    source_file.write_text(EXPORTER.format(line), encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(compile(source_file.read_text(), str(source_file), "exec"), namespace)  # noqa: S102  # the exporter under test

    def call(case: Case, example: Example, path: Path) -> None:
        namespace["run"](example.model, example.args, dict(example.kwargs), path)

    case = exported(folder, exporter=call)
    again = ExportedCase(case.case, case.path, case.example, exporter_source=source_file, exporter=call)
    return [f"{v.where}: {v.found}" for v in renaming_violations(again, exporter_sources(again))]


@pytest.mark.parametrize("pair", ASKING, ids=[pair.title for pair in ASKING])
class TestOldNames:
    def test_asked_for_by_the_exporter_are_found_with_their_line(self, pair: Pair, tmp_path: Path) -> None:
        found = run_as_exporter(tmp_path, pair.hardcoded)
        assert found
        assert all(violation.startswith("own.py:11: ") for violation in found)

    def test_asked_for_by_the_model_alone_are_not(self, pair: Pair, tmp_path: Path) -> None:
        assert not run_as_exporter(tmp_path, pair.repaired)


def test_our_own_exporter_passes(tmp_path: Path) -> None:
    assert not breaks("MUST-001", exported(tmp_path))


def test_our_own_source_knows_no_name_of_the_zoo() -> None:
    package = Path(pytest_hierexport.__file__).parent
    # The rules check an exporter, and compare its constants with names: they are no part of one.
    files = tuple(sorted(path for path in package.rglob("*.py") if package / "_rules" not in path.parents))
    models = [words_of(case.load().model) for case in select(["all"], package)]
    assert not [violation for words in models for violation in violations(files, words)]


def test_our_own_source_is_no_matter_of_the_users_model(tmp_path: Path) -> None:
    case = exported(tmp_path)
    assert not exporter_sources(ExportedCase(case.case, case.path))


def test_a_projects_own_exporter_is_read_where_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_exporter.py").write_text("from own_tables import TABLE\ndef run(model, path):\n    return TABLE\n")
    (tmp_path / "own_tables.py").write_text("TABLE = {}\n")
    (tmp_path / "unrelated.py").write_text("TABLE = {}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    case = ExportedCase(exported(tmp_path).case, tmp_path, exporter_name="own_exporter:run")
    assert {path.name for path in exporter_sources(case)} == {"own_exporter.py", "own_tables.py"}
