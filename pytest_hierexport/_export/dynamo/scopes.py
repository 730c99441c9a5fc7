"""Finds the call of every fx node in the module stacks that torch keeps.

torch stamps each node that it traces with the stack of the modules that are open. The whole stack is looked up among
those that were open when a call began. Where it is not there, its entries are followed from the root, each below the
call of the entry before. An entry is `key: (path, class)`: the path is that by which the module was reached, and the
key is the path with `@k` for a repeated call, or the `id` of the module in a graph of dynamo's.

Two things leave no such stack. A module that torch does not put there - one run by its `forward`, or compiled - is
put there by us. A graph that dynamo makes of some of the model's code - a branch of `cond`, a loop, a compiled region -
runs without the Python that would call modules; its nodes name them by `id`, so its calls are named from them, and it
runs node by node, each with the stack of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from pytest_hierexport._calls.hierarchy import ROOT, Call
from pytest_hierexport._calls.names import join_path
from pytest_hierexport._export.recorder import CallRecorder, Tracer

Stack = Mapping[str, tuple[str, Any]]
STACK = "nn_module_stack"
"""Where torch keeps the stack in a node's metadata."""


class Scopes(Tracer):
    """Finds the call that a module stack ends in; sees the calls and follows the tracer while torch exports."""

    def __init__(self) -> None:
        """Begin without a call."""
        self.calls: dict[str, Call] = {}
        self.recorder: CallRecorder | None = None
        # The call by caller, key and path; and by None, key and path, where the caller is not known.
        self._by_entry: dict[tuple[str | None, str, str], str] = {}
        # The call by the whole stack when it began: of two entries with one key, this alone tells which is meant.
        self._by_stack: dict[tuple[tuple[str, str, str], ...], str] = {}
        self._root = ""  # what the tracer calls the model: torch wraps it while it traces
        self._stacks: list[Stack] = []  # torch's stack in each call that is open
        self._in_graphs: dict[str, Call] = {}  # the calls in dynamo's graphs
        self._graphs = 0
        self._running: int | None = None

    # the tracer, as the recorder asks for it

    def accessed(self, _module: torch.nn.Module) -> str | None:
        """Return the path by which torch's tracer saw the caller reach the module."""
        stack = _open_stack()
        if not stack:
            return None
        path, _ = list(stack.values())[-1]
        return _encoded(_below(self._root, path))

    def pushing(self, module: torch.nn.Module) -> Callable[[Callable[[], Any]], Any] | None:
        """Return what puts the module on torch's stack for a call, where torch has not put it there itself."""
        mode = get_proxy_mode()
        stack = _open_stack()
        if mode is None or stack is None or not self._stacks or len(stack) > len(self._stacks[-1]):
            return None
        push: Any = torch.fx.Tracer.call_module
        return lambda function: push(mode.tracer, module, function, (), {})

    def opened(self) -> None:
        """Remember torch's stack in a call that begins."""
        stack = _open_stack()
        self._stacks.append(dict(stack) if stack is not None else self._stacks[-1] if self._stacks else {})

    def closed(self) -> None:
        """Forget the stack of the call that ends."""
        self._stacks.pop()

    def run_foreign(self, module: torch.nn.Module, function: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        """Run a graph of dynamo's below the call that is open now; any other module as it comes."""
        if not isinstance(module, torch.fx.GraphModule) or not self._stacks:
            return function()
        return self.run_graph(module, *args)

    def run_graph(self, graph: torch.fx.GraphModule, *args: Any) -> Any:
        """Run a graph that dynamo made node by node, its calls named and on each node's stack."""
        if not self._stacks or (self._running is None and not _open_stack()):
            # Nothing of this run is recorded: torch is only finding out what the graph gives.
            return run_node_by_node(graph, *args)
        outermost = self._running is None
        if outermost:
            self._graphs += 1
            self._running = self._graphs
        stacks = {node: self._named(node.meta.get(STACK) or {}) for node in graph.graph.nodes}
        try:
            with traceback.preserve_node_meta():
                # dynamo watches while its graph runs: what runs it here is not the model's code.
                return torch.compiler.disable(_WithStacks(graph, stacks).run)(*args)
        finally:
            if outermost:
                self._running = None

    def _named(self, stack: Stack) -> Stack:
        """Name the calls on a stack of dynamo's, and put them on torch's stack of the call that is open."""
        if self._root in stack:
            return stack  # a graph that torch traced of one of dynamo's: its calls are named
        named = dict(self._stacks[-1])
        if self.recorder is None:
            return named
        caller = self.recorder.current
        for key, (source, cls) in stack.items():
            module = self.recorder.instances.by_identity(key.partition("@")[0])
            if module is None:
                break
            entry = f"{self._running}:{key}:{source}"  # dynamo's source tells one branch from the other
            if entry not in self._in_graphs:
                self._in_graphs[entry] = self.recorder.add(module, caller)
            caller = self._in_graphs[entry]
            self._learn(caller, entry, caller.path)
            named[entry] = (caller.path, cls)
        return named

    # the observer

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002 a protocol
        """Remember the entry by which torch knows the call."""
        stack = _open_stack()
        if not stack:
            return
        key, (path, _) = list(stack.items())[-1]
        if call.name == ROOT:
            self._by_entry.clear()
            self._by_stack.clear()
            self._root = key
        self._by_stack.setdefault(self._entries(stack), call.name)
        self._learn(call, _below(self._root, key), _below(self._root, path))

    def _learn(self, call: Call, key: str, path: str) -> None:
        self._by_entry.setdefault((call.parent, key, path), call.name)
        self._by_entry.setdefault((None, key, path), call.name)

    def left(self, call: Call, output: Any) -> None:
        """Need nothing from a call that ends."""

    def finish(self) -> None:
        """Take over the calls of the recorder."""
        if self.recorder is not None:
            self.calls = self.recorder.calls

    # the answers

    def call_of(self, stack: Stack, holder: str | None) -> str | None:
        """Return the call that a stack ends in: `holder` for an empty one, None for one not from the root.

        Args:
            stack: What torch put on the node.
            holder: The call of the node that holds the node's subgraph or calls its function; None in the main graph.
        """
        if not stack:
            # What calls a function for its body has no stack of its own: it stands where its holder does.
            return holder
        start = _start(stack, self._root)
        if start != self._root and stack[start][0] != "":
            return None
        entries = self._entries(stack)
        if entries in self._by_stack:
            return self._by_stack[entries]
        at: str | None = None
        for key, path, cls in entries:
            if (None, key, path) not in self._by_entry:
                self._add_unseen(key, path, cls, at)
            at = self._by_entry.get((at, key, path)) or self._by_entry[None, key, path]
        return at

    def _entries(self, stack: Stack) -> tuple[tuple[str, str, str], ...]:
        """Return key, path and class of what is on a stack from the model on, named as below it.

        Below the model, as torch has it in the end, two entries may have one key (a module that is reached from outside
        of the modules is called as it is from the one that holds it): then the first's place is the second's.
        """
        root = _start(stack, self._root)
        root_path = stack[root][0]
        entries: dict[str, tuple[str, str, str]] = {}
        for key, (path, cls) in itertools.dropwhile(lambda entry: entry[0] != root, stack.items()):
            name = _below(root, key)
            text = cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
            entries[name] = name, _below(root_path, path), text
        return tuple(entries.values())

    def _add_unseen(self, key: str, path: str, cls: str, parent: str | None) -> None:
        """Add a call that no recorder saw: that of a program which torch exported earlier."""
        call = Call(_encoded(path), _index(key, path), cls, parent)
        self._learn(call, key, path)
        self.calls.setdefault(call.name, call)


class _WithStacks(torch.fx.Interpreter):
    """Runs each node under a module stack of ours."""

    def __init__(self, graph: torch.fx.GraphModule, stacks: Mapping[torch.fx.Node, Stack]) -> None:
        super().__init__(graph)
        self._stacks = stacks

    def run_node(self, n: torch.fx.Node) -> Any:
        found = n.meta.get(STACK)
        n.meta[STACK] = dict(self._stacks[n])
        try:
            return super().run_node(n)
        finally:
            n.meta[STACK] = found


def run_node_by_node(graph: torch.fx.GraphModule, *args: Any) -> Any:
    """Run a graph so that what is traced of it keeps its nodes' stacks."""
    with traceback.preserve_node_meta():
        return torch.fx.Interpreter(graph).run(*args)


def _open_stack() -> Stack | None:
    mode = get_proxy_mode()
    return getattr(mode.tracer, "module_stack", None) if mode is not None else None


def _start(stack: Stack, root: str) -> str:
    """Return the key of the model on a stack: its first, where the root that was traced is not there."""
    return root if root in stack else next(iter(stack))


def _below(root: str, path: str) -> str:
    return path[len(root) :].removeprefix(".") if path.startswith(root) else path


def _encoded(path: str) -> str:
    return join_path(path.split(".")) if path else ROOT


def _index(key: str, path: str) -> int:
    """Read the `@k` that torch appends to the key of a repeated call; a path may hold that mark itself."""
    tail = key.rpartition(path)[2] if path else ""
    return int(tail[1:]) if tail.startswith("@") else 0
