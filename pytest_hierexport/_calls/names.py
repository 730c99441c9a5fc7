"""Names as data: what makes paths, call names, classes and tags split back into what they were made from.

A module or a class may have any name. :func:`encode` makes the characters that separate names safe; everything
that joins names here takes or gives encoded ones. :func:`one_line` and :func:`printable` show any text to people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = [
    "call_name",
    "decode",
    "encode",
    "encode_operator",
    "is_torch_nn",
    "join_path",
    "one_line",
    "printable",
    "qualified_class",
    "split_call_name",
]

# The C0 and C1 controls; what breaks a line or turns its direction; invisible characters that join nothing (of the
# zero-width ones, scripts need the joiners); lone surrogates, which no UTF-8 text can hold. Ranges rather than
# `str.isprintable`, which changes with Python's Unicode tables.
_CONTROLS = (
    "\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f"
)
_CONTROL = re.compile(f"[{_CONTROLS}]")
_UNSAFE = re.compile(f"[/.@%{_CONTROLS}]")
# What separates the operators of a module in a snapshot, beside an operator from its domain.
_UNSAFE_IN_OPERATOR = re.compile(rf"[\s,:%{_CONTROLS}]")
_ENCODED = re.compile("(?:%[0-9A-Fa-f]{2})+")
# Where PyTorch defines the building blocks that every model shares: they say what is computed, not where.
_BUILDING_BLOCKS = ("torch.nn.", "torch.ao.nn.", "torch._C.")


def encode(name: str) -> str:
    """Percent-encode the separators `/ . @ %` and control characters of one attribute or class name."""
    # An identifier holds none of them and is found to be one in a quarter of the time.
    return name if name.isidentifier() else _UNSAFE.sub(_encode_character, name)


def encode_operator(domain: str, op_type: str) -> str:
    """Return the text that stands for an operator: `Add`, or `domain::Name` outside ONNX's own domain.

    It holds no white space, comma or control character, and splits back into the two, whatever they hold.
    """
    name = _UNSAFE_IN_OPERATOR.sub(_encode_character, op_type)
    return name if domain in {"", "ai.onnx"} else f"{_UNSAFE_IN_OPERATOR.sub(_encode_character, domain)}::{name}"


def one_line(text: str) -> str:
    r"""Return text that a terminal shows on one line as it stands, its control characters escaped: `\x1b`, `\n`."""
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escape_character, text)


def printable(text: str) -> str:
    """Return text of several lines with all control characters but the line feeds escaped; see :func:`one_line`."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def _escape_character(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _encode_character(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def decode(text: str) -> str:
    """Undo :func:`encode`.

    Raises:
        ValueError: `text` is not the encoding of any name.
    """
    return _ENCODED.sub(_decode_run, text)


def _decode_run(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogatepass")


def join_path(parts: Iterable[str]) -> str:
    """Return the path of raw attribute names, root first: `("encoder", "0")` gives `encoder.0`."""
    return ".".join(encode(part) for part in parts)


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
    """Return the text that stands for a class: its module, its scope and its encoded `__name__`.

    The part after the last dot is always the class's name, even where that name holds a dot itself.
    """
    # A class that was renamed without its `__qualname__` has no scope that we could tell from its old name.
    scope = qualname[: -len(name)] if name and f".{qualname}".endswith(f".{name}") else ""
    return f"{module}.{scope}{encode(name)}"


def is_torch_nn(cls: str) -> bool:
    """Whether a qualified class is defined in `torch.nn`, `torch.ao.nn` or `torch._C`, or below them."""
    return cls.startswith(_BUILDING_BLOCKS)
