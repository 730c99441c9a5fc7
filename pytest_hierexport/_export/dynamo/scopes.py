"""Finds the call of every fx node by the module stack (`nn_module_stack`) that torch keeps on it.

A stack lists the modules that were open when torch traced the node, the root first. The second run of `encoder.act`:

    key                          path            class
    'L__self__'                  ''              m.Net
    'L__self__encoder'           'encoder'       m.Encoder
    'L__self__encoder.act@1'     'encoder.act'   torch.nn...ReLU          -> call encoder.act@1

The path is the one by which the caller reached the module. Each key begins with that of the root, which `_entries`
removes (`_export_root` while torch traces the model). First, the whole stack is looked up among the stacks that were
recorded when calls began. If it is not there, its entries are looked up one by one from the root, each as a call whose
parent is the call of the entry before.

torch's own stacks are incomplete in two cases:

- torch does not put a module on the stack that is compiled, or that is run by `forward` instead of being called. This
  module puts it there (`Scopes.pushing`).
- dynamo makes graphs of parts of the model: a branch of `cond`, a loop, a compiled region. Such a graph runs without
  the Python code that calls the modules, so no calls are recorded. But the stacks of its nodes have the `id` of each
  module as the key. The calls are named from these, and the graph runs node by node, each node under its own stack
  (`Scopes.run_graph`).

No calls are recorded of an ExportedProgram, nor of a model that torch exports in strict mode, where dynamo traces all
of it. Torch makes a program so on request, and exports a module so after it failed to run it. There the entries alone
give the calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from pytest_hierexport._calls.hierarchy import ROOT, Call
from pytest_hierexport._calls.names import call_name, join_path
from pytest_hierexport._export.dynamo.paths import Stack, dotted, id_of, index_of, is_of_dynamo, paths_by_id
from pytest_hierexport._export.modules import class_of
from pytest_hierexport._export.recorder import CallRecorder, Observer

STACK = "nn_module_stack"
"""The key of the stack in the metadata of an fx node."""
_WRAPPED_ROOT = "_export_root"
"""The name of the model in torch.export's own module, which torch leaves in the stacks of branches and loops."""


