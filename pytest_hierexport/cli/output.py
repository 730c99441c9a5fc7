"""Prints lines and progress; names from a model or a file are shown with their control characters escaped."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from pytest_hierexport._text import one_line

if TYPE_CHECKING:
    from rich.progress import Progress


def print_line(line: str, file: TextIO | None = None) -> None:
    """Print text on one line, to standard output where no file is given."""
    print(one_line(line), file=file)


def print_lines(lines: Iterable[str]) -> None:
    """Print texts, each on one line."""
    for line in lines:
        print_line(line)


def print_json(document: object, *, indent: int | None = 1, file: TextIO | None = None) -> None:
    """Print a document as JSON, to standard output where no file is given."""
    print(json.dumps(document, indent=indent), file=file)


def terminal_width() -> int | None:
    """Return the width of the terminal; None in a pipe or a file, where names are printed whole, however long."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_warning(line: str, *, to_stderr: bool = False) -> None:
    """Print text on one line, in red on a terminal with colours."""
    from rich.console import Console

    Console(stderr=to_stderr).print(one_line(line), style="bold red", markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Stages:
    """The stages of a command on stderr: the one under way, and each that ended with its time."""

    _shown: Progress

    def __call__(self, name: str) -> None:
        """Start the next stage."""
        self.finish()
        self._shown.add_task(one_line(name), total=1)

    def finish(self) -> None:
        """Show that every stage so far succeeded."""
        for task in self._shown.tasks:
            self._shown.update(task.id, completed=1)

    def drop(self) -> None:
        """Show no more of a stage that failed: a spinner that stands still would seem to go on."""
        for task in self._shown.tasks:
            if not task.finished:
                self._shown.remove_task(task.id)


@contextmanager
def progress() -> Iterator[Stages]:
    """Give the stages of a command; an error, which is printed below, drops the one under way."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(finished_text="✓"), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as shown:
        stages = Stages(shown)
        try:
            yield stages
        except BaseException:
            stages.drop()
            raise
        stages.finish()
