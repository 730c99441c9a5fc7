"""How well tags survive other projects' tools: each tool is run on each model, the tags are carried and proven.

python -m benchmarks.tools bert llama vit t5 convnext mamba mixtral --json tools.json
python -m benchmarks.tools bert --tool onnxslim --tool quantize_dynamic --verbose
python -m benchmarks.tools bert gpt2 --exporter torchscript
python -m benchmarks.tools all --files FOLDER        keep exports and results, and use them again
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from rich.console import Console
from rich.table import Table

from benchmarks.foreign_tools import TOOLS as COMMON_TOOLS
from benchmarks.foreign_tools import Job, Tool
from benchmarks.tool_proof import TOLERANCES, prove_tool
from benchmarks.vendor_tools import VENDOR_TOOLS
from pytest_hierexport import carry, read
from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.verdict import VerdictKind

TOOLS = COMMON_TOOLS | VENDOR_TOOLS
MODELS = ("bert", "llama", "vit", "t5", "convnext", "mamba", "mixtral")


@dataclass(frozen=True)
class Row:
    """One tool on one model, or the error of one of the two."""

    tool: str
    models: tuple[str, ...]
    nodes: int = 0
    pairs: int = 0
    """Nodes with each of their owners."""
    loose: int = 0
    derived: int = 0
    untagged: int = 0
    counted: int = 0
    """The calls whose values still exist."""
    proven: int = 0
    dissolved: int = 0
    tolerance: float | None = None
    seconds: float = 0
    unproven: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    """Why there are no figures; empty where there are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 where a tag is missing, derived, loose or not proven."""
    options = _options(arguments)
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    console = Console()
    tools = [TOOLS[name] for name in options.tool or TOOLS]
    rows: list[Row] = []
    with TemporaryDirectory() as temporary:
        folder = options.files or Path(temporary)
        cases = [replace(case, exporter=options.exporter) for case in select(options.models, Path.cwd())]
        for row in (row for case in cases for row in _measure_case(case, tools, folder)):
            rows.append(row)
            _print_row(console, row, verbose=options.verbose)
    console.print(_table([_total(tool.name, rows) for tool in tools]))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    measured = [row for row in rows if not row.error]
    wrong = sum(row.untagged + row.derived + row.counted - row.proven for row in measured)
    loose, pairs = sum(row.loose for row in measured), sum(row.pairs for row in measured)
    return 1 if wrong or loose * 1000 > pairs else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", default=list(MODELS), help="models as the plugin selects them")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="a tool; may be repeated (default: all)")
    parser.add_argument("--exporter", default=Case.exporter, help="the exporter of the files (default: %(default)s)")
    parser.add_argument("--files", type=Path, help="the folder for exports and the tools' results, used again")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--verbose", action="store_true", help="print every unproven call")
    return parser.parse_args(arguments)


def _measure_case(case: Case, tools: Sequence[Tool], folder: Path) -> Iterator[Row]:
    example = case.load()
    example.model.eval()
    for tool in tools:
        row = Row(tool.name, (case.name,), tolerance=TOLERANCES[tool.proof])
        if not tool.is_installed:
            yield replace(row, error=f"{tool.package} is not installed")
            continue
        try:
            yield _measure(case, example, tool, folder / case.name, row)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # one tool's failure is a row of the table
            text = str(error).strip().splitlines()
            yield replace(row, error=f"{type(error).__name__}: {text[-1] if text else ''}")


def _measure(case: Case, example: Any, tool: Tool, folder: Path, row: Row) -> Row:
    exporter = tool.exporter or case.exporter
    own = folder if exporter == Case.exporter else folder / exporter
    before, after = own / "model.onnx", own / tool.name / "model.onnx"
    after.parent.mkdir(parents=True, exist_ok=True)
    if not before.exists():
        export_case(replace(case, exporter=exporter), example, before)
    if not after.exists():
        feeds = feeds_of(example, onnx.load(before, load_external_data=False))
        with redirect_stdout(StringIO()):
            tool.run(Job(before, after, feeds, example))
    known = read(before)
    started = time.perf_counter()
    attribution = carry(before, known, after)
    seconds = time.perf_counter() - started
    proof = prove_tool(example, before, after, attribution, tool.proof)
    counts, coverage = proof.counts(), attribution.coverage()
    proven = counts[VerdictKind.PROVEN.value]
    return replace(
        row,
        nodes=len(attribution.nodes),
        pairs=proof.pairs,
        loose=len(proof.loose),
        derived=coverage["derived"],
        untagged=coverage["untagged"],
        counted=proven + counts[VerdictKind.UNPROVEN.value] + counts[VerdictKind.AMBIGUOUS.value],
        proven=proven,
        dissolved=counts[VerdictKind.DISSOLVED.value],
        seconds=seconds,
        unproven={name: f"{verdict.reason}: {verdict.value}" for name, verdict in proof.unproven.items()},
    )


def _total(tool: str, rows: Sequence[Row]) -> Row:
    """Return the sum of all rows of a tool that have figures."""
    own = [row for row in rows if row.tool == tool and not row.error]
    names = ("nodes", "pairs", "loose", "derived", "untagged", "counted", "proven", "dissolved", "seconds")
    sums = {name: sum(getattr(row, name) for row in own) for name in names}
    models = tuple(model for row in own for model in row.models)
    return Row(tool, models, tolerance=TOLERANCES[TOOLS[tool].proof], **sums)


def _print_row(console: Console, row: Row, *, verbose: bool) -> None:
    name = f"{row.models[0]}, {row.tool}"
    if row.error:
        console.print(f"{name}: {row.error}", highlight=False, markup=False)
        return
    text = f"{row.nodes} nodes, {row.proven} of {row.counted} proven, {row.dissolved} dissolved, {row.loose} loose"
    console.print(f"{name}: {text}", highlight=False, markup=False)
    for call, reason in row.unproven.items() if verbose else ():
        console.print(f"    {call}: {reason}", highlight=False, markup=False)


_COLUMNS = ("models", "nodes", "proven", "dissolved", "owners per node", "loose", "derived", "untagged", "seconds")


def _table(rows: Sequence[Row]) -> Table:
    table = Table("tool", *_COLUMNS)
    for row in rows:
        share = f"{row.proven} of {row.counted}" + (f" (±{row.tolerance:.0%})" if row.tolerance else "")
        owners = f"{row.pairs / row.nodes:.2f}" if row.nodes else "-"
        counts = (row.loose, row.derived, row.untagged)
        cells = (len(row.models), row.nodes, share, row.dissolved, owners, *counts, f"{row.seconds:.2f}")
        table.add_row(row.tool, *map(str, cells))
    return table


if __name__ == "__main__":
    sys.exit(main())
