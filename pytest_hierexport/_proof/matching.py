"""Which call of the eager run is which call of the graph.

Where the model has no branches and loops of torch's own, both sides name the calls alike. Where it has, a capture
writes a body down once, whether it runs or not, and an eager run goes through it as often as it runs. There the calls
that one call makes of a path are matched in their order: those that it makes itself, and those in bodies.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy, call_name
from pytest_hierexport._proof.boundary import WHOLE, Graph, Turn
from pytest_hierexport._proof.eager import EagerCall

__all__ = ["match"]


def match(graph: Graph, calls: Sequence[EagerCall], *, cut: bool = False) -> dict[Turn, EagerCall]:
    """Return the calls of an eager run by the turn of the graph that each is.

    Args:
        graph: The graph.
        calls: The calls that were seen, in any order, which the result keeps.
        cut: Whether loops were left early: what ran in a body and has no place in the graph is then left out.
    """
    if not graph.in_bodies:
        return {Turn(seen.call.name): seen for seen in calls}
    turns = dict(_turns(graph, sorted(calls, key=lambda seen: seen.start), cut=cut))
    return {turns[seen.call.name]: seen for seen in calls if seen.call.name in turns}


def _turns(graph: Graph, calls: Sequence[EagerCall], *, cut: bool) -> Iterator[tuple[str, Turn]]:
    """Yield the turn of each call by the name that it had in the eager run; the calls come in execution order."""
    waiting = _waiting(graph)
    known: dict[str, Turn] = {}
    for seen in calls:
        name, path, parent = seen.call.name, seen.call.path, seen.call.parent
        left = waiting[known.get(parent or ROOT), path, seen.in_body]
        if name == ROOT:
            known[name] = WHOLE
        elif left:
            known[name] = left.popleft()
        elif seen.in_body and cut:
            continue
        else:
            known[name] = Turn(_unused(name, path, graph.hierarchy, known))
        yield name, known[name]


def _waiting(graph: Graph) -> Mapping[tuple[Turn | None, str, bool], deque[Turn]]:
    """Return turns in order, by the turn above them, the path that is called, and whether a body calls it."""
    waiting: dict[tuple[Turn | None, str, bool], deque[Turn]] = defaultdict(deque)
    for turn, above in graph.above.items():
        waiting[above, graph.hierarchy[turn.call].path, turn.call in graph.in_bodies].append(turn)
    return waiting


def _unused(name: str, path: str, hierarchy: Hierarchy, known: Mapping[str, Turn]) -> str:
    """Return a name for a call that the graph does not know, and that no other call has."""
    taken = {*hierarchy, *(turn.call for turn in known.values())}
    index = 0
    while name in taken:
        index += 1
        name = call_name(path, index)
    return name
