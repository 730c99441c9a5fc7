"""Places the nodes that no other pass gave an origin."""

from __future__ import annotations

from pytest_hierexport._calls.attribution import Evidence, Origin
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._carry.match import Match, OriginsOf, weakened

__all__ = ["attribute_leftover"]


def attribute_leftover(match: Match, origins: OriginsOf) -> None:
    """Give a constant the origins of its consumers (`folded`), any other node that of a neighbour (`derived`)."""
    for node in reversed(match.after.nodes):
        if not origins[node] and not any(output.varying for output in node.outputs):
            of_consumers = (origin for consumer in match.after.consumers_of(node) for origin in origins[consumer])
            origins[node] += weakened(Evidence.FOLDED, of_consumers)
    for node in match.after.nodes:
        if not origins[node]:
            producers = (match.after.producer.get(value) for value in node.operands)
            near = [*(producer for producer in producers if producer is not None), *match.after.consumers_of(node)]
            found = next((origins[other] for other in near if origins[other]), [Origin(ROOT, Evidence.DERIVED)])
            origins[node] += weakened(Evidence.DERIVED, found[:1])
