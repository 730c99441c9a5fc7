"""Finds the call of every node of the ONNX graph that torch makes of a trace.

The conversion is followed node by node: what stands at the end of the growing graph after a node of the trace was
converted was made of that node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.onnx._internal.torchscript_exporter import utils

from pytest_hierexport._errors import HierexportError
from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.state import replaced
from pytest_hierexport._export.torchscript.graph import Graph, numbers
from pytest_hierexport._export.torchscript.survey import number_of
from pytest_hierexport._export.torchscript.trace import Origins, Trace

_FUNCTION = "prim::PythonOp"
_INPUTS = "prim::Param"


@dataclass
class Conversion:
    """Follows the conversion: wraps each of torch's functions that changes the graph."""

    trace: Trace = field(default_factory=Trace)
    """The observer of the calls."""
    origins: dict[int, Origins] = field(default_factory=dict)
    """The calls of each ONNX node, by its number."""
    _converted: Graph | None = None
    _final: Graph | None = None
    _last: Origins = ()
    _within: Origins = ()
    _functions: list[Any] = field(default_factory=list)
    _renumbered: dict[int, int] = field(default_factory=dict)

    @property
    def graphs(self) -> tuple[Graph, Graph]:
        """The graph as converted, before anything was fused or folded, and as written, under the same numbers.

        Raises:
            HierexportError: Nothing was converted while this followed.
        """
        if self._converted is None or self._final is None:
            raise HierexportError("torch to convert its trace", found="it did not", do="report the versions in use")
        return self._converted, self._final

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Follow whatever torch converts while the context lasts."""
        with contextlib.ExitStack() as stack:
            for holder, name, follow in (
                (torch._C, "_jit_pass_onnx_function_substitution", self.trace.beginning),
                (torch._C, "_jit_pass_cse", self.trace.merging),
                (torch._C, "_jit_pass_onnx_preprocess_caffe2", self.trace.sweeping),
                (torch._C, "_jit_pass_onnx", self._converting),
                (utils, "_run_symbolic_function", self._converting_node),
                (utils, "_run_symbolic_method", self._converting_function),
                (torch._C, "_jit_pass_onnx_peephole", self._optimizing),
                (torch._C, "_jit_pass_canonicalize", self._renumbering),
                (torch._C, "_jit_pass_onnx_assign_scoped_names_for_node_and_value", self._naming),
            ):
                stack.enter_context(replaced(holder, name, follow(_torchs(getattr(holder, name)))))
            yield

    def _converting(self, original: Callable[..., torch._C.Graph]) -> Callable[..., torch._C.Graph]:
        def run(graph: Any, *args: Any) -> torch._C.Graph:
            self.trace.end(graph)
            self._functions = list(graph.findAllNodes(_FUNCTION, recurse=True))
            return original(graph, *args)

        return run

    def _converting_node(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(graph: torch._C.Graph, block: Any, node: Any, *args: Any) -> Any:
            # A node there that has no call yet is a copy that torch made of the node before.
            self._settle(graph, self._last)
            outer, self._within = self._within, self._origins(node)
            result = original(graph, block, node, *args)
            self._settle(graph, self._within)
            self._within = outer
            return result

        return run

    def _converting_function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Follow functions of the user that state their own conversion: torch passes the name alone, in graph order."""

        def run(graph: torch._C.Graph, name: str, *args: Any) -> Any:
            self._settle(graph, self._last)
            result = original(graph, name, *args)
            node = next(node for node in self._functions if node.pyname() == name)
            self._functions.remove(node)
            self._settle(graph, self._origins(node))
            return result

        return run

    def _origins(self, node: Any) -> Origins:
        """Return the calls of a node; of one that torch makes while it converts another, those of the other."""
        return self.trace.origins.get(number_of(node), self._within) if node.outputsSize() else self._within

    def _settle(self, graph: torch._C.Graph, origins: Origins) -> None:
        """Give the nodes at the end of the growing graph to these calls, back to the first that has any."""
        self._last = origins
        at = graph.insertPoint().prev()
        while at.kind() != _INPUTS and (not at.outputsSize() or number_of(at) not in self.origins):
            if at.outputsSize():
                self.origins[number_of(at)] = origins
            at = at.prev()

    def _optimizing(self, original: Callable[..., None]) -> Callable[..., None]:
        def run(graph: torch._C.Graph, *args: Any) -> None:
            self._converted = Graph(graph)
            self._renumbered = {number: number for number in self._converted.names}
            original(graph, *args)

        return run

    def _renumbering(self, original: Callable[..., torch._C.Graph]) -> Callable[..., torch._C.Graph]:
        """Torch copies the graph once on its way: the copy has the same values in the same order."""

        def run(graph: torch._C.Graph, *args: Any) -> torch._C.Graph:
            found = list(numbers(graph))
            copied = original(graph, *args)
            known = self._renumbered
            pairs = zip(numbers(copied), found, strict=True)
            self._renumbered = {new: known[old] for new, old in pairs if old in known}
            return copied

        return run

    def _naming(self, original: Callable[..., None]) -> Callable[..., None]:
        def run(graph: torch._C.Graph) -> None:
            original(graph)
            self._final = Graph(graph, self._renumbered)

        return run


def _torchs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch's behind a frame, where it has none: most are builtins."""

    @calls_on
    def call(*args: Any) -> Any:
        return original(*args)

    return call
