"""Encodes names so that paths, call names, classes and tags split back into their parts.

A module or a class may have any name. :func:`encode` percent-encodes separators; the functions that join names take or
return encoded ones.

    encode("a.b")               a%2Eb
    join_path(("layers", "0"))  layers.0
    call_name("layers.0", 1)    layers.0@1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pytest_hierexport._text import CONTROLS, percent_encoded

_UNSAFE = re.compile(f"[/.@%{CONTROLS}]")
# The separators between operators in a snapshot, and between an operator and its domain.
_UNSAFE_IN_OPERATOR = re.compile(rf"[\s,:%{CONTROLS}]")
# The modules where PyTorch defines the layers that every model uses.
_BUILDING_BLOCKS = ("torch.nn.", "torch.ao.nn.", "torch._C.")


def encode(name: str) -> str:
    """Percent-encode the separators `/ . @ %` and control characters of one attribute or class name."""
    # An identifier has no such character; checking that takes a quarter of the time.
    return name if name.isidentifier() else _encoded(_UNSAFE, name)


def encode_operator(domain: str, op_type: str) -> str:
    """Return an operator as text: `Add`, or `domain::Name` outside ONNX's own domain.

    It has no white space, comma or control character, and splits back into domain and name.
    """
    name = _encoded(_UNSAFE_IN_OPERATOR, op_type)
    return name if domain in {"", "ai.onnx"} else f"{_encoded(_UNSAFE_IN_OPERATOR, domain)}::{name}"


def _encoded(unsafe: re.Pattern[str], name: str) -> str:
    return unsafe.sub(lambda match: percent_encoded(match[0]), name)


def join_path(parts: Iterable[str]) -> str:
    """Return the path of raw attribute names, root first: `("encoder", "0")` gives `encoder.0`."""
    return ".".join(encode(part) for part in parts)


def upwards(path: str, separator: str = ".") -> Iterator[str]:
    """Yield a path and those above it, the nearest first: `a.b`, `a`, and the empty one of the root."""
    while path:
        yield path
        path = path.rpartition(separator)[0]
    yield path


def call_name(path: str, index: int) -> str:
    """Return the name of the call with the given index under `path`: `encoder.0`, then `encoder.0@1`."""
    return f"{path}@{index}" if index else path


def split_call_name(name: str) -> tuple[str, int]:
    """Undo :func:`call_name`.

    Raises:
        ValueError: `name` is not a call name.
    """
    path, mark, digits = name.partition("@")
    index = int(digits) if digits.isdecimal() else 0
    if mark and (not index or call_name(path, index) != name):
        raise ValueError(f"{name!r} is not a call name: a path, with @1, @2, … from the second call on")
    return path, index


def qualified_class(module: str, qualname: str, name: str) -> str:
    """Return a class as text: its module, its scope and its encoded `__name__`.

    The part after the last dot is always the class's name, also for a name with a dot in it.
    """
    return f"{module}.{scope_of(qualname, name)}{encode(name)}"


def scope_of(qualname: str, name: str) -> str:
    """Return what comes before the name in a class's `__qualname__`: `Outer.`, or an empty text.

    A class that was renamed without it, as torch.fx does, has a scope that cannot be separated from its old name.
    """
    return qualname[: -len(name)] if name and f".{qualname}".endswith(f".{name}") else ""


def is_torch_nn(cls: str) -> bool:
    """Whether a qualified class is defined in `torch.nn`, `torch.ao.nn` or `torch._C`, or below them."""
    return cls.startswith(_BUILDING_BLOCKS)
