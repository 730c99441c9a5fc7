"""Describes what the file of a command defines: its help, its arguments, and the function that runs it."""

from __future__ import annotations

import argparse
from typing import Protocol


def whole_number(text: str) -> int:
    """Parse an argument that counts something: 0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"not a whole number, 0 or more: {text}")
    return int(text)


class Command(Protocol):
    """A module of this folder that is a command; its row in `_COMMANDS` of `cli/__init__.py` gives it its name."""

    SUMMARY: str
    """A few words for the list of commands, such as `export a model`."""
    DESCRIPTION: str
    """A sentence for the command's own help."""
    EXAMPLE: str
    """A command line that works, for the command's own help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    def run(self, options: argparse.Namespace) -> int | None:
        """Run the command and return the exit code; None stands for 0."""
