"""Records the calls that each node and initializer of a graph comes from, with the evidence for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pytest_hierexport._calls.hierarchy import ROOT, Call, Hierarchy
from pytest_hierexport._calls.patterns import calls_below
from pytest_hierexport._calls.unknown import node_without_tag, unknown_call
from pytest_hierexport._display import Shown, Table
from pytest_hierexport._errors import UsageError


class Evidence(str, Enum):
    """The kinds of evidence for an origin, the strongest first."""

    TRACED = "traced"
    """The call ran the operation while the model was captured; of a node that takes graph inputs alone, it may be the
    model's own call; of a parameter, it is the first call of a module that holds it."""
    MERGED = "merged"
    """The call ran an equal operation that this node replaced: an optimizer merged both (common subexpression
    elimination), or the capture dropped one (dead code elimination)."""
    FUSED = "fused"
    """The call ran an operation that this node replaces, alone or with others. The node may also copy an operation of
    the call, call a function of its operations, lie in the body of its node, or cast its value. What a tool added
    around the model has the model's own call."""
    FOLDED = "folded"
    """Constant folding turned operations of the call into the initializer or `Constant` node; or the constant is new,
    and this call consumes it."""
    DERIVED = "derived"
    """Guessed from the neighbours of the node; counted and shown as a guess."""

    @property
    def rank(self) -> int:
        """0 for the strongest evidence, more for weaker ones."""
        return _RANK[self]


_RANK = {evidence: i for i, evidence in enumerate(Evidence)}


@dataclass(frozen=True, slots=True)
class Origin:
    """A call that a node comes from."""

    call: str
    evidence: Evidence

    def __post_init__(self) -> None:
        """Take the text of an evidence for it: it is equal to it, and has no `value`."""
        if type(self.evidence) is not Evidence:
            object.__setattr__(self, "evidence", Evidence(self.evidence))

    def __repr__(self) -> str:
        """Return the call's name and the evidence for it."""
        return f"<origin {self.call!r}, {self.evidence.value}>"


Origins = tuple[Origin, ...]
Primary = str | Callable[[Hierarchy, Sequence[Origin]], Origin]
"""The choice of the first of several origins: `"first"`, `"ancestor"` or a function."""


def order_origins(hierarchy: Hierarchy, origins: Iterable[Origin], primary: Primary = "first") -> Origins:
    """Return one origin per call, with its strongest evidence, the primary first.

    Args:
        hierarchy: The calls.
        origins: In any order; a call may occur several times.
        primary: `"first"`: the first call in execution order, whatever its evidence. `"ancestor"`: the nearest common
            ancestor of the calls, with the evidence of the first. A function: the origin that it returns.

    Raises:
        KeyError: The hierarchy lacks the call of an origin.
        UsageError: `primary` is none of these, or a function that returns something else.
    """
    if not callable(primary) and primary not in ("first", "ancestor"):
        raise UsageError(
            'primary to be "first", "ancestor" or a function of the hierarchy and the origins',
            found=repr(primary),
            do="choose one of them",
        )
    strongest: dict[str, Evidence] = {}
    for origin in origins:
        known = strongest.get(origin.call)
        if known is None or origin.evidence.rank < known.rank:
            strongest[origin.call] = origin.evidence
    ordered = tuple(Origin(call, strongest[call]) for call in sorted(strongest, key=hierarchy.position.__getitem__))
    if len(ordered) < 2 or primary == "first":
        return ordered
    if callable(primary):
        chosen = primary(hierarchy, ordered)
    else:
        chosen = Origin(hierarchy.common(origin.call for origin in ordered), ordered[0].evidence)
    if not isinstance(chosen, Origin) or chosen.call not in hierarchy:
        raise UsageError(
            "a function for the primary origin to return one of the origins it is given",
            found=repr(chosen),
            do="return one of them, or Origin(call, evidence) with the name of a call above them",
        )
    return (chosen, *(origin for origin in ordered if origin.call != chosen.call))


@dataclass(frozen=True)
class Attribution(Shown):
    """The origins of every node of a graph, its subgraphs and functions included, and of every initializer.

    Nodes and initializers are named by their keys. :func:`pytest_hierexport.node_key` gives that of a node, which may
    differ from the name of its output: names in keys are percent-encoded. The first origin of each is its primary.
    A node may have no origins; an initializer without origins is not listed.
    """

    hierarchy: Hierarchy
    nodes: Mapping[str, Origins] = field(default_factory=dict)
    initializers: Mapping[str, Origins] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Drop initializers without origins, so that attributions that say the same are equal."""
        listed = {key: origins for key, origins in self.initializers.items() if origins}
        object.__setattr__(self, "initializers", listed)

    def __repr__(self) -> str:
        """Return the number of nodes by evidence, of initializers and of calls."""
        listed = ", ".join(f"{kind} {count}" for kind, count in self.coverage().items() if count)
        evidence = f" ({listed})" if listed else ""
        return (
            f"<attribution of {len(self.nodes)} nodes{evidence} and {len(self.initializers)} initializers "
            f"to {len(self.hierarchy)} calls>"
        )

    def nodes_of(self, call: str | Call, *, primary: bool = False) -> list[str]:
        """Return the keys of the nodes that come from a call or from the calls below it, in the order of the graph.

        Args:
            call: A call or its name; the root's name is the empty text.
            primary: Whether only primary origins count: each node then comes from one call alone.

        Raises:
            KeyError: There is no such call.
        """
        name = call.name if isinstance(call, Call) else call
        if name not in self.hierarchy:
            raise unknown_call(name, self.hierarchy, self.hierarchy.tag)
        below = calls_below(self.hierarchy, [name])
        return [
            node
            for node, origins in self.nodes.items()
            if any(origin.call in below for origin in (origins[:1] if primary else origins))
        ]

    def _table(self) -> Table:
        return Table.of(repr(self), ("tag", "class", "nodes", "evidence"), self._rows())

    def _rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the calls that have a segment in tags, each with the nodes whose primary tag is its own."""
        counts: dict[str, Counter[str]] = {}
        for origins in self.nodes.values():
            for origin in origins[:1]:
                owner = self.hierarchy.kept(origin.call) or ROOT
                counts.setdefault(owner, Counter())[origin.evidence.value] += 1
        for name, call in self.hierarchy.items():
            if self.hierarchy.is_kept(name) or name == ROOT:
                found = counts.get(name, Counter())
                listed = ", ".join(f"{kind} {count}" for kind, count in sorted(found.items()))
                yield self.hierarchy.tag(name), call.class_name, found.total(), listed

    def tag(self, node: str) -> str:
        """Return the primary tag of a node.

        Raises:
            KeyError: There is no such node, or it has no origin.
        """
        origins = self.nodes.get(node)
        if not origins:
            raise node_without_tag(self.nodes, node)
        return self.hierarchy.tag(origins[0].call)

    def coverage(self) -> dict[str, int]:
        """Count nodes by the evidence of their primary origin, `untagged` ones among them."""
        counts = Counter(origins[0].evidence.value if origins else "untagged" for origins in self.nodes.values())
        return {kind: counts[kind] for kind in (*(evidence.value for evidence in Evidence), "untagged")}
