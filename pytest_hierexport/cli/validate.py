"""Runs `hierexport validate`: checks the rules that need no model on a file."""

from __future__ import annotations

import argparse

from pytest_hierexport.cli.command import whole_number
from pytest_hierexport.cli.files import add_file, as_path, shown_name
from pytest_hierexport.cli.output import print_json, print_lines, progress

SUMMARY = "check the rules on a file"
DESCRIPTION = (
    "Check every rule that needs no PyTorch model on an ONNX file and its sidecar. "
    "Exit codes: 0 no rule is broken, 1 a rule is broken."
)
EXAMPLE = "hierexport validate tower.onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--allow-derived",
        type=whole_number,
        default=0,
        metavar="N",
        help="the nodes that may have a derived origin (default: 0)",
    )


def run(options: argparse.Namespace) -> int:
    from pytest_hierexport._tools.validation import as_dict, as_lines, validate

    name = shown_name(options.file)
    with as_path(options.file) as path, progress() as stage:
        results = list(validate(path, allow_derived=options.allow_derived, starting=stage))
    document = as_dict(results, name)
    if options.json:
        print_json(document)
    else:
        print_lines(as_lines(results, name))
    return 0 if document["valid"] else 1
