"""The table that `make matrix` writes, and what it takes from `matrix.toml`."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks import matrix
from benchmarks.matrix import BEGIN, COLUMNS, END, ROOT, STATED, Outcome, Row, constraints, read_rows, read_toml, write

ROWS = ["old", "new"]


def outcome(name: str, rules: str) -> Outcome:
    return Outcome(Row(name, "what for", "3.11"), "3.11.7", {"torch": "2.9.0"}, "pass", rules, "1 of 1", "5 passed")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "versions.md"
    path.write_text(f"before\n{BEGIN}\n{END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(matrix, "PAGE", path)
    return path


def test_a_row_replaces_its_older_self_and_leaves_others(page: Path) -> None:
    for name, rules in (("new", "9 of 10"), ("old", "all 10"), ("new", "all 10")):
        write(outcome(name, rules), ROWS)
    head, line, old, new = page.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].strip().splitlines()
    assert len(head.split("|")) == len(line.split("|")) == len(old.split("|")) == len(COLUMNS) + 2
    assert old.startswith("| `old`: what for | 3.11.7 | 2.9.0 | - |")
    assert "| all 10 |" in new
    assert page.read_text(encoding="utf-8").endswith(f"{END}\nafter\n")


def test_another_torch_takes_the_place_of_the_constraint(tmp_path: Path) -> None:
    row = Row("oldest", "", "3.10", "constraints-oldest.txt", torch="2.13.0")
    (_, path) = constraints(row, tmp_path)
    names = {line.partition("==")[0] for line in Path(path).read_text(encoding="utf-8").splitlines()}
    assert "onnx" in names
    assert "torch" not in names


def test_the_oldest_constraints_are_the_bounds_of_the_package() -> None:
    stated = read_toml(ROOT / "pyproject.toml")["project"]
    lines = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8").splitlines()
    held = dict(line.split("==") for line in lines if "==" in line)
    bounds = [Requirement(each) for each in (*stated["dependencies"], *stated["optional-dependencies"]["zoo"])]
    for each in bounds:
        (lowest,) = (specifier.version for specifier in each.specifier if specifier.operator == ">=")
        assert f"{held[each.name]}.0".startswith(f"{lowest}."), each
    rows = read_rows(read_toml(STATED))
    assert stated["requires-python"] == f">={rows['oldest'].python}"


def test_the_files_that_rows_name_exist() -> None:
    stated = read_toml(STATED)
    rows = read_rows(stated)
    assert all((ROOT / test).is_file() for test in stated["tests"])
    assert all((ROOT / row.constraints).exists() for row in rows.values())
