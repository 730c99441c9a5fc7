"""How values are followed through an exporter's source: `pytest_hierexport._rules.source`.

The counterexamples of MUST-001 stand in `musts`; here is what they rest on.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from pytest_hierexport._rules.source import Check, Decision, decisions, words_of


def decided(folder: Path, **files: str) -> dict[str, frozenset[str]]:
    """Return the constants that decide about names in source files, by the code that does it."""
    paths = []
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return {decision.code: decision.constants for decision in decisions(tuple(paths))}


def test_added_keywords_decide_nothing(tmp_path: Path) -> None:
    assert not decided(tmp_path, exporter="def f(torch, a, b):\n    return torch.add(input=a, other=b)\n")


class TestFlow:
    def test_results_of_our_own_api_hold_names(self, tmp_path: Path) -> None:
        source = (
            "def f(attribution):\n"
            "    return [o.call.startswith('block.') for origins in attribution.nodes.values() for o in origins]\n"
        )
        assert decided(tmp_path, exporter=source) == {"o.call.startswith('block.')": frozenset({"block."})}

    def test_constants_come_from_another_module(self, tmp_path: Path) -> None:
        found = decided(
            tmp_path,
            tables="TABLE = {'Block': 1}\n",
            exporter="from tables import TABLE\ndef f(m):\n    return TABLE[type(m).__name__]\n",
        )
        assert found == {"TABLE[type(m).__name__]": frozenset({"Block"})}

    def test_names_go_into_functions_and_come_back(self, tmp_path: Path) -> None:
        source = (
            "def _last(text):\n    return text.split('.')[-1]\n"
            "def f(model):\n    return [_last(n) == 'block' for n, _ in model.named_modules()]\n"
        )
        assert "_last(n) == 'block'" in decided(tmp_path, exporter=source)

    def test_a_helper_that_no_name_reaches_is_innocent(self, tmp_path: Path) -> None:
        source = (
            "def _last(text):\n    return text.split('.')[-1] == 'block'\n"
            "def f(node):\n    return _last(node.op_type)\n"
        )
        assert not decided(tmp_path, exporter=source)

    def test_the_objects_beside_the_names_are_no_names(self, tmp_path: Path) -> None:
        source = (
            "def f(model):\n    kinds = {n: str(t.dtype) for n, t in model.named_parameters()}\n"
            "    return [n for n, kind in kinds.items() if kind == 'block']\n"
        )
        assert not decided(tmp_path, exporter=source)

    def test_identity_with_a_class_is_a_decision(self, tmp_path: Path) -> None:
        source = "from models import Block\ndef f(m):\n    return type(m) is Block, type(m) in {Block: 1}\n"
        assert decided(tmp_path, exporter=source) == {
            "type(m) is Block": frozenset({"models.Block"}),
            "type(m) in {Block: 1}": frozenset({"models.Block"}),
        }

    def test_a_member_of_a_derived_class_is_compared_with(self, tmp_path: Path) -> None:
        source = (
            "class Base:\n    part = ''\n    def takes(self, path):\n        return path.endswith(self.part)\n"
            "class Mine(Base):\n    part = 'block'\n"
        )
        assert "path.endswith(self.part)" in decided(tmp_path, exporter=source)

    def test_texts_grown_in_a_loop_come_to_an_end(self, tmp_path: Path) -> None:
        source = (
            "def f(name):\n    key = 'a'\n    while key not in name:\n        key = key + 'b'\n    return key\n"
            "def g(text, n):\n    return g(text + 'x', n - 1) if n else text\n"
            "def h(model):\n    return [g('block', 3) == n for n, _ in model.named_modules()]\n"
        )
        assert "key not in name" in decided(tmp_path, exporter=source)

    def test_the_line_and_the_kind_are_told(self, tmp_path: Path) -> None:
        path = tmp_path / "exporter.py"
        path.write_text("\n\ndef f(path):\n    return path.endswith('block')\n", encoding="utf-8")
        (decision,) = decisions((path,))
        assert (decision.path, decision.line, decision.check) == (path, 4, Check.SUFFIX)

    def test_the_findings_do_not_depend_on_hash_seeds(self, tmp_path: Path) -> None:
        program = (
            "import sys; from pathlib import Path; from pytest_hierexport._rules.source import decisions\n"
            "files = tuple(sorted(Path(sys.argv[1]).rglob('*.py')))\n"
            "print([(str(d.path), d.line, d.code, d.check, sorted(d.constants)) for d in decisions(files)])\n"
        )
        folder = Path(sys.modules["pytest_hierexport._rules.source"].__path__[0])
        told = {
            subprocess.run(
                [sys.executable, "-c", program, str(folder)],
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                check=True,
                capture_output=True,
                timeout=120,
            ).stdout
            for seed in ("1", "2")
        }
        assert len(told) == 1


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_table = nn.Embedding(2, 2)
        self.q = nn.Parameter(torch.ones(1))


class TestWords:
    @pytest.mark.parametrize(
        ("code", "spells"),
        [
            ("name == 'Gate'", "Gate"),
            ("name == 'word_table'", "word_table"),
            ("name == 'word_table.weight'", "word_table.weight"),
            ("name == 'Embedding'", "torch.nn.modules.sparse.Embedding"),
            ("name.split('_')[0] == 'word'", "word_table"),
            ("'embed' in name.lower()", "torch.nn.modules.sparse.Embedding"),
            ("name.startswith('word_')", "word_table"),
            ("name.endswith('.weight')", "weight"),
            ("name == f'word_table.{name}'", "word_table.weight"),
            ("name.startswith(f'word_{name}')", "word_table"),
            ("re.split('[.]', name)[0] == 'word'", "word_table"),
        ],
    )
    def test_of_the_model_are_found(self, code: str, spells: str, tmp_path: Path) -> None:
        assert self.spelled(code, tmp_path) == [spells]

    @pytest.mark.parametrize(
        "code",
        [
            "name == 'word'",
            "name == 'gates'",
            "name.startswith('able')",
            "'.' in name",
            "'0' in name",
            "name.startswith('torch.nn.')",
            "name.startswith('torch.nn.modules.')",
            "name.endswith('_q_')",
            "name == 'q'",
            "name == f'old_{name}_table'",
            "name.endswith('.able')",
            "name.startswith('my word_table')",
            "name.endswith('table.')",
        ],
    )
    def test_that_spell_no_name_of_it_are_not(self, code: str, tmp_path: Path) -> None:
        assert not self.spelled(code, tmp_path)

    def test_those_of_a_part_that_torchscript_compiled_are_among_them(self) -> None:
        compiled = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2)))
        assert {"weight", "bias"} <= words_of(compiled).attributes

    @staticmethod
    def spelled(code: str, folder: Path) -> list[str]:
        words = words_of(Gate())
        path = folder / "exporter.py"
        path.write_text(f"import re\ndef f(name):\n    return {code}\n", encoding="utf-8")
        found: list[Decision] = [*decisions((path,))]
        names = [spelled.reason.partition(" is ")[0] for decision in found for spelled in words.spelled(decision)]
        return [name.removeprefix(f"{__name__}.") for name in names]
