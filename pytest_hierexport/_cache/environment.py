"""Records which environment variables are read through `os.environ`.

    a factory      os.environ["SIZE"], os.getenv("SIZE"), "SIZE" in os.environ      recorded
    a factory      dict(os.environ)                                                 all, and which ones there are
    a library      os.environ.get("TORCH_LOGS")                                     recorded
    a library      dict(os.environ)                                                 not recorded
    pytest         os.environ["PYTEST_CURRENT_TEST"]                                not recorded
    a plugin       os.environ["PYTEST_XDIST_WORKER"]                                not recorded

A library copies the environment for a program that it starts; on a CI system some variable differs in each run.
No audit event tells of these reads. All of them end in two methods of the class of `os.environ`, which are replaced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any

from pytest_hierexport._files.paths import AROUND_TESTS, is_installed, of_standard_library, text_digest

ALL = ""
"""Stands for the names of all variables."""
_RUNNERS = frozenset({"_hypothesis_globals", "_hypothesis_pytestplugin", "_pytest", "execnet", "hypothesis", "pluggy"})
_RUNNERS |= {"__channelexec__", "pytest", "rich", "syrupy", "xdist"}
"""The packages that run tests and show results: no verdict depends on what they read.

execnet runs xdist's part in a worker under a name of its own, `__channelexec__`.
"""
_OF_WORKERS = "PYTEST_XDIST_"
"""How the names begin by which xdist tells a worker which one it is: plugins of pytest ask for them."""
_OURS = tuple(f"pytest_hierexport.{room}." for room in (*AROUND_TESTS, "_files"))


def variable_digest(name: str, values: Mapping[str, str]) -> str:
    """Return the SHA-256 of a variable's value, as it may be a secret; empty where it is not set."""
    value = "\0".join(sorted(values)) if name == ALL else values.get(name)
    return "" if value is None else text_digest(f"{name}={value}")


def watch_environment(record: Callable[[str, str], None]) -> None:
    """Call a function with each variable that this process reads from now on, and the reader's file."""
    kind: Any = type(os.environ)
    read, iterate = kind.__getitem__, kind.__iter__
    copying: set[CodeType] = set()
    """The functions of libraries that read all variables."""

    def read_and_record(environ: Any, key: Any) -> Any:
        reader = _reader()
        if reader is not None and counts_as_reader(reader) and reader.f_code not in copying:
            name, file = os.fsdecode(key) if isinstance(key, bytes) else str(key), reader.f_code.co_filename
            if not (name.startswith(_OF_WORKERS) and is_installed(Path(file))):
                record(name, file)
        return read(environ, key)

    def iterate_and_record(environ: Any) -> Iterator[Any]:
        reader = _reader()
        if reader is not None and is_installed(Path(reader.f_code.co_filename)):
            copying.add(reader.f_code)
        elif reader is not None and counts_as_reader(reader):
            record(ALL, reader.f_code.co_filename)
        result: Iterator[Any] = iterate(environ)
        return result

    kind.__getitem__, kind.__iter__ = read_and_record, iterate_and_record


def counts_as_reader(reader: FrameType) -> bool:
    """Whether a frame is of code that a verdict may depend on: not of what runs tests and shows results."""
    name: str = reader.f_globals.get("__name__", "")
    return name.partition(".")[0] not in _RUNNERS and not name.startswith(_OURS)


def _reader() -> FrameType | None:
    """Return the nearest frame outside the standard library, above that of the replaced method."""
    above = (frame for frame, _ in walk_stack(sys._getframe(2)))
    return next((frame for frame in above if not of_standard_library(frame.f_code.co_filename)), None)
