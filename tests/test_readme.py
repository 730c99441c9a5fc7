from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
DIRECTIVE = re.compile(
    r"<!-- (?P<kind>file|run|replace)(?:: (?P<value>.*?))? -->\n(?:```\w*\n(?P<body>.*?)```)?", re.DOTALL
)

# The plugin registers itself where the package is installed.
PLUGIN = [] if entry_points(group="pytest11", name="hierexport") else ["-p", "pytest_hierexport.plugin"]
PROGRAMS = {
    "pytest": ["-m", "pytest", "-p", "no:cacheprovider", *PLUGIN],
    "hierexport": ["-c", "import sys; from pytest_hierexport.cli import main; sys.exit(main())"],
}


@dataclass(frozen=True)
class Command:
    """A line that a person types, and what README says it prints."""

    line: str
    output: tuple[str, ...]


def commands(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, *output = part.splitlines()
        yield Command(line, tuple(printed for printed in output if printed.strip()))


def run(command: Command, folder: Path) -> str:
    program, *arguments = shlex.split(command.line, comments=True)
    if program == "cat":
        return (folder / arguments[0]).read_text(encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"}
    result = subprocess.run(
        [sys.executable, *PROGRAMS[program], *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout + result.stderr


def pattern(line: str) -> re.Pattern[str]:
    """Match the line as README shows it, where `…` stands for anything."""
    return re.compile(".*".join(map(re.escape, line.rstrip().split("…"))))


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """An empty folder: no configuration, no test file."""
    return tmp_path


def test_the_first_screen_prints_what_it_says(example: Path) -> None:
    model = example / "my_model.py"
    ran = 0
    for found in DIRECTIVE.finditer(README.read_text(encoding="utf-8")):
        if found["kind"] == "file":
            (example / found["value"]).write_text(found["body"], encoding="utf-8")
        elif found["kind"] == "replace":
            old, _, new = found["value"].partition(" -> ")
            assert old in model.read_text(encoding="utf-8")
            model.write_text(model.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        else:
            for command in commands(found["body"]):
                printed = [line.rstrip() for line in run(command, example).splitlines()]
                missing = [line for line in command.output if not any(map(pattern(line).fullmatch, printed))]
                assert not missing, "\n".join(["README says, but it is not printed:", *missing, "printed:", *printed])
                ran += 1
    assert ran >= 5
