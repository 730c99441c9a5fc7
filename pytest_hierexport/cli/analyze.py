"""Runs `hierexport analyze`: prints what a tagged ONNX file holds, as a table or as JSON."""

from __future__ import annotations

import argparse
import json
import shutil
import sys

from pytest_hierexport.cli.command import Command
from pytest_hierexport.cli.files import add_file, load_file, shown_name
from pytest_hierexport.cli.output import print_line

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--depth", type=_levels, metavar="N", help="show N levels of modules below the root")


def _levels(text: str) -> int:
    levels = int(text)
    if levels < 0:
        raise argparse.ArgumentTypeError(f"no number of levels: {text}")
    return levels


def _run(options: argparse.Namespace) -> None:
    from pytest_hierexport._tools.analysis import analyze
    from pytest_hierexport._tools.analysis_text import as_dict, as_lines

    analysis = analyze(load_file(options.file))
    if options.json:
        print(json.dumps(as_dict(analysis, options.depth), indent=1))  # noqa: T201
        return
    # In a pipe or a file, names are printed whole, however long.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in as_lines(analysis, shown_name(options.file), options.depth, width):
        print_line(line)


COMMAND = Command(
    name="analyze",
    summary="show what a file holds",
    description="Show what a tagged ONNX file holds.",
    example="hierexport analyze tower.onnx --depth 2",
    add_arguments=_add_arguments,
    run=_run,
)
