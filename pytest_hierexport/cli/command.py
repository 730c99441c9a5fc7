"""Describes a command of `hierexport`: its help, its arguments, and the function that runs it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

USAGE = 4
"""The exit code for a usage error."""


def whole_number(text: str) -> int:
    """Parse an argument that counts something: 0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"not a whole number, 0 or more: {text}")
    return int(text)


@dataclass(frozen=True)
class Command:
    """A command; each file of this folder that has one defines it as `COMMAND`, and gives it its name."""

    summary: str
    """A few words for the list of commands, such as `export a model`."""
    description: str
    """A sentence for the command's own help."""
    example: str
    """A command line that works, for the command's own help."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]
    """Runs the command and returns the exit code; None stands for 0."""
    failed: int = 1
    """The exit code for an error that is no usage error."""
    wrong_usage: int = USAGE

    def add_to(self, commands: argparse._SubParsersAction[Any], name: str) -> None:
        """Add the command's parser to the program's."""
        parser = commands.add_parser(
            name,
            help=self.summary,
            description=self.description,
            epilog=f"example: {self.example}",
        )
        self.add_arguments(parser)
        parser.set_defaults(command=self)
