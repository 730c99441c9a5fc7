"""Gives inserted `Identity` nodes their origins.

An optimizer inserts an Identity where an output of the graph would be one of its inputs, or another output's value:

    before                    call       after                   origins
    u = Reshape(x)            layer      u = Identity(x)         layer (fused)
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._calls.attribution import Evidence, Origin
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._carry.aliases import namesake
from pytest_hierexport._carry.flat import Node
from pytest_hierexport._carry.match import Match, OriginsOf, weakened
from pytest_hierexport._carry.slices import between

__all__ = ["attribute_identities"]


def attribute_identities(match: Match, origins: OriginsOf) -> None:
    """Give each new Identity the origins of the value of its name, and of the calls that its value passes through."""
    for node in match.after.nodes:
        if node.identity_input is not None and node not in match.matched and not origins[node]:
            named = weakened(Evidence.FUSED, _origins_of_name(match, node))
            origins[node] += named or [Origin(ROOT, Evidence.FUSED)]
            origins[node] += _calls_passed(match, origins, node)


def _origins_of_name(match: Match, node: Node) -> Iterator[Origin]:
    """Yield the origins of the node before whose value has this name, and of its removed duplicates.

    A duplicate whose consumers take another value now does not count.
    """
    twin = namesake(match.before, node)
    if twin is None:
        return
    consumers = {name for output in node.outputs for name in match.after.names_of_consumers(output)}
    for duplicate in match.duplicates[match.numbering.expressions_before[twin]]:
        removed = not any(output.name in match.after.named for output in duplicate.outputs)
        names = {name for output in duplicate.outputs for name in match.consumer_names(output)}
        elsewhere = names.isdisjoint(consumers) and not names.isdisjoint(match.after.named)
        if duplicate is twin or (removed and not elsewhere):
            yield from match.known.nodes[duplicate]
    for value in twin.outputs:
        source = match.numbering.aliases.get(value)
        for passed in () if source is None else between(source, value, match.before, match.numbering):
            yield from match.known.nodes[passed]


def _calls_passed(match: Match, origins: OriginsOf, node: Node) -> list[Origin]:
    """Return the calls that the value stays inside of, on its way from its producer to a consumer."""
    hierarchy = match.known.hierarchy
    producer = None if node.identity_input is None else match.after.producer.get(node.identity_input)
    calls = {
        hierarchy.common((produced.call, consumed.call))
        for produced in (origins[producer] if producer is not None else ())
        for consumer in match.consumers(node)
        for consumed in origins[consumer]
    }
    owners = {call for origin in origins[node] for call in hierarchy.lineage(origin.call)}
    return [Origin(call, Evidence.FUSED) for call in sorted(calls - owners)]
