"""Finds the calls of every node of a trace by marks between the nodes.

torch's own scopes do not distinguish the runs of a module, and have no entry for a call of its `forward`. So a mark is
put into the trace where a call begins and where it ends:

    prim::Enter[hierexport=0]   # the root begins
    %3 = aten::relu(%1)         # the root's
    prim::Enter[hierexport=1]   # a call of `layer` begins
    %4 = aten::linear(%3, %2)   # layer's
    prim::Enter[hierexport=2]   # it ends: the root's again

Nodes that torch's passes insert between two marks belong to the same call. The marks are removed before the trace is
converted to ONNX, and the graph is the one that torch gives without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from pytest_hierexport._calls.hierarchy import ROOT, Call
from pytest_hierexport._export.torchscript.survey import CONSTANT, Survey, duplicates, merged, nodes_of, number_of

Origins = tuple[str, ...]
"""The call that made a node, then those whose equal nodes torch dropped for it."""

# torch's own operator for the beginning of a region: it stays though it has no output, and no pass for ONNX knows it.
_MARK = "prim::Enter"
_MARKED = "hierexport"


@dataclass
class Trace:
    """Marks where calls begin and end while the model is traced; then finds each node's call by the marks."""

    origins: dict[int, Origins] = field(default_factory=dict)
    """The calls of each node, by its number, when the trace is about to be converted."""
    _marks: list[Origins] = field(default_factory=list)

    # the observer

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        """Mark where a call begins."""
        state = torch._C._get_tracing_state()
        if state is not None:
            state.graph().insertNode(self._new_mark(state.graph(), (call.name,)))

    def left(self, call: Call, output: Any) -> None:  # noqa: ARG002
        """Mark where a call ends and its caller goes on."""
        state = torch._C._get_tracing_state()
        if state is not None:
            graph = state.graph()
            mark = graph.insertNode(self._new_mark(graph, (call.parent or ROOT,)))
            if call.parent is None:
                self._consume_unused(mark, graph)

    def _new_mark(self, graph: Any, origins: Origins) -> Any:
        mark = graph.create(_MARK, [], 0)
        mark.i_(_MARKED, len(self._marks))
        self._marks.append(origins)
        return mark

    def _consume_unused(self, mark: Any, graph: Any) -> None:
        """Have a mark consume the unused results of calls below the root, so that torch does not drop them yet.

        Such a call may have computed the same as another.
        """
        current: Origins = (ROOT,)
        for node in nodes_of(graph):
            if not node.outputsSize():
                current = self._marks[node.i(_MARKED)] if _is_mark(node) else current
            elif current != (ROOT,) and not node.hasUses() and node.kind() != CONSTANT:
                for value in node.outputs():
                    kind = value.type()
                    # A size is no call's result.
                    if isinstance(kind, torch._C.TensorType) and kind.dim() != 0:
                        mark.addInput(value)

    # torch's passes: what stands in for each and follows it

    def beginning(self, original: Callable[..., None]) -> Callable[..., None]:
        """Before the first pass, remove unused nodes; the call of a removed duplicate co-owns the node that stays."""

        def run(graph: Any) -> None:
            marks = list(filter(_is_mark, graph.findAllNodes(_MARK, recurse=True)))
            unused = any(len(value.uses()) == 1 for mark in marks for value in mark.inputs())
            groups = duplicates(graph) if unused else []
            for mark in marks:
                mark.removeAllInputs()
            origins = self._read(Survey.of(graph)) if groups else {}
            torch._C._jit_pass_dce(graph)
            if groups:
                after = Survey.of(graph)
                left = [next((number for number in group if number in after.outputs), None) for group in groups]
                pairs = [
                    (survivor, number)
                    for survivor, group in zip(left, groups, strict=True)
                    for number in group
                    if survivor is not None and number not in after.outputs
                ]
                self._join(graph, after, origins, pairs)
            original(graph)

        return run

    def merging(self, original: Callable[..., bool]) -> Callable[..., bool]:
        """Have the node that stays of equal ones belong to the calls of all."""

        def run(graph: Any) -> bool:
            before = Survey.of(graph)
            origins = self._read(before)
            changed = original(graph)
            after = Survey.of(graph)
            pairs = merged(before, after)
            if pairs:
                self._join(graph, after, origins, pairs)
            return changed

        return run

    def _join(self, graph: Any, survey: Survey, origins: dict[int, Origins], pairs: list[tuple[int, int]]) -> None:
        """Have each node that stays belong to the calls of the equal node that is gone too, and mark that."""
        for survivor, number in pairs:
            origins[survivor] = tuple(dict.fromkeys((*origins[survivor], *origins[number])))
        self._lift(survey)
        self._mark_all(graph, origins)

    def sweeping(self, original: Callable[..., None]) -> Callable[..., None]:
        """Keep the marks through a pass that drops unused nodes."""

        def run(graph: Any) -> None:
            origins = self._lift(Survey.of(graph))
            original(graph)
            self._mark_all(graph, origins)

        return run

    def end(self, graph: Any) -> None:
        """Take the marks out of the graph, which is about to be converted."""
        self.origins = self._lift(Survey.of(graph))

    # the marks

    def _read(self, survey: Survey) -> dict[int, Origins]:
        """Return the calls of each node."""
        marks = {node for _, node in survey.silent if _is_mark(node)}
        starts = {position: self._marks[node.i(_MARKED)] for position, node in survey.silent if node in marks}
        origins: dict[int, Origins] = {}
        current: Origins = (ROOT,)
        for position, number in enumerate(survey.outputs):
            current = starts.get(position, current)
            origins[number] = current
        return origins

    def _lift(self, survey: Survey) -> dict[int, Origins]:
        """Take the marks away and return what they said."""
        origins = self._read(survey)
        for _, node in survey.silent:
            if _is_mark(node):
                node.destroy()
        return origins

    def _mark_all(self, graph: Any, origins: Mapping[int, Origins]) -> None:
        """Mark every place from which on nodes belong to other calls."""
        current: Origins = (ROOT,)
        for node in list(nodes_of(graph)):
            if node.outputsSize() and origins.get(number_of(node), current) != current:
                current = origins[number_of(node)]
                self._new_mark(graph, current).insertBefore(node)


def _is_mark(node: Any) -> bool:
    return bool(node.kind() == _MARK and node.hasAttribute(_MARKED))
