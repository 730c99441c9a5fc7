"""How many calls keep proven tags in ONNX Runtime's optimized graphs, by `carry` and by a public matcher of nodes.

python -m benchmarks.trace_matcher --peer FOLDER bert llama vit t5 convnext mamba mixtral --json matcher.json

FOLDER holds `source_to_optimized_matcher.py` of the onnxruntime-qnn project (`qcom/tools/op_trace_matcher`), which maps
each optimized node to nodes of the source. The tags of these nodes are the peer's. One proof judges both, on the same
files. The peer's nodes with several sources count as fused, so that the proof excuses what a fusion removed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from rich.console import Console
from rich.table import Table

from benchmarks.foreign_tools import TOOLS, Job
from pytest_hierexport import carry, prove, read
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins, order_origins
from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._onnx.graph import node_key
from pytest_hierexport._proof import Proof
from pytest_hierexport._proof.verdict import VerdictKind

MODELS = ("bert", "llama", "vit", "t5", "convnext", "mamba", "mixtral")
LEVELS = ("basic", "extended", "all")
SCRIPT = "source_to_optimized_matcher.py"


@dataclass(frozen=True)
class Row:
    """One model at one level of optimization."""

    model: str
    level: str
    calls: int
    """The calls that either attribution proves or fails to prove."""
    ours: int
    """The calls that are proven by `carry`, of these."""
    ours_unproven: int
    peer: int
    peer_unproven: int
    untagged: int
    """Nodes for which the peer names no source."""
    nodes: int
    only_peer: tuple[str, ...]
    """The calls that the peer's tags alone prove."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 where the peer proves as many calls somewhere, unless that is all."""
    options = _options(arguments)
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    with TemporaryDirectory() as temporary:
        folder = options.files or Path(temporary)
        for case in select(options.models, Path.cwd()):
            rows += _measure_case(case, options.peer / SCRIPT, folder / case.name)
    Console().print(_table(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return 1 if any(row.ours <= row.peer and row.ours < row.calls for row in rows) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", default=list(MODELS), help="models as the plugin selects them")
    parser.add_argument("--peer", type=Path, required=True, help=f"the folder that holds {SCRIPT}")
    parser.add_argument("--files", type=Path, help="the folder for exports and optimized files, used again")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args(arguments)


def _measure_case(case: Case, script: Path, folder: Path) -> list[Row]:
    example = case.load()
    example.model.eval()
    before = folder / "model.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    if not before.exists():
        export_case(case, example, before)
    return [_measure(case.name, example, before, level, script) for level in LEVELS]


def _measure(name: str, example: Any, before: Path, level: str, script: Path) -> Row:
    known = read(before)
    tool = TOOLS[f"onnxruntime-{level}"]
    after = before.parent / tool.name / "model.onnx"
    after.parent.mkdir(exist_ok=True)
    if not after.exists():
        tool.run(Job(before, after, {}, example))
    carried = carry(before, known, after)
    matched = _matched(before, known, after, script)
    ours, peer = (prove(example, after, attribution) for attribution in (carried, matched))
    kinds = (VerdictKind.PROVEN, VerdictKind.UNPROVEN, VerdictKind.AMBIGUOUS)
    counted = {call for proof in (ours, peer) for call, verdict in proof.verdicts.items() if verdict.kind in kinds}
    proven_by_peer = _proven(peer)
    return Row(
        name,
        level,
        len(counted),
        len(_proven(ours)),
        len(ours.unproven),
        len(proven_by_peer),
        len(peer.unproven),
        sum(not origins for origins in matched.nodes.values()),
        len(matched.nodes),
        tuple(call for call in proven_by_peer if call not in _proven(ours)),
    )


def _proven(proof: Proof) -> list[str]:
    return [call for call, verdict in proof.verdicts.items() if verdict.kind is VerdictKind.PROVEN]


def _matched(before: Path, known: Attribution, after: Path, script: Path) -> Attribution:
    """Return the attribution that the peer's mapping of nodes gives."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source, sources = _named(before, folder / "source.onnx")
        optimized, keys = _named(after, folder / "optimized.onnx")
        output = folder / "mapping.json"
        given = ("--source-model", source, "--optimized-model", optimized, "--output", output)
        subprocess.run([sys.executable, script, *given], check=True, capture_output=True)
        mappings = json.loads(output.read_text(encoding="utf-8"))["node_mappings"]
    nodes: dict[str, Origins] = dict.fromkeys(carry(before, known, after).nodes, ())
    for mapping in mappings:
        chain = [sources[each["name"]] for each in mapping["original_sources"] if each["type"] == "OP"]
        origins = [origin for key in chain for origin in known.nodes[key]]
        if len(chain) > 1:
            origins = [Origin(origin.call, Evidence.FUSED) for origin in origins]
        nodes[keys[mapping["optimized_node"]]] = order_origins(known.hierarchy, origins)
    return Attribution(known.hierarchy, nodes)


def _named(path: Path, copy: Path) -> tuple[Path, Mapping[str, str]]:
    """Write a copy in which every node has a name of its own; return it with the key of each node by name.

    The peer knows nodes by name. Nodes without one, or with another node's, get their key.
    """
    model = onnx.load(path)
    keys: dict[str, str] = {}
    for i, node in enumerate(model.graph.node):
        key = node_key(node.output, i)
        node.name = key if not node.name or node.name in keys else node.name
        keys[node.name] = key
    onnx.save(model, copy)
    return copy, keys


def _table(rows: Sequence[Row]) -> Table:
    titles = ("calls", "proven by carry", "unproven", "proven by the peer", "unproven", "without a source", "nodes")
    names = ("calls", "ours", "ours_unproven", "peer", "peer_unproven", "untagged", "nodes")
    table = Table("model", "level", *titles)
    for row in rows:
        table.add_row(row.model, row.level, *(str(getattr(row, name)) for name in names))
    for level in LEVELS:
        own = [row for row in rows if row.level == level]
        table.add_row("sum", level, *(str(sum(getattr(row, name) for row in own)) for name in names))
    return table


if __name__ == "__main__":
    sys.exit(main())
