"""Runs `hierexport carry`: writes the file that a tool made of a tagged one, with the tags carried to it."""

from __future__ import annotations

import argparse

from pytest_hierexport.cli.files import (
    add_file,
    add_output,
    check_onnx_output,
    is_standard,
    load_file,
    load_proto,
    shown_name,
    write_file,
)
from pytest_hierexport.cli.output import print_line, print_warning, progress

SUMMARY = "take tags through a tool"
DESCRIPTION = "Write the ONNX file that a tool made of a tagged one, with the tags carried to it, and its sidecar."
EXAMPLE = "hierexport carry tower.onnx tower.optimized.onnx -o tower.tagged.onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser, help="the tagged ONNX file that the tool was given")
    add_file(parser, "other", help="the ONNX file that the tool wrote")
    add_output(parser, help="the ONNX file to write: OTHER with the tags of FILE")


def run(options: argparse.Namespace) -> None:
    check_onnx_output(options.output)
    tagged = load_file(
        options.file, if_untagged=f"give the tagged file that the tool was given before {shown_name(options.other)}"
    )
    proto, path = load_proto(options.other)

    from pytest_hierexport._tools.analysis.rendering import coverage_line
    from pytest_hierexport._tools.carrying import carry_tags, doubts

    with progress() as stage:
        stage("compare both graphs")
        carried = carry_tags(tagged, proto, path)
    warnings = list(doubts(tagged, carried))
    write_file(carried, options.output)
    for warning in warnings:
        print_warning(f"warning: {shown_name(options.other)}: {warning}", to_stderr=True)
    if not is_standard(options.output):
        print_line(f"{options.output}, with the tags of {shown_name(options.file)}")
        print_line(coverage_line(carried.attribution.coverage()))