class Scopes(Observer):
    """Maps module stacks to calls. Observes the calls, and answers for torch's tracer."""

    def __init__(self) -> None:
        """Begin without a call."""
        self.calls: dict[str, Call] = {}
        self.recorder: CallRecorder | None = None
        # The call by (caller, key, path); also by (None, key, path), for a caller that is not known.
        self._by_entry: dict[tuple[str | None, str, str], str] = {}
        # The call by the whole stack at its begin: it distinguishes calls whose last entries are equal.
        self._by_stack: dict[tuple[tuple[str, str, str], ...], str] = {}
        self._root = ""  # the key of the model on torch's stacks
        self._open_stacks: list[Stack] = []  # for each open call, torch's stack at its begin
        self._in_graphs: dict[str, Call] = {}  # the calls in dynamo's graphs, by entry
        self._graphs = 0  # how many outermost graphs of dynamo have run
        self._running: int | None = None  # the number of the one that runs now
        self._paths: Mapping[str, str] = {}  # of modules that dynamo reached by other expressions, too, by `id`

    # the answers for the tracer

    def accessed(self, _module: torch.nn.Module) -> str | None:
        """Return the path by which, in torch's stack, the caller reached the module."""
        stack = _open_stack()
        if not stack:
            return None
        path, _ = list(stack.values())[-1]
        return _encoded(_below(self._root, path))

    def pushing(self, module: torch.nn.Module) -> Callable[[Callable[[], Any]], Any] | None:
        """Return a function that runs a call with its module on torch's stack; None where the module is on it."""
        mode = get_proxy_mode()
        stack = _open_stack()
        if mode is None or stack is None or not self._open_stacks or len(stack) > len(self._open_stacks[-1]):
            return None
        push: Any = torch.fx.Tracer.call_module
        return lambda function: push(mode.tracer, module, function, (), {})

    def run_foreign(self, module: torch.nn.Module, function: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        """Run a module that is not part of the model: a graph of dynamo node by node, any other one unchanged."""
        if not isinstance(module, torch.fx.GraphModule) or not self._open_stacks:
            return function()
        return self.run_graph(module, *args)

    def run_graph(self, graph: torch.fx.GraphModule, *args: Any) -> Any:
        """Run a graph of dynamo node by node, each node under a stack with the calls that are named here."""
        if not self._open_stacks or (self._running is None and not _open_stack()):
            # torch runs the graph only to get the types of its outputs, and records no nodes.
            with traceback.preserve_node_meta():
                return torch.fx.Interpreter(graph).run(*args)
        outermost = self._running is None
        if outermost:
            self._graphs += 1
            self._running = self._graphs
        stacks = {node: self._with_calls(node.meta.get(STACK) or {}) for node in graph.graph.nodes}
        try:
            with traceback.preserve_node_meta():
                # dynamo is active while its graph runs, and would trace the interpreter, which is not the model's code.
                return torch.compiler.disable(_WithStacks(graph, stacks).run)(*args)
        finally:
            if outermost:
                self._running = None

    def _with_calls(self, stack: Stack) -> Stack:
        """Return torch's stack of the innermost open call, with an entry added for each call on a stack of dynamo."""
        if self._root in stack:
            return stack  # torch traced this graph from one of dynamo: its stacks have the calls already
        extended = dict(self._open_stacks[-1])
        if self.recorder is None:
            return extended
        caller = self.recorder.current
        for key, (source, cls) in stack.items():
            module = _module(key, self.recorder)
            if module is None:
                break
            entry = f"{self._running}:{key}:{source}"  # the source distinguishes the two branches of a `cond`
            if entry not in self._in_graphs:
                self._in_graphs[entry] = self.recorder.add(module, caller)
            caller = self._in_graphs[entry]
            self._learn(caller, entry, caller.path)
            extended[entry] = (caller.path, cls)
        return extended

    # the observer

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002 a protocol
        """Save torch's present stack, which ends in the call's entry, and learn that it stands for the call."""
        stack = _open_stack()
        self._open_stacks.append(
            dict(stack) if stack is not None else self._open_stacks[-1] if self._open_stacks else {}
        )
        if not stack:
            return
        key, (path, _) = list(stack.items())[-1]
        if call.name == ROOT:
            self._by_entry.clear()
            self._by_stack.clear()
            self._root = key
        self._by_stack.setdefault(self._entries(stack), call.name)
        self._learn(call, _below(self._root, key), _below(self._root, path))

    def ended(self) -> None:
        """Remove the saved stack of the call that ends."""
        self._open_stacks.pop()

    def _learn(self, call: Call, key: str, path: str) -> None:
        self._by_entry.setdefault((call.parent, key, path), call.name)
        self._by_entry.setdefault((None, key, path), call.name)

    def forget(self) -> None:
        """Forget the calls of an attempt of torch that failed: no call begins in the next one if dynamo makes it."""
        self._by_entry.clear()
        self._by_stack.clear()
        self.calls.clear()
        self._root = ""

    # the calls of stacks

    def read(self, stacks: Iterable[Stack]) -> None:
        """Learn the paths of modules from all stacks of a program, before the calls are asked for."""
        self._paths = paths_by_id(stacks)

    def call_of(self, stack: Stack, around: str | None) -> str | None:
        """Return the innermost call of a module stack; None if the stack does not begin at the model that was observed.

        Args:
            stack: The stack of the fx node.
            around: The call of the node that holds the node's subgraph or calls its function; None in the main graph.
                A node without a stack belongs to this call.
        """
        if not stack:
            return around
        start = _start(stack, self._root)
        if start != self._root and stack[start][0] != "":
            if self.recorder is not None:
                return None
            # torch interprets a model that is a graph of fx instead of calling it, so the model is on no stack.
            stack = {self._root: (ROOT, torch.export.ExportedProgram), **stack}
        entries = self._entries(stack)
        if entries in self._by_stack:
            return self._by_stack[entries]
        caller: str | None = None
        for key, path, cls in entries:
            if (None, key, path) not in self._by_entry:
                self._add_unrecorded(key, path, cls, caller)
            caller = self._by_entry.get((caller, key, path)) or self._by_entry[None, key, path]
        return caller

    def _entries(self, stack: Stack) -> tuple[tuple[str, str, str], ...]:
        """Return the key, path and class of each entry from the model on; keys and paths are relative to the model.

        Two entries may have the same key then: a module that is reached from outside the model has the key that it has
        when its parent calls it. The later entry replaces the earlier one, at the earlier place.
        """
        root = _start(stack, self._root)
        root_path = stack[root][0]
        entries: dict[str, tuple[str, str, str]] = {}
        for key, (path, cls) in itertools.dropwhile(lambda entry: entry[0] != root, stack.items()):
            name, below = _below(root, key), _below(root_path, dotted(path))
            if is_of_dynamo(key):
                below = _below(_WRAPPED_ROOT, below)
            if not below and not index_of(name, below):
                name = ""  # the graph of a branch has the model a second time, with its `id` as the key
            text = cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
            entries[name] = name, below, text
        return tuple(entries.values())

    def _add_unrecorded(self, key: str, path: str, cls: str, parent: str | None) -> None:
        """Add a call that no recorder observed: of an ExportedProgram, or of a model that dynamo traced whole."""
        name, module, index = _encoded(path), _module(key, self.recorder), index_of(key, path)
        if self.recorder is not None and module is not None:
            # dynamo gives the class that parametrisation made, and no path of a child that has a number as its name.
            cls, paths = class_of(module), self.recorder.instances.paths(module)
            name = name if name in paths else paths[0]
            # It counts the runs of a module for each expression that gives it: PyG's AttentiveFP has one by
            # `self.propagate.__self__.aggr_module`, then by `self.aggr_module`.
            index = _free_index(name, index, self.calls)
        elif (known := self._paths.get(id_of(key))) is not None:
            name = _encoded(known)
            index = _free_index(name, index, self.calls)
        call = Call(name, index, cls, parent)
        self._learn(call, key, path)
        self.calls.setdefault(call.name, call)


class _WithStacks(torch.fx.Interpreter):
    """Runs each node under the module stack given for it."""

    def __init__(self, graph: torch.fx.GraphModule, stacks: Mapping[torch.fx.Node, Stack]) -> None:
        super().__init__(graph)
        self._stacks = stacks

    def run_node(self, n: torch.fx.Node) -> Any:
        original = n.meta.get(STACK)
        n.meta[STACK] = dict(self._stacks[n])
        try:
            return super().run_node(n)
        finally:
            n.meta[STACK] = original


def _open_stack() -> Stack | None:
    mode = get_proxy_mode()
    return getattr(mode.tracer, "module_stack", None) if mode is not None else None


def _start(stack: Stack, root: str) -> str:
    """Return the key of the model on a stack: that of the traced root, or the first one where torch has removed it."""
    return root if root in stack else next(iter(stack))


def _below(root: str, path: str) -> str:
    return path[len(root) :].removeprefix(".") if path.startswith(root) else path


def _encoded(path: str) -> str:
    return join_path(path.split("."))


def _free_index(name: str, index: int, calls: Mapping[str, Call]) -> int:
    return next(i for i in itertools.count(index) if call_name(name, i) not in calls)


def _module(key: str, recorder: CallRecorder | None) -> torch.nn.Module | None:
    """Return the module of an entry of dynamo; None for any other entry, and where the model is not known."""
    return recorder.instances.by_id.get(id_of(key)) if recorder is not None else None
