"""Reads the paths of modules, and the keys beside them, on the stacks that torch or dynamo made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any

Stack = Mapping[str, tuple[str, Any]]
"""A module stack of torch, the root first: by key, the path of a module and its class, a type or its name."""

_BEGIN = re.compile(r"(?:getattr\()*L\[[^\]]*\]")
_STEP = re.compile(r"""\.([^.,()\[\]'"]+)|, ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)""")


def dotted(path: str) -> str:
    """Return the path of a module that dynamo gave as an expression of attributes; another path as it is.

    `getattr(L['self'].layers, '0').lin` is `layers.0.lin`, as torch 2.9 writes it. In `getattr(L['self'].ms.0, '0')` of
    an ensemble under `vmap`, torch has replaced a part. `L['self'].parts[0].lin`, of an object that is no module, is
    no path of attributes.
    """
    begin = _BEGIN.match(path)
    at, parts = (begin.end() if begin else len(path)), list[str]()
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return path
        parts.append(step[1] or ast.literal_eval(step[2]))
        at = step.end()
    return ".".join(parts) or path


def paths_by_id(stacks: Iterable[Stack]) -> dict[str, str]:
    """Return the first path of attributes of each module that dynamo also reached by another expression, by its `id`.

    A model may call a module as `self.a`, and as `self.parts[0].lin` by an object that holds it: its path is `a`.
    """
    found: dict[str, dict[str, None]] = {}
    for key, (path, _) in (entry for stack in stacks for entry in stack.items()):
        if is_of_dynamo(key):
            found.setdefault(id_of(key), {})[dotted(path)] = None
    paths = {key: [path for path in each if set("[(").isdisjoint(path)] for key, each in found.items()}
    return {key: own[0] for key, own in paths.items() if own and len(own) < len(found[key])}


def is_of_dynamo(key: str) -> bool:
    """Whether dynamo made the entry of a key: it has the `id` of the module."""
    return id_of(key).isdecimal()


def id_of(key: str) -> str:
    """Return the `id` of a module from the key of dynamo's entry."""
    return key.partition("@")[0]


def index_of(key: str, path: str) -> int:
    """Return the index of a call from its key: `@k` after the path, which may contain `@k` itself, or after an `id`."""
    repeated = key.removeprefix(f"{path}@") if key.startswith(f"{path}@") else key.partition("@")[2]
    return int(repeated) if repeated.isdecimal() and key != path else 0
