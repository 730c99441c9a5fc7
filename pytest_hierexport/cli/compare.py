"""Runs `hierexport compare`: tells what differs between two reports, and whether the second is worse."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport.cli.output import print_json, print_lines

if TYPE_CHECKING:
    from pytest_hierexport._report.comparing import Comparison, ModelChange

SUMMARY = "compare two reports"
DESCRIPTION = (
    "Tell what differs between the JSON reports of two runs, such as before and after an upgrade of torch; "
    "exit with 1 where a model newly fails, is no longer checked, or is gone."
)
EXAMPLE = "hierexport compare torch-2.12.json torch-2.13.json"

_SHORTEST = 0.1
"""The seconds that a stage has to take to be shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", type=Path, help="the JSON report of the first run")
    parser.add_argument("after", metavar="B", type=Path, help="the JSON report of the second run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--strict", action="store_true", help="exit with 1 for any difference of a model")


def run(options: argparse.Namespace) -> int:
    from pytest_hierexport._report.comparing import compare
    from pytest_hierexport._report.data import read_report

    compared = compare(read_report(options.before), read_report(options.after))
    if options.json:
        print_json({"format": 1, "worse": compared.is_worse, **asdict(compared)})
    else:
        print_lines(_lines(compared))
    return int(compared.is_worse or (options.strict and compared.differs))


def _lines(compared: Comparison) -> Iterator[str]:
    for package, (old, new) in compared.versions.items():
        yield f"{package}: {old or 'not installed'} -> {new or 'not installed'}"
    for change in compared.changes:
        yield from _of_model(change)
    for name in compared.gone:
        yield f"{name}: gone"
    for name in compared.new:
        yield f"{name}: new"
    yield f"checks took {compared.seconds[0]:.1f} s -> {compared.seconds[1]:.1f} s"
    for stage, (old_seconds, new_seconds) in compared.stages.items():
        if max(old_seconds, new_seconds) >= _SHORTEST:
            yield f"  {stage}: {old_seconds:.1f} s -> {new_seconds:.1f} s"
    yield f"models: {len(compared.changes)} different, {compared.unchanged} equal"
    worse = [change for change in compared.changes if change.failing or change.not_checked]
    counts = f"{len(worse)} newly failing or unchecked, {len(compared.gone)} gone"
    yield f"worse: {counts}" if compared.is_worse else "not worse"


def _of_model(change: ModelChange) -> Iterator[str]:
    yield f"{change.name}"
    for what, checks in (
        ("newly fails", change.failing),
        ("no longer checked", change.not_checked),
        ("holds now", change.fixed),
        ("known to fail now", change.known),
    ):
        if checks:
            yield f"  {what}: {', '.join(checks)}"
    if change.exporters:
        yield f"  exporter: {' -> '.join(name or 'not exported' for name in change.exporters)}"
    if change.nodes:
        yield f"  nodes: {change.nodes[0]} -> {change.nodes[1]}"
    yield from (f"  {line}" for line in change.hierarchy)
