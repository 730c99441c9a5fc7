"""Prints lines and progress; names from a model or a file are shown with their control characters escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from pytest_hierexport._text import one_line

__all__ = ["print_line", "print_warning", "progress"]


def print_line(line: str, file: TextIO | None = None) -> None:
    """Print text on one line, to standard output where no file is given."""
    print(one_line(line), file=file)


def print_warning(line: str, *, to_stderr: bool = False) -> None:
    """Print text on one line, in red on a terminal with colours."""
    from rich.console import Console

    Console(stderr=to_stderr).print(one_line(line), style="bold red", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Give a function that starts the next stage; stderr shows each stage that ended with its time."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(finished_text="✓"), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as shown:

        def finish() -> None:
            for task in shown.tasks:
                shown.update(task.id, completed=1)

        def stage(name: str) -> None:
            finish()
            shown.add_task(one_line(name), total=1)

        try:
            yield stage
        except BaseException:
            # The error is printed below: a spinner that stands still would seem to go on.
            for task in shown.tasks:
                if not task.finished:
                    shown.remove_task(task.id)
            raise
        finish()
