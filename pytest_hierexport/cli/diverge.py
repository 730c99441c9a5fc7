"""Runs `hierexport diverge`: finds the calls where a graph parts from its model or another graph."""

from __future__ import annotations

import argparse
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.paths import check_ending
from pytest_hierexport.cli.command import whole_number
from pytest_hierexport.cli.files import add_file, check_parent, load_arrays, load_file, load_proto
from pytest_hierexport.cli.output import print_json, print_lines, progress

SUMMARY = "find where two graphs part"
DESCRIPTION = "Find the first module call where a graph parts from its model or another graph, and what each adds."
EXAMPLE = "hierexport diverge float.onnx int8.onnx --model my_model.py::build --html errors.html"

_DIVERGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_file(parser)
    add("other", metavar="OTHER", type=Path, nargs="?", help="the ONNX file to compare with it (default: the model)")
    add("--model", metavar="SELECTOR", help="the PyTorch model with its inputs: a zoo name, file.py::factory, …")
    add(
        "--inputs",
        metavar="FILE.npz",
        type=Path,
        action="append",
        help="the inputs of both files by name, in place of the model's; several times for an average over inputs",
    )
    add("--tolerance", type=_tolerance, metavar="T", help="the relative distance that counts (default: by dtype)")
    add("--depth", type=whole_number, metavar="N", help="count nodes for the calls N levels below the root at most")
    add("--top", type=whole_number, default=3, metavar="N", help="show and exclude N calls (default: %(default)s)")
    add("--exclude", choices=("nodes", "modules"), help="print only the JSON list of what to leave out of quantization")
    add("--no-added", action="store_true", help="leave out the errors that each call adds")
    add("--json", action="store_true", help="print JSON")
    add("--html", metavar="FILE", type=Path, help="write a plot of the errors")
    add("--exit-code", action="store_true", help=f"exit with {_DIVERGED} where a call parts")


def _tolerance(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (number := float(text)) < math.inf:
            return number
    raise argparse.ArgumentTypeError(f"not a number, 0 or more: {text}")


def run(options: argparse.Namespace) -> int:
    _check(options)
    with progress() as stage:
        stage("import")
        from pytest_hierexport._cases import select_one
        from pytest_hierexport._tools.divergence.comparing import diverge
        from pytest_hierexport._tools.divergence.page import as_page
        from pytest_hierexport._tools.divergence.text import as_dict, as_lines

        file = load_file(options.file)
        graph = file.path or file.proto
        given: Any = None
        if options.inputs is not None:
            given = [load_arrays(path, file.proto.graph) for path in options.inputs]
        elif options.model is not None:
            stage(f"build {options.model}")
            given = replace(select_one(options.model), randomise=False).load()
        stage("compare")
        settings = {"tolerance": options.tolerance, "depth": options.depth, "added": not options.no_added}
        settings["attribution"] = file.attribution
        if options.other is None:
            found = diverge(given, graph, **settings)
        else:
            other, path = load_proto(options.other)
            found = diverge(graph, path or other, given, **settings)
    if options.html is not None:
        from pytest_hierexport._pytest.outputs import write_output

        names = [path.name for path in (options.file, options.other) if path is not None]
        write_output(options.html, as_page(found, " and ".join(names)))
    if options.exclude is not None:
        print_json([*getattr(found.exclusion(options.top), options.exclude)], indent=None)
    elif options.json:
        print_json(as_dict(found, options.top))
    else:
        print_lines(as_lines(found, options.top))
    return _DIVERGED if options.exit_code and (found.first is not None or found.unknown_outputs) else 0


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not fit together, and a file of the user's in the place of the page."""
    if options.html is not None:
        from pytest_hierexport._pytest.outputs import check_output

        check_ending(options.html, ".html")
        check_parent(options.html)
        check_output(options.html)
    if options.other is None and (options.model is None or options.inputs is not None):
        raise UsageError(
            "another ONNX file, or --model alone, to compare the file with",
            found="--inputs without another file" if options.inputs else "neither",
            do="add OTHER, or --model SELECTOR",
        )
    if options.other is not None and (options.model is None) == (options.inputs is None):
        raise UsageError(
            "the inputs to run both files on, once",
            found="none" if options.model is None else "--model and --inputs",
            do="add --inputs FILE.npz, or --model SELECTOR",
        )
    if options.exclude is not None and options.no_added:
        raise UsageError("added errors to exclude by", found="--no-added", do="leave it out")
