"""Runs `hierexport strip`: removes tags and exporters' metadata from a file; the tags stay in its sidecar."""

from __future__ import annotations

import argparse
import sys

from pytest_hierexport.cli.files import add_file, add_output, check_onnx_output, is_standard, load_file, write_file
from pytest_hierexport.cli.output import print_json, print_line

SUMMARY = "remove tags for a release"
DESCRIPTION = (
    "Remove the tags and the exporters' own metadata from an ONNX file. The sidecar beside the output "
    "keeps the tags; from there every command reads them, and `carry` puts them back."
)
EXAMPLE = "hierexport strip tower.onnx -o release.onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_output(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    from pytest_hierexport._onnx.sidecar import sidecar_path

    check_onnx_output(options.output)
    file = load_file(options.file)
    before = file.proto.ByteSize()
    write_file(file, options.output, "none")
    piped = is_standard(options.output)
    # Not the message in memory: the file on disk names its external data after itself.
    after = file.proto.ByteSize() if piped else options.output.stat().st_size
    sidecar = "" if piped else sidecar_path(options.output).name
    told = sys.stderr if piped else sys.stdout
    if options.json:
        shown = {"before": before, "after": after, "saved": before - after, "sidecar": sidecar}
        print_json(shown, indent=None, file=told)
    else:
        kept = f"tags in {sidecar}" if sidecar else "the tags are in no sidecar, keep the input for them"
        print_line(f"{options.output}: {before:,} → {after:,} bytes, {1 - after / before:.1%} saved; {kept}", file=told)
