"""Matches the calls of the eager run with those of the graph.

Without branches and loops both give the calls the same names. With them, a capture records each body once, whether it
runs or not, and the eager run makes its calls as often as it runs. The calls that one call makes under one path are
then matched in order: those that it makes itself, and those in taken branches. Calls in loops are left out; any other
call that the graph lacks gets a name of its own, so that wrong tags do not hide it. What such a call makes, its caller
makes in the graph: a model that is captured may call through it.

    model   torch.cond(c, b, lambda x: b(-x), (x,)); b(x)       c is false
    graph   b (not taken)   b@1 (taken)    b@2
    eager                   b in a body    b@1
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import count

from pytest_hierexport._calls.names import call_name
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.owners import Graph


def match(graph: Graph, calls: Sequence[EagerCall]) -> dict[str, EagerCall]:
    """Return the calls of an eager run, in the order given, by the name that each has in the graph."""
    if not graph.in_bodies:  # the call above may have another name: a model that is captured may call through it
        return {seen.call.name: seen for seen in calls}
    waiting: dict[tuple[str | None, str, bool], deque[str]] = defaultdict(deque)
    for name, call in graph.hierarchy.items():
        if graph.in_bodies.get(name, True):
            waiting[call.parent, call.path, name in graph.in_bodies].append(name)
    names: dict[str | None, str] = {}
    taken = {*graph.hierarchy}
    callers: dict[str | None, str | None] = {}  # in the graph, of what each call makes
    for seen in sorted(calls, key=lambda seen: seen.start):
        call = seen.call
        caller = callers.get(call.parent)
        left = waiting[caller, call.path, seen.in_body]
        if left:
            names[call.name] = callers[call.name] = left.popleft()
        elif not (seen.in_body and graph.has_loops):
            names[call.name] = next(name for i in count() if (name := call_name(call.path, i)) not in taken)
            taken.add(names[call.name])
            callers[call.name] = caller
    return {names[seen.call.name]: seen for seen in calls if seen.call.name in names}
