"""How many module calls' tags can be proven: torch's own metadata and ours, side by side in one run.

    python -m benchmarks.attribution bert llama family:vision --json attribution.json
    python -m benchmarks.attribution --types bert,gpt2,t5 --before
    python -m benchmarks.attribution all --opset 15 --exporter torchscript

Every figure comes from the same proof (docs/proof.md) on the same weights and inputs.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.table import Table

from pytest_hierexport import export
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._calls.names import join_path
from pytest_hierexport._cases import Case, Example, select
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._proof import Proof, prove

if TYPE_CHECKING:
    import onnx_ir as ir

SCOPES = "pkg.torch.onnx.name_scopes"
COLUMNS = ("proven", "unproven", "ambiguous", "pass-through", "folded", "dissolved")


@dataclass(frozen=True)
class Figures:
    """What one way of tagging reaches on one model."""

    verdicts: Mapping[str, int]
    share: float
    unproven: Mapping[str, int]
    """Unproven calls by kind: the reason without the names in it."""
    nodes: int
    untagged: int
    derived: int
    contaminated: int
    calls: Mapping[str, str] = field(default_factory=dict)
    """The reason, value and tag of each unproven call, by its name."""


@dataclass(frozen=True)
class Row:
    """One model under every way of tagging, or why it has none."""

    model: str
    ways: Mapping[str, Figures] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 where ours leaves a call unproven or a model fails."""
    options = _options(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    rows = []
    for case in _cases(options):
        rows.append(_measure(case, before=options.before))
        _print_row(console, rows[-1], verbose=options.verbose)
    console.print(_table(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    clean = all(not row.error and not row.ways["ours"].verdicts["unproven"] for row in rows)
    return 0 if clean else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("selectors", nargs="*", help="models as the plugin selects them: bert, family:vision, all")
    parser.add_argument("--types", default="", help="transformers model types, built from tiny configurations")
    parser.add_argument("--exporter", help="the exporter, for every model (default: the model's own)")
    parser.add_argument("--opset", type=int, help="the opset, for every model (default: the model's own)")
    parser.add_argument("--before", action="store_true", help="also torch's metadata before its optimizer")
    parser.add_argument("--verbose", action="store_true", help="print every unproven call of ours")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args(arguments)
    if not options.selectors and not options.types:
        parser.error("name models or --types")
    return options


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    cases = select(options.selectors, Path.cwd()) if options.selectors else []
    if options.types:
        from benchmarks.tiny_types import build

        cases = [*cases, *(Case(name, partial(build, name), f"--types {name}") for name in options.types.split(","))]
    for case in cases:
        yield replace(case, exporter=options.exporter or case.exporter, opset=options.opset or case.opset)


def _measure(case: Case, *, before: bool) -> Row:
    seconds: dict[str, float] = {}
    ways: dict[str, Figures] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            example = case.load()
            example.model.eval()
            started = time.perf_counter()
            exported = _export(case, example)
            seconds["export"] = time.perf_counter() - started
            hierarchy = exported.attribution.hierarchy
            for way, optimize in (("torch before optimizing", False), ("torch", True)):
                if optimize or before:
                    with contextlib.suppress(torch.onnx.OnnxExporterError):
                        ways[way] = _torch(case, example, hierarchy, optimize=optimize)
            started = time.perf_counter()
            proof = prove(example, exported.model, exported.attribution)
            seconds["proof"] = time.perf_counter() - started
            ways["ours"] = _figures(proof, exported.attribution)
    except HierexportError as error:
        return Row(case.name, error=str(error))
    except Exception as error:  # noqa: BLE001  # one model's failure is a row of the table
        return Row(case.name, error=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    return Row(case.name, ways, seconds)


def _export(case: Case, example: Example) -> Any:
    return export(
        example.model,
        example.args,
        example.kwargs,
        exporter=case.exporter,
        opset=case.opset,
        dynamic_shapes=example.dynamic_shapes,
    )


def _torch(case: Case, example: Example, hierarchy: Hierarchy, *, optimize: bool) -> Figures:
    with torch.no_grad():
        program = torch.onnx.export(
            example.model,
            example.args,
            kwargs=example.kwargs,
            dynamo=True,
            verbose=False,
            optimize=optimize,
            opset_version=case.opset,
            dynamic_shapes=example.dynamic_shapes,
        )
    model: Any = getattr(program, "model", None)
    attribution = torch_attribution(model, hierarchy)
    return _figures(prove(example, model, attribution), attribution)


def torch_attribution(model: ir.Model, hierarchy: Hierarchy) -> Attribution:
    """Read the scopes that torch writes on the nodes of a file. A path of theirs stands for its first call."""
    nodes: dict[str, Origins] = {}
    for key, node in walk(model):
        # The last scope is the node of the traced program itself.
        scopes = ast.literal_eval(node.metadata_props.get(SCOPES, "[]"))[:-1]
        path = join_path(scopes[-1].split(".")) if scopes and scopes[-1] else ""
        known = bool(scopes) and path in hierarchy
        nodes[key] = (Origin(path, Evidence.TRACED),) if known else ()
    return Attribution(hierarchy, nodes)


def _figures(proof: Proof, attribution: Attribution) -> Figures:
    coverage = attribution.coverage()
    reasons = {name: f"{v.reason}: {v.value} ({v.tag})" for name, v in proof.unproven.items()}
    return Figures(
        proof.counts(),
        proof.share,
        dict(Counter(_reason_kind(v.reason) for v in proof.unproven.values())),
        len(attribution.nodes),
        coverage["untagged"],
        coverage["derived"],
        len(proof.contaminated),
        reasons,
    )


def _reason_kind(reason: str) -> str:
    for kind in ("makes", "was not given", "did not give"):
        if reason.endswith(kind):
            return {"makes": "not made", "was not given": "enters", "did not give": "leaves"}[kind]
    return re.sub(r"\S*\d\S*", "", reason)


def _print_row(console: Console, row: Row, *, verbose: bool) -> None:
    if row.error:
        console.print(f"{row.model}: {row.error}", highlight=False, markup=False)
        return
    shares = "  ".join(f"{way} {figures.share:.2%}" for way, figures in row.ways.items())
    times = "  ".join(f"{what} {seconds:.2f} s" for what, seconds in row.seconds.items())
    console.print(f"{row.model}: {shares}  ({times})", highlight=False, markup=False)
    for name, reason in row.ways["ours"].calls.items() if verbose else ():
        console.print(f"    {name}: {reason}", highlight=False, markup=False)


def _table(rows: Sequence[Row]) -> Table:
    table = Table("model", "tags by", "share", *COLUMNS, "nodes", "untagged", "derived", "contaminated")
    for row in rows:
        for way, figures in row.ways.items():
            table.add_row(row.model, way, *_cells(figures))
        if row.error:
            table.add_row(row.model, "-", "failed")
    for way in dict.fromkeys(way for row in rows for way in row.ways):
        part = [row.ways[way] for row in rows if way in row.ways]
        clean = sum(not figures.verdicts["unproven"] for figures in part)
        table.add_row(f"all {len(part)}, {clean} without a wrong call", way, *_cells(_total(part)), style="bold")
    return table


def _cells(figures: Figures) -> list[str]:
    counted = [figures.verdicts[kind] for kind in COLUMNS]
    more = (figures.nodes, figures.untagged, figures.derived, figures.contaminated)
    return [f"{figures.share:.2%}", *(str(count) for count in (*counted, *more))]


def _total(part: Sequence[Figures]) -> Figures:
    verdicts = {kind: sum(figures.verdicts[kind] for figures in part) for kind in COLUMNS}
    counted = verdicts["proven"] + verdicts["unproven"] + verdicts["ambiguous"]
    unproven: Counter[str] = Counter()
    for figures in part:
        unproven.update(figures.unproven)
    return Figures(
        verdicts,
        verdicts["proven"] / counted if counted else 1.0,
        dict(unproven),
        sum(figures.nodes for figures in part),
        sum(figures.untagged for figures in part),
        sum(figures.derived for figures in part),
        sum(figures.contaminated for figures in part),
    )


if __name__ == "__main__":
    sys.exit(main())
