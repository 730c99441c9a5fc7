"""Gives the producer of a value the origins of operations that cancelled out between it and its new consumers.

Example. `layer` transposes its result, and `head`, which called it, transposes it back. The optimizer drops both (an
inverse pair): a consumer in `head` now takes a value that `layer` computed but never returned.

    before                    call       after                  origins
    y = MatMul(x, w)          layer      y = MatMul(x, w)       layer, head (both fused)
    t = Transpose(y)          layer
    u = Transpose(t)          head
    z = Relu(u)               head       z = Relu(y)            head
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from pytest_hierexport._calls.attribution import Evidence, Origin
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._carry.flat import Node, Value
from pytest_hierexport._carry.match import Match, OriginsOf, weakened
from pytest_hierexport._carry.slices import between


def attribute_cancelled(match: Match, origins: OriginsOf) -> None:
    """Add the origins of cancelled operations to the nodes that give their value now (fsmt, patchtst).

    Operations that one call does and undoes itself do not concern others. Let the *last* call be that of the last
    cancelled operation. If all of them belong to it or to calls below it, it undid what these did: a producer gets
    their origins if one of the calls below owns it. Else a producer gets them if it lies outside the last call.
    """
    hierarchy = match.attributed.hierarchy
    for value, source in match.numbering.aliases.items():
        last = match.before.producer.get(value)
        # What a node that survived computes did not cancel.
        if last is None or match.survivors.get(last):
            continue
        nodes = between(source, value, match.before, match.numbering)
        cancelled = [origin for node in nodes for origin in match.attributed.nodes[node]]
        calls = {origin.call for origin in match.attributed.nodes[last]}
        inside = all(_is_below(hierarchy, origin, calls) for origin in cancelled)
        # An Identity may still give the value its name: then the consumers take that. Where only the value's name is
        # left, the producer of the source has taken it.
        if value.name in match.after.named and (inside or source.name in match.after.named or not source.varying):
            continue
        inner = {origin.call for origin in cancelled} - calls
        if source not in match.before.producer and not inside:
            # Nothing computes an input of the graph: what one call did to it, and the consumers' call undid, went into
            # the consumers. neuralforecast's PatchTST transposes what its caller transposed.
            for node in match.consumers_now(value):
                if _any_below(hierarchy, origins[node], calls):
                    origins[node] = weakened(Evidence.FUSED, [*origins[node], *cancelled])
        for node in _producers_now(match, source):
            owners = origins[node]
            if _any_below(hierarchy, owners, inner if inside else calls) == inside:
                origins[node] = weakened(Evidence.FUSED, [*owners, *cancelled])


def _any_below(hierarchy: Hierarchy, origins: Iterable[Origin], calls: AbstractSet[str]) -> bool:
    return any(_is_below(hierarchy, origin, calls) for origin in origins)


def _is_below(hierarchy: Hierarchy, origin: Origin, calls: AbstractSet[str]) -> bool:
    return not calls.isdisjoint(hierarchy.lineage(origin.call))


def _producers_now(match: Match, value: Value) -> list[Node]:
    """Return the nodes after that give a value before: the one of its name, else all that give an equal value."""
    named = match.after.named.get(value.name)
    equal = match.numbering.by_number_after.get(match.numbering.old[value], [])
    values = equal if named is None else [named]
    return [match.after.producer[each] for each in values if each in match.after.producer]
