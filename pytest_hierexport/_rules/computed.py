"""Shows what a frame computes."""

from __future__ import annotations

import ast
from inspect import getframeinfo
from linecache import getline
from pathlib import Path
from types import FrameType


def computed_source(frame: FrameType) -> str:
    """Return the source of what a frame computes now, in one line; in Python 3.10 the first line of it."""
    file, place = frame.f_code.co_filename, getattr(getframeinfo(frame, context=0), "positions", None)
    code = place and ast.get_source_segment(Path(file).read_text("utf-8", "replace"), place)
    return " ".join((code or getline(file, frame.f_lineno)).split())
