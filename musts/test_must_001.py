"""MUST-001: no hardcoded names.

The model is exported once more with every class renamed, and every attribute that is no list index or dict key. The
tags must be the renamed tags. Meanwhile the exporter's own source is watched: a constant that spells a name of the
model must not decide anything about an expression that yields a name (comparison, `in`, `startswith`, regex, match,
lookup). The forbidden words come from the model under test; our own package has no finding and no waiver.

Fragments run as exporters of a toy model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pytest_hierexport
from exporters import ASKING
from fragments import broken_by
from hardcoded import PAIRS
from innocent import INNOCENT
from pairs import Pair, source
from pytest_hierexport import Export, export, walk
from pytest_hierexport._calls.attribution import Attribution, Origin
from pytest_hierexport._calls.hierarchy import Call
from pytest_hierexport._cases import Case, Example, select
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._onnx.storage import attach
from pytest_hierexport._rules.base import ExportedCase, Exporter, Violation
from pytest_hierexport._rules.must_001 import exporter_sources
from pytest_hierexport._rules.renamed_export import renaming_violations
from toys import breaks, exported


def findings(folder: Path, block: str) -> list[Violation]:
    """Return what breaks the rule in a fragment of an exporter's source."""
    path = folder / "exporter.py"
    path.write_text(source(block), encoding="utf-8")
    return broken_by(path)


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.title for pair in PAIRS])
class TestFragments:
    def test_that_decide_by_a_name_of_the_model_are_found(self, pair: Pair, tmp_path: Path) -> None:
        assert findings(tmp_path, pair.hardcoded)

    def test_that_decide_by_something_else_are_not(self, pair: Pair, tmp_path: Path) -> None:
        assert not findings(tmp_path, pair.repaired)


@pytest.mark.parametrize("title", INNOCENT)
def test_words_that_decide_nothing_about_a_name_are_innocent(title: str, tmp_path: Path) -> None:
    assert not findings(tmp_path, INNOCENT[title])


@pytest.mark.parametrize("word", ["gate", "head"])
def test_the_forbidden_words_are_those_of_the_model_under_test(word: str, tmp_path: Path) -> None:
    assert not findings(tmp_path, f"def is_gate(path):\n    return {word!r} in path\n")


def test_finding_tells_line_constant_code_and_name(tmp_path: Path) -> None:
    found = findings(tmp_path, "def depth(path):\n    return 'pooler' in path and 1\n")
    # Python 3.10 does not know where in its line an expression is.
    code = "'pooler' in path" if sys.version_info >= (3, 11) else "return 'pooler' in path and 1"
    assert (found[0].where, found[0].found) == ("exporter.py:2", f"'pooler' decides `{code}` for 'pooler'")


def test_template_for_an_import_is_told_with_its_text(tmp_path: Path) -> None:
    block = """
        from importlib import import_module
        def load(model):
            return import_module(f'exporters.{model.config.model_type}')
    """
    assert findings(tmp_path, block)[0].found.endswith("for 'exporters.bert'")


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


@pytest.mark.parametrize("name", ["bert", "llama", "vit", "t5", "mamba", "conditional", "mixtral"])
def test_our_own_source_decides_by_no_name_of_the_zoo(name: str, tmp_path: Path) -> None:
    package = Path(pytest_hierexport.__file__).parent
    # The rules run beside an export, and the zoo holds models: both are no part of an exporter.
    apart = {package / "_rules", package / "_cases" / "zoo"}
    files = [path for path in package.rglob("*.py") if apart.isdisjoint(path.parents)]
    (case,) = select([name], package)
    path = tmp_path / "model.onnx"
    example = case.load()
    served = export_case(case, example, path).exporter
    assert not list(renaming_violations(ExportedCase(case, path, example, served), files))


def test_our_own_source_is_no_matter_of_the_users_model(tmp_path: Path) -> None:
    case = exported(tmp_path)
    assert not exporter_sources(ExportedCase(case.case, case.path))


def test_a_projects_own_exporter_is_watched_with_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_exporter.py").write_text("from own_tables import TABLE\ndef run(model, path):\n    return TABLE\n")
    (tmp_path / "own_tables.py").write_text("TABLE = {}\n")
    (tmp_path / "unrelated.py").write_text("TABLE = {}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    case = ExportedCase(exported(tmp_path).case, tmp_path, exporter_name="own_exporter:run")
    assert {path.name for path in exporter_sources(case)} == {"own_exporter.py", "own_tables.py"}
