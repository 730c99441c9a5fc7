"""Writes a profile for viewers: a trace for Perfetto, node data for Model Explorer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._tools.profiling.figures import KernelSlice, Profile

_MOST_TRACKS = 64
"""Deeper calls have no track; their time is shown on the tracks of the calls above them."""
_PROCESS = 1
_TITLE = "self time (ms)"


def trace(profile: Profile) -> dict[str, Any]:
    """Return one run in the Chrome trace event format: a track for each depth of calls, and one for kernels.

    A call has a slice from its first kernel to its last; more than one if kernels of other calls ran in between.
    """
    hierarchy = profile.hierarchy
    calls = {node.key: node.calls[0] for node in profile.nodes if node.calls}
    of_call = {call: [*hierarchy.lineage(call)][::-1][:_MOST_TRACKS] for call in set(calls.values())}
    pieces = list(_pieces(profile.timeline, {key: of_call[call] for key, call in calls.items()}))
    depths = max(map(len, of_call.values()), default=0)
    events = [_named_track(depth, f"calls at depth {depth}") for depth in range(depths)]
    events.append(_named_track(depths, "kernels"))
    for depth in range(depths):
        for call, start, end in _merged(pieces, depth):
            name = hierarchy[call].class_name
            label = f"{call} ({name})" if call else name
            events.append(_slice(depth, label, start, end - start, _about(hierarchy, call)))
    for kernel in profile.timeline:
        owner = calls.get(kernel.node or "")
        about = {"node": kernel.name, **({} if owner is None else _about(hierarchy, owner))}
        events.append(_slice(depths, kernel.operator, kernel.start, kernel.duration, about))
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(profile.versions)}


def is_trace(content: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a trace that :func:`trace` made, of any version."""
    return "traceEvents" in content and "pytest-hierexport" in content.get("otherData", {})


@dataclass(frozen=True)
class _Piece:
    """An interval in which a node ran, but no node of its subgraphs."""

    start: int
    end: int
    lineage: Sequence[str]
    """The call of the node and those above it, the root first; empty for an untagged node."""


def _pieces(timeline: Iterable[KernelSlice], lineages: Mapping[str, Sequence[str]]) -> Iterator[_Piece]:
    """Yield the pieces of a time line in order: a node with subgraphs has pieces before, between and after theirs."""
    open_: list[_Piece] = []
    now = 0

    def close(levels: int) -> Iterator[_Piece]:
        nonlocal now
        while len(open_) > levels:
            ended = open_.pop()
            yield _Piece(now, max(now, ended.end), ended.lineage)
            now = max(now, ended.end)

    for kernel in timeline:
        yield from close(kernel.level)
        if open_:
            yield _Piece(now, max(now, kernel.start), open_[-1].lineage)
        now = max(now, kernel.start)
        open_.append(_Piece(now, kernel.start + kernel.duration, lineages.get(kernel.node or "", ())))
    yield from close(0)


def _merged(pieces: Iterable[_Piece], depth: int) -> Iterator[tuple[str, int, int]]:
    """Yield the calls at one depth with their times; consecutive pieces of one call are merged."""
    for call, group in groupby(pieces, lambda piece: piece.lineage[depth] if depth < len(piece.lineage) else None):
        if call is not None:
            of_call = list(group)
            yield call, of_call[0].start, of_call[-1].end


def _named_track(track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _slice(track: int, name: str, start: int, duration: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": _PROCESS, "tid": track, "ts": start, "dur": duration, "args": args}


def _about(hierarchy: Hierarchy, call: str) -> dict[str, Any]:
    return {"call": call, "class": hierarchy[call].cls, "tag": hierarchy.tag(call)}


def node_data(profile: Profile) -> dict[str, Any]:
    """Return each node's own time in milliseconds as node data of Model Explorer, for the optimized graph.

    Its ONNX adapter knows a node by its name. It moves the branches of an `If` into the graph around it, with the path
    of names and attributes before a node's, and shows other subgraphs as graphs by that path: nodes are listed in both
    ways, and the viewer ignores names that it does not know.
    """
    names = {node.key: node.name for node in profile.nodes}
    graphs: dict[str, dict[str, dict[str, float]]] = {profile.graph: {}}
    for node in profile.nodes:
        value = {"value": node.self_time / 1000}
        path = _place(node.key, names)
        graphs[profile.graph]["/".join([*path, node.name])] = value
        if path:
            graphs.setdefault("/".join(path), {})[node.name] = value
    gradient = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#ff7043"}]
    return {graph: {"name": _TITLE, "results": results, "gradient": gradient} for graph, results in graphs.items()}


def is_node_data(content: Mapping[str, Any]) -> bool:
    """Whether a JSON object is node data that :func:`node_data` made."""
    return bool(content) and all(isinstance(each, dict) and each.get("name") == _TITLE for each in content.values())


def _place(key: str, names: dict[str, str]) -> list[str]:
    """Return the names of the nodes that hold a node, each with the attribute that does."""
    path: list[str] = []
    while (parts := key.rsplit("/", 2))[1:]:
        key, place, _ = parts
        path[:0] = [names.get(key, key), place]
    return path
