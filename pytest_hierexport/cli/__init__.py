"""Runs `hierexport COMMAND`: parses the arguments, calls the command's module, turns errors into exit codes."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import NoReturn

from pytest_hierexport._errors import CollectError, HierexportError, UsageError
from pytest_hierexport.cli.command import Command

__all__ = ["main"]

_COMMANDS = (
    "export",
    "analyze",
    "carry",
)
"""The files of this folder with a command, in the order of the help."""

_FAILED = 1
_USAGE = 4
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 4 a request that cannot be served, 130 interrupted.

    Args:
        argv: The arguments after the program's name; None takes the process's.
    """
    failed = _FAILED
    try:
        options = _parser().parse_args(argv)
        command: Command = options.command
        failed = command.failed
        return command.run(options) or 0
    except HierexportError as error:
        print(f"hierexport: {error}", file=sys.stderr)  # noqa: T201
        return _USAGE if isinstance(error, (UsageError, CollectError)) else failed
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout at exit, which would raise a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"arguments as in `{self.format_usage().removeprefix('usage: ').strip()}`",
            found=message,
            do=f"see {self.prog} --help",
        )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hierexport",
        description="Export PyTorch models to ONNX with every node tagged.",
        epilog=f"exit codes: 0 done, {_FAILED} failed, {_USAGE} cannot be served as asked, {_INTERRUPTED} interrupted",
    )
    parser.add_argument("--version", action="version", version=f"hierexport {metadata.version('pytest-hierexport')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in _COMMANDS:
        command: Command = importlib.import_module(f"{__name__}.{name}").COMMAND
        command.add_to(commands)
    return parser
