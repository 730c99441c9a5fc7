"""Runs `hierexport COMMAND`: parses the arguments, calls the command's module, turns errors into exit codes."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pytest_hierexport._errors import (
    CollectError,
    ExportError,
    HierexportError,
    PackageError,
    UsageError,
    skipped,
    skips,
)
from pytest_hierexport._files.versions import check_requirements, own_version
from pytest_hierexport.cli import (
    analyze,
    cache,
    carry,
    compare,
    diff,
    diverge,
    export,
    extract,
    functions,
    init,
    merge,
    profile,
    rename,
    select,
    strip,
    validate,
    zoo,
)
from pytest_hierexport.cli.command import Command

__all__ = ["main"]

_COMMANDS: dict[str, Command] = {
    "init": init,
    "export": export,
    "analyze": analyze,
    "select": select,
    "rename": rename,
    "merge": merge,
    "compare": compare,
    "profile": profile,
    "validate": validate,
    "diff": diff,
    "strip": strip,
    "extract": extract,
    "functions": functions,
    "diverge": diverge,
    "carry": carry,
    "cache": cache,
    "zoo": zoo,
}
"""The modules of this folder that are commands, by the name of the command, in the order of the help."""

_SHELLS = ("bash", "zsh")

_FAILED, _USAGE, _INTERRUPTED = 1, 4, 130
_OF_DIFFERENCES = {"diff": (2, 2), "diverge": (2, _USAGE)}
"""The exit codes for failures and for wrong usage, of the commands whose 1 tells of a difference."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 4 a request that cannot be served, 130 interrupted.

    `diff` and `diverge` fail with 2, as 1 tells of a difference; so does wrong usage of `diff`.

    Args:
        argv: The arguments after the program's name; None takes the process's.
    """
    given = sys.argv[1:] if argv is None else argv
    failed, usage = _OF_DIFFERENCES.get(given[0] if given else "", (_FAILED, _USAGE))
    if sys.stdout is None:  # a process may have none
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name of a model may hold characters that the console's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options = _parser().parse_args(given)
        check_requirements()
        command: Command = options.command
        code = command.run(options) or 0
        sys.stdout.flush()
    except HierexportError as error:
        _say(error)
        return usage if isinstance(error, (UsageError, CollectError, PackageError)) else failed
    except KeyboardInterrupt:
        return _INTERRUPTED
    except skips() as error:
        _say(skipped(error))
        return failed
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            found = f"{error.strerror or error}{'' if error.filename is None else f': {error.filename}'}"
            do = "make it readable and writable and see that the disk has room, or choose another path"
            _say(ExportError("files that can be read and written", found=found, do=do))
        _drop_unwritten()
        return failed
    return code


def _say(error: HierexportError) -> None:
    print(f"hierexport: {error}", file=sys.stderr)  # noqa: T201


def _drop_unwritten() -> None:
    """Drop the output that cannot be written: Python flushes it at exit, which would raise a second time."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _PrintCompletion(argparse.Action):
    """Prints a script that completes commands, options and files in a shell, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, _namespace: object, values: object, _option: str | None = None
    ) -> None:
        import shtab

        for action in _actions(parser):
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # how shtab is told
        print(shtab.complete(parser, shell=str(values)))  # noqa: T201
        parser.exit()


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        for command in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from _actions(command)


class _Parser(argparse.ArgumentParser):
    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments here: argparse leaves a command's to the program, whose usage lacks its options."""
        found, unknown = super().parse_known_args(args, namespace)
        return self.error(f"unrecognized arguments: {' '.join(unknown)}") if unknown else (found, unknown)

    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        raise UsageError(
            f"the arguments of {self.prog}", found=message, do=f"give them as in `{usage}`; see {self.prog} --help"
        )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hierexport",
        description="Export PyTorch models to ONNX with every node tagged.",
        epilog=f"exit codes: 0 done, {_FAILED} failed, {_USAGE} usage error, {_INTERRUPTED} interrupted",
    )
    parser.add_argument("--version", action="version", version=f"hierexport {own_version()}")
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        choices=_SHELLS,
        help="print a completion script for a shell: source <(hierexport --print-completion bash)",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        own = commands.add_parser(
            name, help=command.SUMMARY, description=command.DESCRIPTION, epilog=f"example: {command.EXAMPLE}"
        )
        command.add_arguments(own)
        own.set_defaults(command=command)
    return parser
