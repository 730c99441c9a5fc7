"""Runs `hierexport select`: prints the names of the nodes of some modules, as the tools that take names want them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import UsageError
from pytest_hierexport.cli.files import add_file, check_onnx_output, is_standard, load_file, write_file
from pytest_hierexport.cli.output import print_json, print_lines

if TYPE_CHECKING:
    from pytest_hierexport._tools.selection import OriginChoice, Selection
    from pytest_hierexport._tools.tagged_file import TaggedFile

SUMMARY = "list the nodes of modules for another tool"
DESCRIPTION = "Print the names of the nodes of some modules, in the form that a quantizer or ONNX Runtime takes."
EXAMPLE = "hierexport select tower.onnx encoder.layer.0 class:Pooler --format nodes_to_exclude"

_LINES = ("names", "regex", "glob")
_LISTS = ("nodes_to_exclude", "node_block_list")
_PLACEMENTS = ("name_based", "layer_ann")
_FORMATS = (*_LINES, "json", *_LISTS, "transformers", *_PLACEMENTS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add = parser.add_argument
    add(
        "patterns",
        metavar="PATTERN",
        nargs="+",
        help="a path (encoder.layer.0), a tag (/Net/Layer.0) or class:NAME; * ** ? and @k for one call of several",
    )
    add("--format", choices=_FORMATS, default="names", help="for which tool (default: %(default)s)")
    add("--origins", help="any or primary: which origins of a node count (default: any; to place nodes, primary)")
    add("--device", help="where name_based and layer_ann place the nodes: cpu, gpu, npu or an execution provider")
    add("-o", "--output", metavar="FILE", type=Path, help="the annotated ONNX file that layer_ann writes")


def run(options: argparse.Namespace) -> None:
    _check(options)
    from pytest_hierexport._tools.selection import find_nodes

    source = load_file(options.file)
    origins: OriginChoice = options.origins or ("primary" if options.format in _PLACEMENTS else "any")
    selection = find_nodes(source.proto, source.attribution, source.modules, options.patterns, origins)
    if options.format in _PLACEMENTS:
        _place(options, selection, source)
    else:
        _print_names(options, selection)


def _check(options: argparse.Namespace) -> None:
    wanted = {"--device": options.format in _PLACEMENTS, "-o": options.format == "layer_ann"}
    for flag, stated in (("--device", options.device), ("-o", options.output)):
        if (stated is not None) != wanted[flag]:
            raise UsageError(
                f"{flag} {'with' if wanted[flag] else 'only where it is used, and not with'} --format {options.format}",
                found="none" if stated is None else str(stated),
                do=f"{'add' if wanted[flag] else 'leave out'} {flag}",
            )
    if options.output is not None:
        check_onnx_output(options.output)


def _place(options: argparse.Namespace, selection: Selection, source: TaggedFile) -> None:
    from pytest_hierexport._tools.placement import annotated_placement, named_placement

    if options.format == "name_based":
        print_json(named_placement(selection, options.device))
        return
    entry = annotated_placement(selection, options.device)
    write_file(source, options.output)
    print_json(entry, file=sys.stderr if is_standard(options.output) else None)


def _print_names(options: argparse.Namespace, selection: Selection) -> None:
    from pytest_hierexport._tools.selection import CONSUMERS

    if options.format == "json":
        print_json(selection.as_dict())
    elif options.format == "transformers":
        print_json({"nodes_to_exclude": CONSUMERS["nodes_to_exclude"](selection)})
    elif options.format in _LISTS:
        print_json(CONSUMERS[options.format](selection))
    else:
        print_lines(CONSUMERS[options.format](selection))
