"""Runs `hierexport rename`: names the nodes of a tagged ONNX file after the modules that they come from."""

from __future__ import annotations

import argparse

from pytest_hierexport._requests import check_choice
from pytest_hierexport._text import counted
from pytest_hierexport.cli.files import add_file, add_output, check_onnx_output, is_standard, load_file, write_file
from pytest_hierexport.cli.output import print_line

SUMMARY = "name nodes after their modules"
DESCRIPTION = "Name the nodes of a tagged ONNX file after the modules that they come from. Nothing else changes."
EXAMPLE = "hierexport rename tower.onnx -o tower.named.onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_output(parser)
    parser.add_argument("--style", default="path", help="path or tag (default: %(default)s)")


def run(options: argparse.Namespace) -> None:
    from pytest_hierexport._onnx.node_names import NAME_STYLES, rename_nodes

    check_choice("node names", options.style, NAME_STYLES)
    check_onnx_output(options.output)
    source = load_file(options.file)
    rename_nodes(source.proto, source.attribution, options.style)
    write_file(source, options.output)
    if not is_standard(options.output):
        print_line(f"{options.output}: {counted(len(source.attribution.nodes), 'node')} named by {options.style}")
