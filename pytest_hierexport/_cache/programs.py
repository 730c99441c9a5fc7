"""Tells what the programs that a process starts mean for its results, by the arguments of their audit events.

python -m pytest_hierexport.…     our own        nothing: it reads what this process has read for the same model
ninja --version                   RWKV           the program's file is read
ldconfig -p                       find_library   nothing: a library of the system has no version of its own
git rev-parse HEAD                               its part cannot be seen
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import sys
from collections.abc import Sequence
from traceback import walk_stack

from pytest_hierexport._files.paths import PACKAGE

_OURS = ("pytest_hierexport.", f"{PACKAGE}{os.sep}")


def is_own_program(args: Sequence[object]) -> bool:
    """Whether a command is one of this package."""
    return any(str(part).startswith(_OURS) for part in _command(args))


def asks_for_a_version(args: Sequence[object]) -> bool:
    """Whether a command's output depends on the program alone."""
    return list(_command(args)[1:]) == ["--version"]


def program_of(args: Sequence[object]) -> str | None:
    """Return the file of a command's program, None where there is none."""
    return shutil.which(os.fsdecode(args[0])) if isinstance(args[0], (str, bytes, os.PathLike)) else None


def looks_for_a_library() -> bool:
    """Whether `ctypes.util.find_library` starts the current program."""
    return any(frame.f_code.co_filename == ctypes.util.__file__ for frame, _ in walk_stack(sys._getframe(1)))


def _command(args: Sequence[object]) -> Sequence[object]:
    """Return the program and its arguments; empty where the event names no such list."""
    command = args[1] if len(args) > 1 else ()
    return command if isinstance(command, (list, tuple)) else ()
