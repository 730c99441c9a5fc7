"""Reads an attribution from the scopes that torch writes on nodes, for a file that torch exported without this package.

    pkg.torch.onnx.name_scopes      ['', 'encoder', 'encoder.act', 'relu']           call     encoder.act
    pkg.torch.onnx.class_hierarchy  ['m.Net', 'm.Block', 'torch.nn…ReLU', 'aten…']   classes  of the calls above it

The last scope is the operation itself. The attribution may be wrong: for a node that torch's optimizer merged from
several calls, torch names one of them; and scopes have no index, so the runs of a module under one caller count as one.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import ROOT, Call, Hierarchy
from pytest_hierexport._calls.names import encode, join_path
from pytest_hierexport._onnx.codec import entries_of

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._onnx.proto_tags import TaggedProto

_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_DECLARED = frozenset(("PARAMETER", "BUFFER"))
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# Only a flat list of texts is parsed: on nested input, Python's parser may raise many kinds of errors.
_LIST = re.compile(rf"\[{_TEXT}(?:, {_TEXT})*\]")

Stack = tuple[tuple[str, str], ...]
"""The path and class of each open module, the root first."""


def read_scopes(tagged: TaggedProto) -> Attribution | None:
    """Return the attribution by torch's scopes; None if no node has scopes."""
    stacks = {key: _stack(node) for key, node in tagged.parts.nodes}
    if len({stack[0] for stack in stacks.values() if stack and stack[0][0] == ROOT}) > 1:
        return None  # models that were merged: none of their roots called the others
    calls = _calls(stack for stack in stacks.values() if stack and stack[0][0] == ROOT)
    if not calls:
        return None
    hierarchy = Hierarchy(calls.values())
    nodes = {
        key: (Origin(calls[stack].name, Evidence.TRACED),) if stack in calls else () for key, stack in stacks.items()
    }
    # The name of a module's first call is its path.
    owned = ((name, owner) for name, owner in _declared(tagged.proto.graph) if owner in hierarchy)
    return Attribution(hierarchy, nodes, {name: (Origin(owner, Evidence.TRACED),) for name, owner in owned})


def _calls(stacks: Iterable[Stack]) -> dict[Stack, Call]:
    """Name a call for each stack; the stacks that end in the same path are numbered in order."""
    calls: dict[Stack, Call] = {}
    runs = Counter[str]()
    for stack in stacks:
        for depth, (path, cls) in enumerate(stack):
            opened = stack[: depth + 1]
            if opened not in calls:
                calls[opened] = Call(path, runs[path], cls, calls[stack[:depth]].name if depth else None)
                runs[path] += 1
    return calls


def _stack(node: onnx.NodeProto) -> Stack:
    entries = entries_of(node)
    scopes, classes = (_texts(entries.get(key, "")) for key in (_SCOPES, _CLASSES))
    if len(scopes) != len(classes):
        return ()
    return tuple((join_path(scope.split(".")), _class(cls)) for scope, cls in zip(scopes[:-1], classes, strict=False))


@lru_cache(maxsize=4096)
def _texts(text: str) -> tuple[str, ...]:
    """Parse a list of texts in Python's notation; return none if it is anything else."""
    try:
        return tuple(ast.literal_eval(text)) if _LIST.fullmatch(text) else ()
    except (SyntaxError, ValueError):
        return ()


def _class(cls: str) -> str:
    module, dot, name = cls.rpartition(".")
    return f"{module}{dot}{encode(name)}"


def _declared(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Yield each initializer that is a parameter or buffer by torch's metadata, with the path of its module."""
    initializers = {tensor.name for tensor in graph.initializer}
    for value in (*graph.value_info, *graph.input):
        if value.name in initializers and entries_of(value).get(_KIND) in _DECLARED:
            yield value.name, join_path(value.name.split(".")[:-1])
