"""Describes one run of a node: the functions and branches around it, and its origins there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution, Origins

if TYPE_CHECKING:
    import onnx

__all__ = ["Site", "Step"]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One run of a node; a node of a function has a step for each call of the function."""

    key: str
    node: onnx.NodeProto
    """The node, with the names that its values have in this run."""
    holders: tuple[Step, ...] = ()
    """The `If` nodes around it, the outermost first."""
    site: Site | None = None
    """The call of the function around it."""
    returned: tuple[str, ...] = ()
    """The values that its own branch returns to it."""
    inside: tuple[str, ...] = ()
    """The keys of the nodes of its loops and functions that have no step of their own."""

    def origins(self, attribution: Attribution) -> Origins:
        """Return the origins that the node, and those inside it, have in this run."""
        found = dict.fromkeys(o for key in (self.key, *self.inside) for o in attribution.nodes.get(key, ()))
        return tuple(found) if self.site is None else self.site.restrict(tuple(found), attribution)


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A call of a function.

    A node of the function carries the origins of all calls of it, in order. Those below the origins of the calling node
    belong to this call:

        y = twice(x)  [layer.0]      function twice: t = Neg(v)  [layer.0.act, layer.1.act]
        z = twice(y)  [layer.1]      restrict at z:               [layer.1.act]
    """

    origins: Origins
    """The origins of the calling node in all its own runs."""
    outer: Site | None
    siblings: list[Site] = field(repr=False)
    """The calls of the same function with the same origins, in order, this one among them."""

    def restrict(self, origins: Origins, attribution: Attribution) -> Origins:
        """Return those of a node's origins that belong to this call."""
        hierarchy = attribution.hierarchy
        own = self.origins
        if self.outer is not None:
            origins, own = self.outer.restrict(origins, attribution), self.outer.restrict(own, attribution)
        if not own:
            return origins
        callers = {origin.call for origin in own}
        inside = [o for o in origins if not callers.isdisjoint(hierarchy.lineage(o.call))]
        share, rest = divmod(len(inside), len(self.siblings))
        if len(self.siblings) == 1 or rest or callers == {origin.call for origin in inside}:
            return tuple(inside)
        # One caller made all these calls: each has an equal share of the calls below it.
        inside.sort(key=lambda origin: hierarchy.position[origin.call])
        place = self.siblings.index(self)
        return tuple(inside[place * share : (place + 1) * share])
