"""Finds the call of every fx node by the module stack (`nn_module_stack`) that torch keeps on it.

A stack lists the modules that were open when torch traced the node, the root first. The second run of `encoder.act`:

    key                          path            class
    'L__self__'                  ''              m.Net
    'L__self__encoder'           'encoder'       m.Encoder
    'L__self__encoder.act@1'     'encoder.act'   torch.nn...ReLU          -> call encoder.act@1

The path is the one by which the caller reached the module. `_entries` makes keys and paths relative to those of the
root: `L__self__` and an empty path in a finished program, `_export_root` for both while torch traces the model.

First, the whole stack is looked up among the stacks that were recorded when calls began. If it is not there, its
entries are looked up one by one from the root, each as a call whose parent is the call of the entry before.

No calls are recorded of an ExportedProgram, nor of a model that torch exports in strict mode, where dynamo traces all
of it: torch tries that after it failed to run the model. There the entries alone give the calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch

from pytest_hierexport._calls.hierarchy import ROOT, Call
from pytest_hierexport._calls.names import call_name, join_path
from pytest_hierexport._carry.flat import Node
from pytest_hierexport._export.dynamo.paths import Stack, dotted, id_of, index_of, is_of_dynamo, paths_by_id
from pytest_hierexport._export.modules import class_of
from pytest_hierexport._export.recorder import CallRecorder

_WRAPPED_ROOT = "_export_root"
"""The name of the model in torch.export's own module, which torch leaves in the stacks of branches and loops."""


class StackCalls:
    """The calls that module stacks stand for."""

    def __init__(self) -> None:
        """Begin without a call."""
        self.calls: dict[str, Call] = {}
        self.recorder: CallRecorder | None = None
        self.root = ""
        """The key of the model on torch's stacks."""
        # The call by (caller, key, path); also by (None, key, path), for a caller that is not known.
        self._by_entry: dict[tuple[str | None, str, str], str] = {}
        # The call by the whole stack at its begin: it distinguishes calls whose last entries are equal.
        self._by_stack: dict[tuple[tuple[str, str, str], ...], str] = {}
        # The paths of modules that dynamo reached by other expressions, too, by `id`.
        self._paths: Mapping[str, str] = {}

    # learned while the model runs

    def record_by(self, recorder: CallRecorder) -> None:
        """Use the recorder's calls, to which unrecorded ones are added."""
        self.recorder, self.calls = recorder, recorder.calls

    def learn_begin(self, call: Call, stack: Stack) -> None:
        """Learn that a stack, and its last entry, stand for a call that begins."""
        key, (path, _) = list(stack.items())[-1]
        if call.name == ROOT:
            self._by_entry.clear()
            self._by_stack.clear()
            self.root = key
        self._by_stack.setdefault(self._entries(stack), call.name)
        self.learn(call, _below(self.root, key), _below(self.root, path))

    def learn(self, call: Call, key: str, path: str) -> None:
        """Learn that an entry stands for a call."""
        self._by_entry.setdefault((call.parent, key, path), call.name)
        self._by_entry.setdefault((None, key, path), call.name)

    def forget(self) -> None:
        """Forget the calls of an attempt of torch that failed: no call begins in the next one if dynamo makes it."""
        self._by_entry.clear()
        self._by_stack.clear()
        self.calls.clear()
        self.root = ""

    def relative(self, path: str) -> str:
        """Return a path of torch's stack as the path of a call: relative to the model, and encoded."""
        return _encoded(_below(self.root, path))

    def module(self, key: str) -> torch.nn.Module | None:
        """Return the module of an entry of dynamo; None for any other entry, and where the model is not known."""
        return self.recorder.instances.by_id.get(id_of(key)) if self.recorder is not None else None

    # asked when the graph is there

    def owners_of(self, stacks: Mapping[Node, tuple[Stack, ...]]) -> dict[Node, tuple[str, ...]]:
        """Return the call of each node, then those of its duplicates that were removed; none where it is unknown.

        Args:
            stacks: The stack of each node, and those of its duplicates. Nodes in a body follow the one that holds it.
                A node that torch built for no fx node has none, and belongs to the call of the node that holds its
                subgraph or calls its function.
        """
        self._paths = paths_by_id(stack for stacks_of_node in stacks.values() for stack in stacks_of_node)
        owners: dict[Node, tuple[str, ...]] = {}
        for node, of_node in stacks.items():
            calls = [self._call_of(stack) for stack in of_node]
            if not calls and node.parent is not None:
                calls.extend(owners[node.parent][:1])
            is_known = bool(calls) and calls[0] is not None
            owners[node] = tuple(call for call in calls if call is not None) if is_known else ()
        return owners

    def _call_of(self, stack: Stack) -> str | None:
        """Return the innermost call of a module stack; None if it is empty, or does not begin at the observed model.

        torch gives no stack to the nodes in a branch of `cond`, or in a loop, of a program that it made without
        `strict`: their calls are not known.
        """
        if not stack:
            return None
        start = _start(stack, self.root)
        if start != self.root and stack[start][0] != "":
            if self.recorder is not None:
                return None
            # torch interprets a model that is a graph of fx instead of calling it, so the model is on no stack.
            stack = {self.root: (ROOT, torch.export.ExportedProgram), **stack}
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
        root = _start(stack, self.root)
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
        name, module, index = _encoded(path), self.module(key), index_of(key, path)
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
        self.learn(call, key, path)
        self.calls.setdefault(call.name, call)


def _start(stack: Stack, root: str) -> str:
    """Return the key of the model on a stack: that of the traced root, or the first one where torch has removed it."""
    return root if root in stack else next(iter(stack))


def _below(root: str, path: str) -> str:
    return path[len(root) :].removeprefix(".") if path.startswith(root) else path


def _encoded(path: str) -> str:
    return join_path(path.split("."))


def _free_index(name: str, index: int, calls: Mapping[str, Call]) -> int:
    return next(i for i in itertools.count(index) if call_name(name, i) not in calls)
