"""Gives nodes wrong tags on purpose: how many of them does the proof find?

    python -m benchmarks.wrong_tags [MODEL …] [--seeds N] [--first SEED] [--count N] [--tool TOOL] [--list]
                                    [--json FILE]

    right    t = Exp(x) [a]       h = Neg(t) [a]    y = Sin(h) [b]
    wrong    t = Exp(x) [b]       moved: the tag of a neighbour instead of its own
             t = Exp(x) [a, b]    added: the tag of a neighbour besides its own, merged or (`claimed`) fused
             t = Exp(x) [a]       lost: one tag of several is gone, where [a, b] was right
             t = Exp(x) [a, c]    swapped: one tag of several is a neighbour's, where [a, b] was right

A neighbour is the call of a node that produces or consumes a value of the node, or the call above its own. Every model
is exported, goes through a tool of another project if one is named, and is proven; those that are not proven with their
own tags are left out. Then a few of its nodes are drawn, and each gets a wrong tag of each kind, alone. A wrong tag is
*found* if a call is unproven, which fails MUST-007; *told* if only a contaminated node or a loose owner is new. All
others are *missed*: some by necessity, for the values show nothing (docs/proof.md, "What is not shown"). Nodes that
depend on sizes alone are left out, as it says there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from io import StringIO
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import onnx

from benchmarks.foreign_tools import TOOLS, Job, Tool
from pytest_hierexport import carry, prove
from pytest_hierexport._calls.attribution import Evidence, Origin, Origins
from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._errors import HierexportError, UsageError
from pytest_hierexport._onnx.models import as_proto
from pytest_hierexport._proof import Proof
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.owners import Graph, Node
from pytest_hierexport._proof.prove import run_both

KINDS = ("moved", "lost", "swapped", "added", "claimed")
OUTCOMES = ("found", "told", "missed")


@dataclass(frozen=True)
class WrongTag:
    """A wrong tag, and what the proof says."""

    model: str
    kind: str
    node: str
    operator: str
    right: tuple[str, ...]
    """The calls of the node."""
    wrong: tuple[str, ...]
    """Those that it was given."""
    outcome: str
    """`found`, `told` or `missed`."""

    def __str__(self) -> str:
        """Return it as a line."""
        change = f"[{', '.join(map(repr, self.right))}] -> [{', '.join(map(repr, self.wrong))}]"
        return f"{self.model}: {self.outcome}, {self.kind}: {self.operator} {self.node} {change}"


def wrong_tags(case: Case, count: int, tool: Tool | None = None) -> Iterator[WrongTag]:
    """Export a case, and yield the outcome of wrong tags on so many of its nodes.

    Raises:
        HierexportError: It cannot be exported, or a call is unproven with its own tags.
    """
    example = case.load()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        attribution = export_case(case, example, model).attribution
        if tool is not None:
            before, model = model, Path(folder) / "after.onnx"
            with redirect_stdout(StringIO()):
                tool.run(Job(before, model, feeds_of(example, onnx.load(before)), example))
            attribution = carry(before, attribution, model)
        right = prove(example, model, attribution)
        if right.unproven:
            raise UsageError("a model whose own tags are proven", found=repr(right), do="leave it out")
        with as_proto(model) as (message, external):
            graph = run_both(example, message, attribution, external).graph
        random = Random(case.name)
        nodes = [node for node in graph.nodes if node.key in attribution.nodes and _has_elements(graph, node)]
        for node in random.sample(nodes, min(count, len(nodes))):
            own = attribution.nodes[node.key]
            for kind, wrong in wrong_origins(graph, node, own, random):
                changed = replace(attribution, nodes={**attribution.nodes, node.key: wrong})
                outcome = _outcome(right, prove(example, model, changed))
                yield WrongTag(case.name, kind, node.key, node.operator, _names(own), _names(wrong), outcome)


def _has_elements(graph: Graph, node: Node) -> bool:
    return not graph.by_elements.isdisjoint(node.outputs)


def _names(origins: Origins) -> tuple[str, ...]:
    return tuple(origin.call for origin in origins)


def wrong_origins(graph: Graph, node: Node, own: Origins, random: Random) -> Iterator[tuple[str, Origins]]:
    """Yield wrong origins of a node, one of each kind that it can have."""
    near = list(dict.fromkeys(_neighbours(graph, node)))
    others = [call for call in near if call not in _names(own)]
    if others:
        yield "moved", (Origin(random.choice(others), Evidence.TRACED),)
    above = {call for owner in node.owners for call in owner.calls if call != owner.origin.call}
    kept = [each for each in own if each.call not in above]
    # A call above an owner owns the node already.
    beside = [call for call in others if call not in node.calls]
    left: Origins = ()
    if len(kept) > 1:
        gone = random.choice(kept)
        left = tuple(each for each in own if each != gone)
        yield "lost", left
    if beside:
        new = random.choice(beside)
        if left:
            yield "swapped", _fused(left, new)
        yield "added", (*own, Origin(new, Evidence.MERGED))
        yield "claimed", _fused(own, new)


def _fused(own: Origins, new: str) -> Origins:
    return *(replace(each, evidence=Evidence.FUSED) for each in own), Origin(new, Evidence.FUSED)


def _neighbours(graph: Graph, node: Node) -> Iterator[str]:
    """Yield the calls of the nodes before and behind a node, and those above its own calls."""
    before = (graph.producer[value] for value in node.inputs if value in graph.producer)
    behind = (i for value in node.outputs for i in graph.consumers.get(value, ()))
    for near in (graph.nodes[i] for i in (*before, *behind)):
        yield from (owner.origin.call for owner in near.owners)
    above = (graph.hierarchy[owner.origin.call].parent for owner in node.owners)
    yield from (call for call in above if call is not None)


def _outcome(right: Proof, wrong: Proof) -> str:
    if wrong.unproven:
        return "found"
    told = wrong.contaminated.keys() - right.contaminated.keys() or set(wrong.loose) - set(right.loose)
    return "told" if told else "missed"


def random_cases(seeds: Sequence[int]) -> Iterator[Case]:
    """Yield random architectures."""
    from architectures import generate

    for seed in seeds:
        yield generate(Random(seed)).case(f"seed{seed}")


def report(found: Sequence[WrongTag]) -> Iterator[str]:
    """Yield the lines of a table: the outcomes by kind."""
    yield f"{'kind':<10}" + "".join(f"{name:>9}" for name in ("tags", *OUTCOMES)) + f"{'found':>10}"
    for kind in (*KINDS, "all"):
        outcomes = Counter(each.outcome for each in found if kind in {each.kind, "all"})
        if total := outcomes.total():
            counts = "".join(f"{count:>9}" for count in (total, *(outcomes[name] for name in OUTCOMES)))
            yield f"{kind:<10}{counts}{outcomes['found'] / total:>10.2%}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="selectors")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="random architectures (default: none)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (default: 0)")
    parser.add_argument("--count", type=int, default=10, metavar="N", help="nodes of each model (default: 10)")
    parser.add_argument(
        "--tool", choices=TOOLS, metavar="TOOL", help="a tool that the files go through (default: none)"
    )
    parser.add_argument("--list", action="store_true", help="also print each wrong tag that is not found")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every wrong tag to a file")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    named = select(options.models, Path.cwd()) if options.models else []
    found: list[WrongTag] = []
    for case in (*named, *random_cases(range(options.first, options.first + options.seeds))):
        try:
            new = list(wrong_tags(case, options.count, TOOLS.get(options.tool)))
        except HierexportError as error:
            print(f"{case.name}: left out: {str(error).splitlines()[0]}", flush=True)
            continue
        found += new
        for each in new:
            if options.list and each.outcome != "found":
                print(each, flush=True)
    print("\n".join(report(found)))
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
