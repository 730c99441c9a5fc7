"""Gives initializers their origins: those before, or those of the nodes that constant folding computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_hierexport._calls.attribution import Evidence, Origin
from pytest_hierexport._carry.flat import Value
from pytest_hierexport._carry.match import Match, OriginsOf, weakened
from pytest_hierexport._carry.slices import backward_slice

__all__ = ["initializer_origins"]


def initializer_origins(match: Match, origins: OriginsOf) -> Mapping[str, Sequence[Origin]]:
    """Return the origins of every initializer after, by key."""
    return {name: _origins(match, origins, name, value) for name, value in match.after.initializers.items()}


def _origins(match: Match, origins: OriginsOf, name: str, value: Value) -> Sequence[Origin]:
    known = match.known.initializers.get(name)
    if known is not None:
        return known
    computed = match.before.named.get(value.name)
    if computed is not None and computed in match.before.producer:
        folded = backward_slice(match.before, [computed], match.is_alive)
        found = [origin for node in folded for origin in match.known.nodes[node]]
    else:
        found = [origin for consumer in match.after.consumers.get(value, ()) for origin in origins[consumer]]
    return weakened(Evidence.FOLDED, found)
