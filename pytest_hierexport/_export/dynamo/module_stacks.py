"""Completes torch's module stacks while torch traces a model, and tells which stack stands for each call that begins.

torch's own stacks are incomplete in two cases:

- A module that is compiled, or whose `forward` is run instead of the module being called, is not on torch's stack.
  `ModuleStacks.pushing` puts it there.
- dynamo makes graphs of parts of the model: a branch of `cond`, a loop, a compiled region. Such a graph runs without
  the Python code that calls the modules, so no calls are recorded. But the stacks of its nodes have the `id` of each
  module as the key. The calls are named from these, and the graph runs node by node, each node under its own stack
  (`ModuleStacks.run_graph`).

What the stacks stand for is known by :class:`stack_calls.StackCalls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from pytest_hierexport._calls.hierarchy import Call
from pytest_hierexport._export.dynamo.paths import Stack
from pytest_hierexport._export.dynamo.stack_calls import StackCalls
from pytest_hierexport._export.recorder import Observer

STACK = "nn_module_stack"
"""The key of the stack in the metadata of an fx node."""


class ModuleStacks(Observer):
    """Observes the calls, and answers for torch's tracer."""

    def __init__(self, stack_calls: StackCalls) -> None:
        """Take what learns the stack of each call that begins."""
        self._stack_calls = stack_calls
        self._open_stacks: list[Stack] = []  # for each open call, torch's stack at its begin
        self._in_graphs: dict[str, Call] = {}  # the calls in dynamo's graphs, by entry
        self._graphs = 0  # how many outermost graphs of dynamo have run
        self._running: int | None = None  # the number of the one that runs now

    # the answers for the tracer

    def accessed(self) -> str | None:
        """Return the path by which, in torch's stack, the caller reached the module that is being called."""
        stack = _open_stack()
        if not stack:
            return None
        path, _ = list(stack.values())[-1]
        return self._stack_calls.relative(path)

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
        own = {node: node.meta.get(STACK) for node in graph.graph.nodes}
        stacks = {node: dict(self._with_calls(stack or {})) for node, stack in own.items()}
        try:
            _set_stacks(stacks)
            with traceback.preserve_node_meta():
                # dynamo is active while its graph runs, and would trace the interpreter, which is not the model's code.
                return torch.compiler.disable(torch.fx.Interpreter(graph).run)(*args)
        finally:
            _set_stacks(own)
            if outermost:
                self._running = None

    def _with_calls(self, stack: Stack) -> Stack:
        """Return torch's stack of the innermost open call, with an entry added for each call on a stack of dynamo."""
        if self._stack_calls.root in stack:
            return stack  # torch traced this graph from one of dynamo: its stacks have the calls already
        extended = dict(self._open_stacks[-1])
        recorder = self._stack_calls.recorder
        if recorder is None:
            return extended
        caller = recorder.current
        for key, (source, cls) in stack.items():
            module = self._stack_calls.module(key)
            if module is None:
                break
            entry = f"{self._running}:{key}:{source}"  # the source distinguishes the two branches of a `cond`
            if entry not in self._in_graphs:
                self._in_graphs[entry] = recorder.add(module, caller)
            caller = self._in_graphs[entry]
            self._stack_calls.learn(caller, entry, caller.path)
            extended[entry] = (caller.path, cls)
        return extended

    # the observer

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002 a protocol
        """Save torch's present stack, which ends in the call's entry, and learn that it stands for the call."""
        stack = _open_stack()
        above = self._open_stacks[-1] if self._open_stacks else {}
        self._open_stacks.append(above if stack is None else dict(stack))
        if stack:
            self._stack_calls.learn_begin(call, stack)

    def ended(self) -> None:
        """Remove the saved stack of the call that ends."""
        self._open_stacks.pop()


def _set_stacks(stacks: Mapping[torch.fx.Node, Stack | None]) -> None:
    for node, stack in stacks.items():
        node.meta[STACK] = stack


def _open_stack() -> Stack | None:
    mode = get_proxy_mode()
    return getattr(mode.tracer, "module_stack", None) if mode is not None else None
