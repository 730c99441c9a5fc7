"""Gives each copy of a node that several calls own to the calls whose nodes take it.

Example. An optimizer had merged the masks of two layers; a tool for a device computes it once for each consumer again:

    before                     call                     after                      origins
    mask = Where(c, a, b)      a traced, b merged       mask = Where(c, a, b)      a traced
    s    = Add(q, mask)        a                        s    = Add(q, mask)        a traced
    t    = Add(k, mask)        b                        copy = Where(c, a, b)      b fused
                                                        t    = Add(k, copy)        b traced
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from pytest_hierexport._calls.attribution import Evidence
from pytest_hierexport._carry.flat import Node
from pytest_hierexport._carry.match import Match, OriginsOf, weakened
from pytest_hierexport._grouping import grouped


def attribute_copies(match: Match, origins: OriginsOf) -> None:
    """Keep for each copy the owners whose nodes take it; change nothing where a copy, or an owner, would keep none."""
    for copies in _copies(match):
        owners = {origin.call for node in copies for origin in origins[node]}
        kept = {node: _nearest(match, origins, node, owners) for node in copies}
        if not all(kept.values()) or owners != set[str]().union(*kept.values()):
            continue
        for node in copies:
            left = [origin for origin in origins[node] if origin.call in kept[node]]
            # With merged origins alone, this is a further copy of what these calls ran, not the node that replaced it.
            alone = all(origin.evidence == Evidence.MERGED for origin in left)
            origins[node] = weakened(Evidence.FUSED, left) if alone else left


def _copies(match: Match) -> Iterable[list[Node]]:
    """Return the nodes of each expression that has more nodes after than before, the last ones first."""
    expressions = match.numbering.expressions_after
    # Constants are shared freely, and computed more often than before (FSMT).
    more = {expressions[node] for node in match.unpaired if node.varying}
    nodes = (node for node in reversed(match.after.nodes) if expressions[node] in more)
    return grouped(nodes, expressions.__getitem__).values()


def _nearest(match: Match, origins: OriginsOf, node: Node, owners: AbstractSet[str]) -> set[str]:
    """Return those owners of a node that are the nearest ones above the calls of its consumers."""
    consumers = (each for output in node.outputs for each in match.after.own_consumers(output))
    calls = {origin.call for consumer in consumers for origin in origins[consumer]}
    lineages = (match.attributed.hierarchy.lineage(call) for call in calls)
    return {owner for lineage in lineages for owner in [each for each in lineage if each in owners][:1]}
