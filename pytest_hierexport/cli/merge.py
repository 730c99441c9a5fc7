"""Runs `hierexport merge`: makes one report of the reports of a run's shards."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_hierexport._files.paths import check_ending
from pytest_hierexport.cli.output import print_lines, print_warning

SUMMARY = "make one report of a run's shards"
DESCRIPTION = (
    "Make one report of the JSON reports of a run's shards; "
    "exit with 1 where a shard or a model is missing, a shard was interrupted, all models were deselected, "
    "or a check failed."
)
EXAMPLE = "hierexport merge shard-*.json -o report.html -o report.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", metavar="REPORT", type=Path, nargs="+", help="the JSON report of a shard")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        action="append",
        required=True,
        help="the report to write: .html, .json, .ctrf.json or .md; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    from pytest_hierexport._pytest.outputs import check_output, write_output
    from pytest_hierexport._report import FORMATS, as_lines, rendered
    from pytest_hierexport._report.data import read_report
    from pytest_hierexport._report.merging import merge
    from pytest_hierexport._report.results import warnings_of

    for path in options.output:
        check_ending(path, *FORMATS)
        check_output(path)
    merged = merge([(str(path), read_report(path)) for path in options.reports])
    for path in options.output:
        write_output(path, rendered(merged, path))
    print_lines(as_lines(merged))
    for line in warnings_of(merged):
        print_warning(line)
    lacks = merged.missing_shards or merged.unreported or merged.interrupted or not merged.models
    return int(bool(lacks or merged.failures()))
