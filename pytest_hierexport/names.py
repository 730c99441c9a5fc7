"""Names as data: what makes paths, call names, classes and tags split back into what they were made from.

A module or a class may have any name. :func:`encode` makes the characters that separate names safe; everything
that joins names here takes or gives encoded ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["call_name", "decode", "encode", "is_torch_nn", "join_path", "qualified_class", "split_call_name"]

# The separators; the C0 and C1 controls; what breaks a line or turns its direction; lone surrogates, which no
# UTF-8 text can hold. Ranges rather than `str.isprintable`, which changes with Python's Unicode tables.
_UNSAFE = re.compile("[/.@%\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ENCODED = re.compile("(?:%[0-9A-Fa-f]{2})+")
# Where PyTorch defines the building blocks that every model shares: they say what is computed, not where.
_BUILDING_BLOCKS = ("torch.nn.", "torch.ao.nn.", "torch._C.")


def encode(name: str) -> str:
    """Percent-encode the separators `/ . @ %` and control characters of one attribute or class name."""
    # An identifier holds none of them and is found to be one in a quarter of the time.
    return name if name.isidentifier() else _UNSAFE.sub(_encode_character, name)


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
