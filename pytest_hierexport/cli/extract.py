"""Runs `hierexport extract`: writes one module call of a tagged ONNX file as a model of its own."""

from __future__ import annotations

import argparse
from dataclasses import replace

from pytest_hierexport._text import counted
from pytest_hierexport.cli.files import (
    add_file,
    add_output,
    check_onnx_output,
    is_standard,
    load_file,
    shown_name,
    write_file,
)
from pytest_hierexport.cli.output import print_json, print_line, progress

SUMMARY = "write a module as a model of its own"
DESCRIPTION = "Write one module call of a tagged ONNX file as a model of its own."
EXAMPLE = "hierexport extract bert.onnx encoder.layer.0 -o layer.onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add = parser.add_argument
    add("module", metavar="MODULE", help="a path, tag or pattern of one module, with @k from the second run on")
    add_output(parser)
    add("--model", metavar="SELECTOR", help="the PyTorch model, whose forward names the inputs and outputs")
    add("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    from onnx_ir import to_proto

    from pytest_hierexport._cases import Case, select_one
    from pytest_hierexport._tools.modules.extraction import as_dict, extract, modules_below

    check_onnx_output(options.output)
    with progress() as stage:
        stage("load the file")
        source = load_file(options.file)
        stage(f"extract {options.module}")
        cases: list[Case | None] = [None]
        if options.model is not None:
            case = select_one(options.model)
            # With the model's own weights, which `hierexport export` keeps, then with those that tests get.
            cases = [replace(case, randomise=False), replace(case, randomise=True)]
        model, origins = source.path or source.proto, source.attribution
        tries = (extract(model, origins, options.module, None if case is None else case.load()) for case in cases)
        made = max(tries, key=lambda each: each.renamed)
        modules = modules_below(source.modules, made.attribution.hierarchy, made.call)
        stage(f"write {options.output}")
        extracted = replace(source, proto=to_proto(made.model), attribution=made.attribution, modules=modules)
        write_file(extracted, options.output)
    if is_standard(options.output):
        return
    shown = as_dict(made)
    if options.json:
        print_json(shown)
        return
    counts = f"{counted(shown['nodes'], 'node')}, {counted(shown['initializers'], 'initializer')}"
    print_line(f"{options.output}: {shown['call'] or shown['tag']}, {counts}")
    for kind in ("inputs", "outputs"):
        for name, value in shown[kind].items():
            print_line(f"{kind[:-1]} {name}" + (f", {value} in {shown_name(options.file)}" if name != value else ""))
    if options.model is not None and not made.renamed:
        print_line(f"note: no value of {options.model} equals one at the module's boundary; values keep their names")
