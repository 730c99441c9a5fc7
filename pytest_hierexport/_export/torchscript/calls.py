"""Finds the call of every node of the ONNX graph that torch converts a trace to.

torch converts the trace node by node and appends the ONNX nodes to a new graph. So the nodes at the end of that graph,
after a node of the trace was converted, belong to the call of that node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.onnx._internal.torchscript_exporter import utils

from pytest_hierexport._errors import HierexportError
from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.patching import replaced
from pytest_hierexport._export.torchscript.graph import Graph, numbers
from pytest_hierexport._export.torchscript.survey import number_of
from pytest_hierexport._export.torchscript.trace import CallNames, Trace, marks_defined

_FUNCTION = "prim::PythonOp"
_INPUTS = "prim::Param"


@dataclass
class Conversion:
    """Follows the conversion of a trace: replaces each function of torch that changes the graph, and calls it."""

    trace: Trace = field(default_factory=Trace)
    """Gives the calls of each node of the trace."""
    owners: dict[int, CallNames] = field(default_factory=dict)
    """The calls of each ONNX node, by its number."""
    _converted: Graph | None = None
    _final: Graph | None = None
    _last: CallNames = ()
    """The calls of the node that was converted last."""
    _within: CallNames = ()
    """The calls of the node that is being converted."""
    _functions: list[Any] = field(default_factory=list)
    """The nodes of the trace that run an autograd function, and are not converted yet."""
    _renumbered: dict[int, int] = field(default_factory=dict)
    """The number in `_converted` of each value, by its present number."""

    @property
    def graphs(self) -> tuple[Graph, Graph]:
        """The graph right after the conversion, and the graph as written to the file; values have the same numbers.

        Raises:
            HierexportError: torch converted no trace.
        """
        if self._converted is None or self._final is None:
            raise HierexportError("torch to convert its trace", found="it did not", do="report the versions in use")
        return self._converted, self._final

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Follow the conversion that runs while the context lasts."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(marks_defined())
            for holder, name, follow in (
                (torch._C, "_jit_pass_onnx_function_substitution", self.trace.beginning),
                (torch._C, "_jit_pass_onnx_remove_inplace_ops_for_onnx", self.trace.replacing),
                (torch._C, "_jit_pass_cse", self.trace.merging),
                (torch._C, "_freeze_module", self.trace.freezing),
                (torch._C, "_jit_pass_onnx_preprocess_caffe2", self.trace.sweeping),
                (torch._C, "_jit_pass_onnx", self._converting),
                (utils, "_run_symbolic_function", self._converting_node),
                (utils, "_run_symbolic_method", self._converting_function),
                (torch._C, "_jit_pass_onnx_peephole", self._optimizing),
                (torch._C, "_jit_pass_canonicalize", self._renumbering),
                (torch._C, "_jit_pass_onnx_assign_scoped_names_for_node_and_value", self._naming),
            ):
                stack.enter_context(replaced(holder, name, partial(follow, _with_frame(getattr(holder, name)))))
            yield

    def _converting(self, original: Callable[..., Any], graph: Any, *args: Any) -> Any:
        self.trace.end(graph)
        self._functions = list(graph.findAllNodes(_FUNCTION, recurse=True))
        return original(graph, *args)

    def _converting_node(self, original: Callable[..., Any], graph: Any, block: Any, node: Any, *args: Any) -> Any:
        # New nodes without a call are copies that torch made for the previous node of the trace.
        self._settle(graph, self._last)
        outer, self._within = self._within, self._owners(node)
        result = original(graph, block, node, *args)
        self._settle(graph, self._within)
        self._within = outer
        return result

    def _converting_function(self, original: Callable[..., Any], graph: Any, name: str, *args: Any) -> Any:
        """Follow autograd functions with a `symbolic` method; torch passes only their name, in graph order."""
        self._settle(graph, self._last)
        result = original(graph, name, *args)
        node = next(node for node in self._functions if node.pyname() == name)
        self._functions.remove(node)
        self._settle(graph, self._owners(node))
        return result

    def _owners(self, node: Any) -> CallNames:
        """Return the calls of a node; for a node that torch creates during the conversion of another, the other's."""
        return self.trace.owners.get(number_of(node), self._within) if node.outputsSize() else self._within

    def _settle(self, graph: torch._C.Graph, owners: CallNames) -> None:
        """Give these calls to the nodes at the end of the new graph, up to the last node that has calls already."""
        self._last = owners
        node = graph.insertPoint().prev()
        while node.kind() != _INPUTS and (not node.outputsSize() or number_of(node) not in self.owners):
            if node.outputsSize():
                self.owners[number_of(node)] = owners
            node = node.prev()

    def _optimizing(self, original: Callable[..., None], graph: Any, *args: Any) -> None:
        self._converted = Graph(graph)
        self._renumbered = {number: number for number in self._converted.names}
        original(graph, *args)

    def _renumbering(self, original: Callable[..., Any], graph: Any, *args: Any) -> Any:
        """Map the numbers of the copy that torch makes of the graph; it has the same values in the same order."""
        before = list(numbers(graph))
        copied = original(graph, *args)
        known = self._renumbered
        pairs = zip(numbers(copied), before, strict=True)
        self._renumbered = {new: known[old] for new, old in pairs if old in known}
        return copied

    def _naming(self, original: Callable[..., None], graph: Any) -> None:
        original(graph)
        self._final = Graph(graph, self._renumbered)


def _with_frame(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of torch in one with a frame: most are builtins, whose errors would read as ours."""

    @calls_on
    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return call
