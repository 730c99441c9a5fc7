"""Matches the calls of the eager run with those of the graph.

Without branches and loops both give the calls the same names. With them, a capture records each body once, whether it
runs or not, and the eager run makes its calls as often as it runs. The calls that one call makes under one path are
then matched in order: those that it makes itself, and those in taken branches. Calls in loops are left out.

    model   torch.cond(c, b, lambda x: b(-x), (x,)); b(x)       c is false
    graph   b (not taken)   b@1 (taken)    b@2
    eager                   b in a body    b@1
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._calls.names import call_name
from pytest_hierexport._proof.eager import EagerCall
from pytest_hierexport._proof.owners import Graph

__all__ = ["match"]


def match(graph: Graph, calls: Sequence[EagerCall]) -> dict[str, EagerCall]:
    """Return the calls of an eager run, in the order given, by the name that each has in the graph."""
    if not graph.in_bodies:
        return {seen.call.name: seen for seen in calls}
    names = dict(_names(graph, sorted(calls, key=lambda seen: seen.start)))
    return {names[seen.call.name]: seen for seen in calls if seen.call.name in names}


def _names(graph: Graph, calls: Sequence[EagerCall]) -> Iterator[tuple[str, str]]:
    """Yield each call's name in the eager run and in the graph; the calls come in execution order."""
    waiting = _waiting(graph)
    known: dict[str, str] = {}
    for seen in calls:
        name, path, parent = seen.call.name, seen.call.path, seen.call.parent
        left = waiting[known.get(parent or ROOT), path, seen.in_body]
        if name == ROOT:
            known[name] = ROOT
        elif left:
            known[name] = left.popleft()
        elif seen.in_body and graph.has_loops:
            continue
        else:
            known[name] = _unused(name, path, graph.hierarchy, known)
        yield name, known[name]


def _waiting(graph: Graph) -> Mapping[tuple[str | None, str, bool], deque[str]]:
    """Return the graph's calls in order, by their parent, their path, and whether a body makes them."""
    waiting: dict[tuple[str | None, str, bool], deque[str]] = defaultdict(deque)
    for name, call in graph.hierarchy.items():
        if name not in graph.in_bodies or name in graph.entered:
            waiting[call.parent, call.path, name in graph.in_bodies].append(name)
    return waiting


def _unused(name: str, path: str, hierarchy: Hierarchy, known: Mapping[str, str]) -> str:
    """Return a name for a call that the graph does not have, and that no other call has."""
    taken = {*hierarchy, *known.values()}
    index = 0
    while name in taken:
        index += 1
        name = call_name(path, index)
    return name
