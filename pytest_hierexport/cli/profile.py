"""Runs `hierexport profile`: prints where ONNX Runtime spends its time, by module call or class."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import UsageError
from pytest_hierexport.cli.command import whole_number
from pytest_hierexport.cli.files import (
    add_file,
    check_json_output,
    check_onnx_output,
    load_arrays,
    load_file,
    write_json,
)
from pytest_hierexport.cli.output import print_json, print_lines, progress, terminal_width

if TYPE_CHECKING:
    from pytest_hierexport._tools.profiling.feeds import Array
    from pytest_hierexport._tools.tagged_file import TaggedFile

SUMMARY = "show where the time goes"
DESCRIPTION = "Show where ONNX Runtime spends its time, by module call or class, on the optimized graph."
EXAMPLE = "hierexport profile tower.onnx --by class --trace tower.trace.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add = parser.add_argument
    add("--inputs", metavar="FILE.npz|SELECTOR", help="the graph's inputs, or the model whose example inputs to take")
    add(
        "--dim",
        type=_dimension,
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="a symbolic dimension, for random inputs",
    )
    add("--runs", type=whole_number, default=10, metavar="N", help="runs to measure (default: %(default)s)")
    add("--warmup", type=whole_number, default=1, metavar="N", help="runs before them (default: %(default)s)")
    add("--level", default="all", help="optimization: none, basic, extended or all (default: %(default)s)")
    add(
        "--threads",
        type=whole_number,
        default=0,
        metavar="N",
        help="threads in a kernel (default: ONNX Runtime's)",
    )
    add(
        "--provider",
        action="append",
        metavar="NAME",
        help="an execution provider; may be repeated (default: the CPU's)",
    )
    add("--by", choices=("module", "class"), default="module", help="what a row is (default: %(default)s)")
    add("--depth", type=whole_number, metavar="N", help="show N levels of calls below the root")
    add("--json", action="store_true", help="print JSON")
    add("--optimized", metavar="FILE", type=Path, help="write the optimized graph, with its tags")
    add("--trace", metavar="FILE", type=Path, help="write a trace for Perfetto (ui.perfetto.dev)")
    add("--node-data", metavar="FILE", type=Path, help="write node data for Model Explorer, to show with --optimized")


def run(options: argparse.Namespace) -> None:
    from pytest_hierexport._pytest.outputs import check_different
    from pytest_hierexport._tools.profiling import viewers
    from pytest_hierexport._tools.profiling.text import as_dict, as_lines

    check_different(filter(None, (options.trace, options.node_data)))
    if options.trace is not None:
        check_json_output(options.trace, "a trace", viewers.is_trace)
    if options.node_data is not None:
        check_json_output(options.node_data, "node data", viewers.is_node_data)
    if options.optimized is not None:
        check_onnx_output(options.optimized, piped=False)
    sizes = dict(options.dim)
    with progress() as stage:
        stage("load the model")
        from pytest_hierexport._tools.profiling.profiler import profile_file
        from pytest_hierexport._tools.profiling.running import RunOptions

        source = load_file(options.file)
        providers = tuple(options.provider or RunOptions.providers)
        chosen = RunOptions(options.runs, options.warmup, options.level, options.threads, providers)
        feeds = _feeds(options, source, sizes)
        stage(f"run it {chosen.warmup + chosen.runs} times")
        profile = profile_file(source, feeds, chosen, options.optimized)
    if options.trace is not None:
        write_json(options.trace, viewers.trace(profile))
    if options.node_data is not None:
        write_json(options.node_data, viewers.node_data(profile))
    if options.json:
        print_json(as_dict(profile))
    else:
        print_lines(as_lines(profile, by_class=options.by == "class", depth=options.depth, width=terminal_width()))


def _dimension(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isascii() or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"no dimension NAME=SIZE, as batch=2: {text}")
    return name, int(size)


def _feeds(options: argparse.Namespace, source: TaggedFile, sizes: dict[str, int]) -> dict[str, Array]:
    from pytest_hierexport._tools.profiling import feeds

    if options.inputs is None:
        return feeds.random_feeds(source.proto, sizes)
    if sizes:
        raise UsageError("--dim with random inputs only", found="--inputs too", do="leave out one of them")
    if options.inputs.endswith(".npz"):
        return load_arrays(Path(options.inputs), source.proto.graph)

    from pytest_hierexport._cases import select_one
    from pytest_hierexport._proof.feeds import feeds_of

    return feeds_of(select_one(options.inputs).load(), source.proto)
