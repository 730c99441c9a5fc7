"""Runs `hierexport diff`: compares two tagged ONNX files by module, node and initializer."""

from __future__ import annotations

import argparse

from pytest_hierexport.cli.command import whole_number
from pytest_hierexport.cli.files import add_file, load_file, shown_name
from pytest_hierexport.cli.output import print_json, print_lines, progress

SUMMARY = "compare two files"
DESCRIPTION = (
    "Compare two tagged ONNX files: modules, then nodes, initializers and names. "
    "Exit codes: 0 the same, 1 different, 2 trouble."
)
EXAMPLE = "hierexport diff before.onnx after.onnx --format markdown"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, "before")
    add_file(parser, "after")
    parser.add_argument(
        "--format", choices=("text", "markdown", "json"), default="text", help="how to print (default: %(default)s)"
    )
    parser.add_argument(
        "--limit",
        type=whole_number,
        default=50,
        metavar="N",
        help="lines of each section but in JSON (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    from pytest_hierexport._tools.comparing.comparison import compare
    from pytest_hierexport._tools.comparing.rendering import as_dict, as_lines, as_markdown

    with progress() as stage:
        stage("load both files")
        files = load_file(options.before), load_file(options.after)
        stage("compare")
        comparison = compare(*files)
    names = shown_name(options.before), shown_name(options.after)
    if options.format == "json":
        print_json(as_dict(comparison))
    else:
        render = as_markdown if options.format == "markdown" else as_lines
        print_lines(render(comparison, *names, options.limit))
    return 0 if comparison.same else 1
