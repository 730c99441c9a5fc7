"""Runs `hierexport functions`: writes a tagged ONNX file with its modules as ONNX functions."""

from __future__ import annotations

import argparse
from dataclasses import replace

from pytest_hierexport._text import counted
from pytest_hierexport.cli.command import whole_number
from pytest_hierexport.cli.files import add_file, add_output, check_onnx_output, is_standard, load_file, write_file
from pytest_hierexport.cli.output import print_json, print_line, progress

SUMMARY = "write modules as ONNX functions"
DESCRIPTION = "Write a tagged ONNX file with its modules as ONNX functions; equal modules share one."
EXAMPLE = "hierexport functions bert.onnx --module BertLayer -o layers.onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_output(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--depth", type=whole_number, metavar="N", help="only modules with N segments below the root's")
    which.add_argument(
        "--module", metavar="PATTERN", help="only modules of this class, path or tag; * ** ? are wildcards"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    from onnx_ir import to_proto

    from pytest_hierexport._tools.modules.outlining import as_dict, modules_as_functions

    check_onnx_output(options.output)
    with progress() as stage:
        stage("load the file")
        source = load_file(options.file)
        stage("make functions")
        model = source.path or source.proto
        made = modules_as_functions(model, source.attribution, depth=options.depth, module=options.module)
        stage(f"write {options.output}")
        write_file(replace(source, proto=to_proto(made.model), attribution=made.attribution), options.output)
    if is_standard(options.output):
        return
    if options.json:
        print_json(as_dict(made))
        return
    for function in made.functions:
        print_line(f"{function.name} ×{len(function.calls)}: {counted(function.nodes, 'node')}")
    for key, calls in made.outside.items():
        print_line(f"outside: {key}, of {', '.join(map(made.attribution.hierarchy.tag, calls))}")
    served = sum(len(function.calls) for function in made.functions)
    functions = counted(len(made.functions), "function")
    print_line(f"{options.output}: {functions} for {counted(served, 'module call')}")
