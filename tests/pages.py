"""Runs the examples of a page: the files that it shows, and the commands with what they print.

An HTML comment before a block of code says what the block is:

    <!-- file: my_model.py -->          write the block to that file
    <!-- run -->                        run each line that begins with `$ `; the lines below it are printed by it
    <!-- replace: OLD -> NEW -->        edit `my_model.py`, as the text above it says
    <!-- replace in FILE: OLD -> NEW -->

In what a command prints, `…` stands for anything. Lines may be left out; those that are shown must be printed whole.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

import pytest

from projects import SET_UP
from pytest_hierexport.cli import main

DIRECTIVE = re.compile(
    r"<!-- (?P<kind>file|run|replace)(?: in (?P<name>[^:]+))?(?:: (?P<value>.*?))? -->\n"
    r"(?:```\w*[^\n]*\n(?P<body>.*?)```)?",
    re.DOTALL,
)

# The plugin registers itself where the package is installed.
PLUGIN = [] if entry_points(group="pytest11", name="hierexport") else ["-p", "pytest_hierexport.plugin"]
PROGRAMS = {
    "pytest": ["-m", "pytest", "-p", "no:cacheprovider", *PLUGIN],
    "hierexport": ["-c", "import sys; from pytest_hierexport.cli import main; sys.exit(main())"],
    "python": [],
}


@dataclass(frozen=True)
class Command:
    """A line that a person types, and what the page says it prints."""

    line: str
    output: tuple[str, ...]


Run = Callable[[Command, Path], str]


def follow(page: Path, folder: Path, run: Run) -> int:
    """Do in a folder what a page shows, fail where a command does not print it, and return how many commands ran."""
    ran = 0
    for found in DIRECTIVE.finditer(page.read_text(encoding="utf-8")):
        if found["kind"] == "file":
            file = folder / found["value"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found["body"], encoding="utf-8")
        elif found["kind"] == "replace":
            _replace(folder / (found["name"] or "my_model.py"), found["value"])
        else:
            for command in commands(found["body"]):
                _check(command, run(command, folder), page)
                ran += 1
    return ran


def commands(body: str) -> Iterator[Command]:
    """Yield the commands of a block, each with the lines below it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, *output = part.splitlines()
        yield Command(line, tuple(printed for printed in output if printed.strip()))


def _replace(file: Path, change: str) -> None:
    old, _, new = change.partition(" -> ")
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def _check(command: Command, text: str, page: Path) -> None:
    printed = [line.rstrip() for line in text.splitlines()]
    missing = [line for line in command.output if not any(map(pattern(line).fullmatch, printed))]
    says = f"{page.name} says that `{command.line}` prints, but it does not:"
    assert not missing, "\n".join([says, *missing, "printed:", *printed])


def pattern(line: str) -> re.Pattern[str]:
    """Match the line as the page shows it, where `…` stands for anything."""
    return re.compile(".*".join(map(re.escape, line.rstrip().split("…"))))


def in_process(command: Command, folder: Path) -> str:
    """Run a command in a process of its own, as a person does."""
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


def in_fork(command: Command, folder: Path) -> str:
    """Run a command in a fork of this process: apart from it, but without the seconds that imports take."""
    program, *arguments = shlex.split(command.line, comments=True)
    if program == "cat":
        return (folder / arguments[0]).read_text(encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if child == 0:
            _become(program, arguments, folder, out.fileno())
        os.waitpid(child, 0)
        out.seek(0)
        return out.read().decode()


def _become(program: str, arguments: Sequence[str], folder: Path, out: int) -> NoReturn:
    try:
        for descriptor in (1, 2):
            os.dup2(out, descriptor)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        warnings.resetwarnings()  # this process's tests make errors of them
        os.chdir(folder)
        os.environ.update(PYTHONPATH=os.pathsep.join(sys.path), COLUMNS="200", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        if program == "pytest":
            pytest.main([*SET_UP, "-p", "no:cacheprovider", *arguments])
        elif program == "hierexport":
            main(arguments)
        else:
            sys.argv = list(arguments)
            sys.path.insert(0, str(folder))
            runpy.run_path(arguments[0], run_name="__main__")
    except BaseException:  # noqa: BLE001  # the fork must not go on to run the tests of its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
