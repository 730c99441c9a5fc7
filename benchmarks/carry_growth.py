"""What `carry` takes as a graph grows, beside the optimizer that changed the graph.

    python -m benchmarks.carry_growth [--nodes 10 100 1000 10000 100000] [--repeats N] [--json FILE]

A graph of residual blocks, each a module call of its own, holds what optimizers remove: a no-op in each block, and an
operation that each block does over again. The peer is the optimizer: onnx_ir's removal of Identity nodes and its common
subexpression elimination. Figures are processor seconds, the least of the repeats; both ran in this process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import CommonSubexpressionEliminationPass, IdentityEliminationPass

from pytest_hierexport import Attribution, Evidence, Hierarchy, Origin, carry, node_key
from pytest_hierexport._calls.attribution import Origins
from pytest_hierexport._calls.hierarchy import Call

BLOCK = ("Exp", "Identity", "Neg", "Tanh", "Add", "Relu", "Sigmoid", "Mul", "Abs", "Add")
"""The operators of a block, in order; the last one adds the block's input."""
GROUP = 16
"""How many blocks do the same operation over again: as layers do that compute one mask each."""
SECONDS, NODES = 10.0, 100_000
"""DESIGN's budget."""


@dataclass(frozen=True)
class Growth:
    """One size of the graph."""

    nodes: int
    after: int
    carry: float
    optimizer: float


def graph(blocks: int) -> tuple[ir.Model, Attribution]:
    """Return a graph of blocks, and the call of each node."""
    x = ir.val("x", ir.DataType.FLOAT, [2])
    value = common = x
    nodes: list[ir.Node] = []
    origins: dict[str, Origins] = {}
    calls = [Call("", 0, "bench.Root", None)]

    def add(block: int, operator: str, *inputs: ir.Value) -> ir.Value:
        node = ir.node(operator, list(inputs), name=f"node_{len(nodes)}")
        node.outputs[0].name = f"value_{len(nodes)}"
        origins[node_key([f"value_{len(nodes)}"], len(nodes))] = (Origin(f"blocks.{block}", Evidence.TRACED),)
        nodes.append(node)
        return node.outputs[0]

    for block in range(blocks):
        calls.append(Call(f"blocks.{block}", 0, "bench.Block", ""))
        start = value
        for operator in BLOCK[:3]:
            value = add(block, operator, value)
        if block % GROUP == 0:
            common = start
        shared = add(block, "Tanh", common)
        value = add(block, "Add", value, shared)
        for operator in BLOCK[5:7]:
            value = add(block, operator, value)
        value = add(block, "Mul", value, shared)
        value = add(block, "Add", add(block, "Abs", value), start)
    model = ir.Model(ir.Graph([x], [value], nodes=nodes, opset_imports={"": 20}, name="growth"), ir_version=10)
    value.shape, value.type = x.shape, x.type
    return model, Attribution(Hierarchy(calls), origins, {})


def optimize(model: ir.Model) -> ir.Model:
    """Remove what the blocks do in vain."""
    for each in (IdentityEliminationPass(), CommonSubexpressionEliminationPass()):
        model = each(model).model
    return model


def measure(nodes: int, repeats: int) -> Growth:
    """Time one size; fail where a node of the optimized graph has no origin."""
    before, known = graph(max(1, nodes // len(BLOCK)))
    copies = [before.clone() for _ in range(repeats)]
    optimizer = min(_seconds(lambda copy=copy: optimize(copy)) for copy in copies)  # type: ignore[misc]
    found = carry(before, known, copies[0])
    assert all(found.nodes.values()), "a node without origins"  # noqa: S101
    spent = min(_seconds(lambda: carry(before, known, copies[0])) for _ in range(repeats))
    return Growth(len(known.nodes), len(found.nodes), spent, optimizer)


def _seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def main() -> int:
    """Measure each size, print the table; 1 where the largest is beyond the budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1_000, 10_000, NODES])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    print(f"{'nodes':>9}{'after':>9}{'carry s':>10}{'optimizer s':>13}{'µs per node':>13}")
    found = []
    for nodes in options.nodes:
        found.append(each := measure(nodes, options.repeats))
        per_node = 1e6 * each.carry / each.nodes
        print(f"{each.nodes:9,}{each.after:9,}{each.carry:10.3f}{each.optimizer:13.3f}{per_node:13.1f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", encoding="utf-8")
    return 1 if any(each.nodes <= NODES and each.carry > SECONDS for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
