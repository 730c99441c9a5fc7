"""Finds the calls of every node of a trace by marks between the nodes.

torch's own scopes do not distinguish the runs of a module, and lack direct calls of `forward`. So a mark is inserted
into the trace where a call begins and where it ends:

    hierexport::mark[position=0]    # the root begins
    %3 = aten::relu(%1)             # the root's
    hierexport::mark[position=1]    # a call of `layer` begins
    %4 = aten::linear(%3, %2)       # layer's
    hierexport::mark[position=2]    # it ends: the root's again

A node belongs to the call of the nearest mark before it, also a node that a pass of torch inserts later. A constant
that torch moved before all marks belongs to the calls of its consumers. The marks are removed before the trace is
converted to ONNX, so the ONNX graph is the one that torch gives without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from pytest_hierexport._calls.hierarchy import ROOT, Call
from pytest_hierexport._export.recorder import Observer
from pytest_hierexport._export.torchscript.survey import (
    CONSTANT,
    Survey,
    duplicates,
    merged,
    nodes_of,
    number_of,
    writes,
)

CallNames = tuple[str, ...]
"""The call of a node, then the calls whose duplicates of the node torch removed."""

_NAMESPACE = "hierexport"
_MARK = f"{_NAMESPACE}::mark"
_POSITION = "position"
"""The attribute of a mark with its position in the list of marks."""


@contextmanager
def marks_defined() -> Iterator[None]:
    """Define the operator of the marks, which does nothing, while the context lasts.

    torch runs the trace of a quantized model before it converts it, and the marks with it.
    """
    with torch.library._scoped_library(_NAMESPACE, "FRAGMENT") as library:
        for overload, parameters in (("mark", ""), ("mark.of", "Tensor unused")):
            # Dead code elimination keeps an operation without outputs only if it may have side effects.
            library.define(f"{overload}({parameters}) -> ()", alias_analysis="CONSERVATIVE")
            library.impl(overload, lambda *_: None, "CompositeImplicitAutograd")
        yield


@dataclass
class Trace(Observer):
    """Inserts marks while the model is traced, keeps them through torch's passes, and reads each node's calls.

    After a pass has removed duplicates, the marks are inserted anew.
    """

    owners: dict[int, CallNames] = field(default_factory=dict)
    """The calls of each node, by its number; set right before the trace is converted."""
    _marks: list[CallNames] = field(default_factory=list)
    """For each mark, the calls of the nodes after it."""

    # the observer

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        """Mark where a call begins."""
        state = torch._C._get_tracing_state()
        if state is not None:
            if call.parent is None:
                # torch traces a quantized model twice and compares the two graphs, the positions of the marks included.
                self._marks.clear()
            state.graph().insertNode(self._new_mark(state.graph(), (call.name,)))

    def left(self, call: Call, output: Any) -> None:  # noqa: ARG002
        """Mark where a call ends and its caller continues."""
        state = torch._C._get_tracing_state()
        if state is not None:
            graph = state.graph()
            graph.insertNode(self._new_mark(graph, (call.parent or ROOT,)))
            if call.parent is None:
                self._consume_unused(graph)

    def _new_mark(self, graph: Any, owners: CallNames) -> Any:
        mark = graph.create(_MARK, [], 0)
        mark.i_(_POSITION, len(self._marks))
        self._marks.append(owners)
        return mark

    def _consume_unused(self, graph: Any) -> None:
        """Make marks consume the unused values of calls below the root, so that torch does not remove them yet.

        Such a value may be a duplicate of a used one, which both calls own then.
        """
        current: CallNames = (ROOT,)
        unused: list[Any] = []
        for node in nodes_of(graph):
            if not node.outputsSize():
                current = self._marks[node.i(_POSITION)] if _is_mark(node) else current
            elif current != (ROOT,) and not node.hasUses() and node.kind() != CONSTANT:
                for value in node.outputs():
                    kind = value.type()
                    # A tensor without dimensions is a size, not the result of a call.
                    if isinstance(kind, torch._C.TensorType) and kind.dim() != 0:
                        unused.append(value)
        for value in unused:
            graph.insertNode(self._new_mark(graph, (ROOT,))).addInput(value)

    # what runs in place of torch's passes

    def beginning(self, original: Callable[..., None], graph: Any) -> None:
        """After the first pass, remove unused nodes; the call of a removed duplicate co-owns the node that is kept."""
        original(graph)
        marks = list(filter(_is_mark, graph.findAllNodes(_MARK, recurse=True)))
        unused = any(len(value.uses()) == 1 for mark in marks for value in mark.inputs())
        groups = duplicates(graph, _MARK) if unused else []
        for mark in marks:
            mark.removeAllInputs()
        owners = self._read(Survey.of(graph)) if groups else {}
        torch._C._jit_pass_dce(graph)
        if groups:
            after = Survey.of(graph)
            pairs: list[tuple[int, int]] = []
            for group in groups:
                left = [number for number in group if number in after.outputs]
                pairs += [(left[0], number) for number in group if left and number not in after.outputs]
            self._join(graph, after, owners, pairs)

    def merging(self, original: Callable[..., bool], graph: Any) -> bool:
        """Around CSE: the node that it keeps of several duplicates gets the calls of all of them."""
        before = Survey.of(graph)
        owners = self._read(before)
        changed = original(graph)
        after = Survey.of(graph)
        if pairs := merged(before, after):
            self._join(graph, after, owners, pairs)
        return changed

    def freezing(self, original: Callable[..., Any], module: Any, **options: Any) -> Any:
        """Merge duplicates before torch freezes the trace of a quantized model, which merges them unobserved."""
        # This pass is the replaced one, which joins the calls of duplicates.
        torch._C._jit_pass_cse(module._get_method("forward").graph)
        return original(module, **options)

    def _join(self, graph: Any, survey: Survey, owners: dict[int, CallNames], pairs: list[tuple[int, int]]) -> None:
        """Add to the calls of each kept node those of the removed node of its pair, and insert the marks anew."""
        for survivor, number in pairs:
            owners[survivor] = tuple(dict.fromkeys((*owners[survivor], *owners[number])))
        self._lift(survey)
        self._mark_all(graph, owners)

    def sweeping(self, original: Callable[..., None], graph: Any) -> None:
        """Around a pass that removes unused nodes: take the marks out before it, and insert them again after it."""
        owners = self._lift(Survey.of(graph))
        original(graph)
        self._mark_all(graph, owners)

    def replacing(self, original: Callable[..., None], graph: Any, *args: Any) -> None:
        """Around the pass that replaces operations in place: take the marks out, behind which it would move no node.

        What replaces an operation has its scope and line; what has none belongs to the calls that consume it. Where one
        line writes in several calls, which scopes do not tell apart, the marks stay.
        """
        writers = [node for node in nodes_of(graph) if node.outputsSize() and writes(node)]
        if not writers:
            original(graph, *args)
            return
        survey = Survey.of(graph)
        owners, by_line = self._read(survey), defaultdict[Any, set[CallNames]](set)
        for node in writers:
            by_line[_line(node)].add(owners[number_of(node)])
        if any(len(calls) > 1 for calls in by_line.values()):
            original(graph, *args)
            return
        self._lift(survey)
        original(graph, *args)
        consumers: dict[int, CallNames] = {}
        for node in reversed([node for node in nodes_of(graph) if node.outputsSize()]):
            number = number_of(node)
            if number not in owners:
                owners[number] = next(iter(by_line.get(_line(node), ())), consumers.get(number, ()))
            consumers.update((value.unique(), owners[number]) for value in node.inputs())
        self._mark_all(graph, owners)

    def end(self, graph: Any) -> None:
        """Remove the marks from the graph, which is converted next."""
        self.owners = self._lift(Survey.of(graph))

    # the marks

    def _read(self, survey: Survey) -> dict[int, CallNames]:
        """Return the calls of each node."""
        starts = {position: self._marks[node.i(_POSITION)] for position, node in survey.silent if _is_mark(node)}
        owners: dict[int, CallNames] = {}
        current: CallNames = ()
        for position, number in enumerate(survey.outputs):
            current = starts.get(position, current)
            owners[number] = current
        return owners

    def _lift(self, survey: Survey) -> dict[int, CallNames]:
        """Remove the marks; return the calls of each node."""
        owners = self._read(survey)
        for _, node in survey.silent:
            if _is_mark(node):
                node.destroy()
        return owners

    def _mark_all(self, graph: Any, owners: Mapping[int, CallNames]) -> None:
        """Insert a mark before every node whose calls differ from those of the node before it."""
        current: CallNames = ()
        for node in list(nodes_of(graph)):
            if node.outputsSize() and owners.get(number_of(node), current) != current:
                current = owners[number_of(node)]
                self._new_mark(graph, current).insertBefore(node)


def _line(node: Any) -> tuple[str, str]:
    """Return what torch copies from a node to its replacement: its scope, and the lines of the model that ran it."""
    return node.scopeName(), node.sourceRange()


def _is_mark(node: Any) -> bool:
    return bool(node.kind() == _MARK and node.hasAttribute(_POSITION))
