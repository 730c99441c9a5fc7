"""Finds paths, users and hosts of this machine in an ONNX file and its sidecar."""

from __future__ import annotations

import getpass
import json
import os
import re
import site
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_hierexport._files.paths import absolute
from pytest_hierexport._onnx.graph import inventory_proto

__all__ = ["Leak", "Machine", "leaks_in_message", "leaks_in_text"]

_TOKEN = re.compile(r"""[^\s"'<>()\[\]{},;|]+""")
"""A run of characters that an address may consist of."""
_BEFORE, _BEHIND = r"(?:(?<=file://)|(?<![\w.~/\\-]))", r"""(?=[/\\]|[^\w.-]|$)[^\s"'<>|,;]*"""
"""Patterns for the text before and behind a folder's path, which may go on into the folder."""
_LEAST = 3
"""The least length of a folder's path to look for: `/` is everywhere."""
_DATA = frozenset(("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"))
"""The fields of tensors that hold numbers."""


@dataclass(frozen=True)
class Leak:
    """A text that reveals something about the machine."""

    where: str
    found: str
    """The path or address."""
    reveals: str
    """The thing that it reveals: `the home folder`, `the user's name`."""


@dataclass(frozen=True)
class Machine:
    """The folders and names that must not appear.

    Attributes:
        folders: A description of each folder, by its absolute path.
        names: A description of each name, by the name.
    """

    folders: Mapping[str, str]
    names: Mapping[str, str]

    @classmethod
    def this(cls) -> Machine:
        """Return the machine that this process runs on."""
        folders: dict[str, str] = {}
        for what, paths in _folders():
            folders.update((path, what) for path in paths if len(path) >= _LEAST and path not in folders)
        return cls(
            folders,
            {name: what for what, name in _names() if name and name != "localhost"},
        )

    def revealed_by(self, text: str, *, is_name: bool = False) -> Iterator[tuple[str, str]]:
        """Yield the paths and addresses in a text that reveal the machine, each with the thing that it reveals.

        Args:
            text: Any text.
            is_name: Whether it is a name of a node or a value, which may look like a path and be none: then only
                paths that exist count.
        """
        if not any(word in text for word in self._words):
            return
        seen: list[str] = []
        for pattern, what in self._patterns:
            for match in pattern.finditer(text):
                if not any(match[0] in other for other in seen) and (not is_name or _exists(match[0])):
                    seen.append(match[0])
                    yield match[0], what
        for token in _TOKEN.findall(text):
            whose = self._name_in(token)
            if whose is not None and not any(path in token for path in seen) and (not is_name or _exists(token)):
                yield token, whose

    def _name_in(self, token: str) -> str | None:
        """Return whose name is a part of a path or an address; a word by itself is neither."""
        if not token.startswith(("/", "~", "\\")) and "://" not in token and "@" not in token and token[1:3] != ":\\":
            return None
        parts = re.split(r"[/\\@:~]", token)
        return next((self.names[part] for part in parts if part in self.names), None)

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """Words of which every text that reveals anything holds one."""
        return tuple({*self.names, *(form for folder in self.folders for form in _forms(folder))})

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], str], ...]:
        return tuple(
            (re.compile(f"{_BEFORE}{re.escape(form)}{_BEHIND}"), what)
            for folder, what in self.folders.items()
            for form in _forms(folder)
        )


def _forms(folder: str) -> list[str]:
    """Return the ways in which a path is written: with either slash, and with a backslash escaped."""
    return list(dict.fromkeys([folder, folder.replace("\\", "/"), folder.replace("\\", "\\\\")]))


