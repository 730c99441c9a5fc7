"""Runs `hierexport analyze`: prints what a tagged ONNX file holds, module by module or node by node."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import UsageError
from pytest_hierexport._text import one_line
from pytest_hierexport.cli.command import whole_number
from pytest_hierexport.cli.files import add_file, load_file, shown_name
from pytest_hierexport.cli.output import print_json, print_lines, progress, terminal_width

if TYPE_CHECKING:
    from pytest_hierexport._tools.analysis.figures import Analysis
    from pytest_hierexport._tools.tagged_file import TaggedFile

SUMMARY = "show what a file holds"
DESCRIPTION = (
    "Show what a tagged ONNX file holds: modules with their nodes and parameters, and how each node was attributed."
)
EXAMPLE = "hierexport analyze tower.onnx --depth 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_file(parser)
    formats = ("table", "tree", "json", "csv")
    add("--format", choices=formats, default="table", help="how to print (default: %(default)s)")
    add("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    add("--depth", type=whole_number, metavar="N", help="show N levels of modules below the root")
    add("--tag", metavar="GLOB", help="only modules with this tag, last segment of it or path, and those below")
    add("--class", metavar="GLOB", dest="cls", help="only modules of this class, and those below")
    add("--origins", action="store_true", help="list nodes and initializers with their calls and the evidence for each")
    add("--untagged", action="store_true", help="list the nodes without a tag")
    add(
        "--contamination",
        metavar="SELECTOR",
        help="run the model of this selector, and list nodes tagged with another call than the one whose value they "
        "compute",
    )


def run(options: argparse.Namespace) -> None:
    from pytest_hierexport._tools.analysis.figures import ModuleFilter, analyze
    from pytest_hierexport._tools.analysis.listing import LISTED
    from pytest_hierexport._tools.analysis.rendering import as_dict

    asked = [name for name in LISTED if getattr(options, name)]
    if options.format == "csv" and len(asked) > 1:
        raise UsageError("one list at a time in CSV", found=", ".join(asked), do="ask for one, or choose JSON")
    file, wanted = load_file(options.file), ModuleFilter(options.tag, options.cls)
    analysis = analyze(file, wanted if options.tag or options.cls else None)
    lists = {name: _rows(name, file, wanted, options) for name in asked}
    if options.format == "json":
        listed = {name: list(rows) for name, rows in lists.items()}
        print_json(as_dict(analysis, options.depth) | listed)
    elif options.format == "csv":
        _print_csv(analysis, lists, options.depth)
    else:
        _print_text(analysis, lists, options)


def _rows(name: str, file: TaggedFile, wanted: Any, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a list of nodes as objects for JSON."""
    from pytest_hierexport._tools.analysis.listing import contaminated_nodes, listed_parts, untagged_nodes

    if name == "origins":
        yield from listed_parts(file, wanted)
    elif name == "untagged":
        yield from untagged_nodes(file)
    else:
        with progress() as stage:
            stage(f"run {options.contamination} beside the graph")
            found = contaminated_nodes(file, options.contamination)
        yield from found


def _print_csv(analysis: Analysis, lists: dict[str, Iterator[dict[str, Any]]], depth: int | None) -> None:
    from pytest_hierexport._tools.analysis.listing import LISTED
    from pytest_hierexport._tools.analysis.rendering import as_csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    if not lists:
        writer.writerows([one_line(cell) for cell in row] for row in as_csv(analysis, depth))
    for name, rows in lists.items():
        first = [*islice(rows, 1)]  # an error is raised before the heading is printed
        writer.writerow(LISTED[name])
        for row in chain(first, rows):
            writer.writerow([one_line(cell if isinstance(cell, str) else json.dumps(cell)) for cell in row.values()])


def _print_text(analysis: Analysis, lists: dict[str, Iterator[dict[str, Any]]], options: argparse.Namespace) -> None:
    from pytest_hierexport._tools.analysis.rendering import as_lines, as_tree

    name = shown_name(options.file)
    if options.format == "tree":
        lines = as_tree(analysis, name, options.depth)
    else:
        lines = as_lines(analysis, name, options.depth, terminal_width())
    print_lines(lines)
    for title, rows in lists.items():
        listed = (f"  {_as_text(row)}" for row in rows)
        print_lines(["", f"{title}:", next(listed, "  none")])
        print_lines(listed)


def _as_text(row: dict[str, Any]) -> str:
    """Return a listed node on one line: the key, the operator, the tag with its call and evidence, the other owners."""
    parts = [row["key"], row["operator"]]
    # Calls of torch.nn have the tag of the module around them.
    told = ((each["tag"], filter(None, (each["call"], each["evidence"]))) for each in row.get("origins", ()))
    parts += [f"{tag} ({', '.join(about)})" for tag, about in told]
    if "returned_by" in row:
        parts.append(f"{row['tag'] or 'untagged'}, but {', '.join(row['returned_by'])} returned its value")
    return "  ".join(filter(None, parts))
