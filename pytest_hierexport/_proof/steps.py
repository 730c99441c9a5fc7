"""One run of a node, and the bodies and function calls around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution, Origins

if TYPE_CHECKING:
    import onnx

__all__ = ["Body", "Site", "Step"]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One run of a node: what stands in a loop or a function has several."""

    key: str
    node: onnx.NodeProto
    """Under the names that its values have in this run."""
    bodies: tuple[Body, ...] = ()
    """The bodies that it stands in, the outermost first."""
    site: Site | None = None
    """The call of the function that it stands in."""
    returned: tuple[str, ...] = ()
    """What its own bodies give back to it."""
    joined: tuple[str, ...] = ()
    """The keys of nodes that run unseen inside it."""

    def origins(self, attribution: Attribution) -> Origins:
        """Return the origins that the node has in this run."""
        found = dict.fromkeys(o for key in (self.key, *self.joined) for o in attribution.nodes.get(key, ()))
        return tuple(found) if self.site is None else self.site.restrict(tuple(found), attribution)


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """One run of a body: a branch that was taken, an iteration of a loop."""

    holder: Step
    name: str
    """Unique among the bodies of a run, but for the iterations of a loop."""
    iteration: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A call of a function.

    A node of the function carries the origins of all calls of it, in order: those below this call's own are meant.
    """

    origins: Origins
    """Of the calling node, whatever function that stands in itself."""
    outer: Site | None
    alike: list[Site] = field(repr=False)
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
        share, rest = divmod(len(inside), len(self.alike))
        if len(self.alike) == 1 or rest or callers == {origin.call for origin in inside}:
            return tuple(inside)
        # The caller made all these calls: each has an equal share of the calls below it.
        inside.sort(key=lambda origin: hierarchy.position[origin.call])
        place = self.alike.index(self)
        return tuple(inside[place * share : (place + 1) * share])