def _folders() -> Iterator[tuple[str, list[str]]]:
    installed = sysconfig.get_paths()
    packages = [installed[name] for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    virtual = [sys.prefix] if sys.prefix != sys.base_prefix else []
    yield "a package folder", _both([*packages, *site.getsitepackages(), *virtual, str(Path(__file__).parents[2])])
    yield "the working folder", _both([os.curdir])
    yield "the temporary folder", _both([tempfile.gettempdir()])
    yield "the home folder", _both([str(Path.home())])


def _both(paths: Iterable[str]) -> list[str]:
    """Return paths as they are and with their links followed: either may have been written down."""
    return [str(form) for path in paths for form in (absolute(path), Path(path).resolve())]


def _names() -> Iterator[tuple[str, str]]:
    yield "the host's name", socket.gethostname()
    yield "the host's name", socket.gethostname().partition(".")[0]
    try:
        yield "the user's name", getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A process may run under a user id without a name.
        return


def _exists(path: str) -> bool:
    """Whether a path, or a part of it from the root that is longer than one name, is there."""
    at = Path(path)
    return at.is_absolute() and any(os.path.lexists(part) for part in (at, *at.parents) if len(part.parts) > 2)


def leaks_in_message(proto: Any, machine: Machine, known: Container[str]) -> Iterator[Leak]:
    """Yield the leaks in every text of an ONNX message.

    Args:
        proto: The model.
        machine: The folders and names that must not appear.
        known: Tags, call names and the like: texts that look like paths and are none.
    """
    parts = inventory_proto(proto)
    for kind, messages in (("node", parts.nodes), ("initializer", parts.initializers)):
        for key, message in messages:
            yield from _in_fields(f"{kind} {key}", message, machine, known)
    inside = frozenset(("node", "initializer"))
    # The first graph is the model's own.
    for graph in parts.graphs[1:]:
        yield from _in_fields(f"graph {graph.name}", graph, machine, known, leave_out=inside)
    yield from _in_fields("the model", proto, machine, known, leave_out=inside)


def _in_fields(
    where: str, message: Any, machine: Machine, known: Container[str], *, leave_out: frozenset[str] = frozenset()
) -> Iterator[Leak]:
    for field, value in message.ListFields():
        if field.name in _DATA or field.name in leave_out:
            continue
        place = f"{where}, {field.name}"
        for i, item in enumerate(value if field.is_repeated else [value]):
            inner = f"{place}[{i}]" if field.is_repeated else place
            if field.message_type is not None:
                # A node's subgraphs are listed by themselves.
                if field.name not in {"g", "graphs"}:
                    yield from _in_fields(inner, item, machine, known, leave_out=leave_out)
            elif isinstance(item, (str, bytes)):
                # The tool that writes the file names the graph; nodes and values may be named by the paths of modules.
                is_name = field.name in {"name", "input", "output"} and message.DESCRIPTOR.name != "GraphProto"
                text = item if isinstance(item, str) else item.decode("utf-8", "replace")
                yield from leaks_in_text(inner, text, machine, known, is_name=is_name)


def leaks_in_text(
    where: str, text: str, machine: Machine, known: Container[str], *, is_name: bool = False
) -> Iterator[Leak]:
    """Yield the leaks in a text; where it is JSON, in the texts within."""
    if text in known:
        return
    if text.startswith(("{", "[")):
        try:
            yield from _in_json(where, json.loads(text), machine, known)
        except (ValueError, RecursionError):
            pass
        else:
            return
    for found, what in machine.revealed_by(text, is_name=is_name):
        yield Leak(where, found, what)


def _in_json(where: str, value: Any, machine: Machine, known: Container[str]) -> Iterator[Leak]:
    """Yield the leaks in the texts of a JSON document, its keys included."""
    if isinstance(value, str):
        if value not in known:
            yield from (Leak(where, found, what) for found, what in machine.revealed_by(value))
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if key not in known:
                yield from (Leak(where, found, what) for found, what in machine.revealed_by(key, is_name=True))
            yield from _in_json(f"{where}, {key}", part, machine, known)
    elif isinstance(value, list):
        for part in value:
            yield from _in_json(where, part, machine, known)
