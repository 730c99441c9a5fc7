"""JSON in a file's tags: written in one way, and read with one error for all that may be wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from pytest_hierexport._errors import TagError

__all__ = ["compact", "parse_json", "refuse", "refusing_deep_json"]

# ASCII alone: a class may live in a module whose name no UTF-8 text can hold.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def compact(value: object) -> str:
    """Return JSON without spaces, its keys in the order they stand in."""
    return _ENCODER.encode(value)


def parse_json(text: str, where: str) -> Any:
    """Parse JSON.

    Raises:
        TagError: It is none; the error says where it stood.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse(f"JSON in {where}", f"{error}, in {_shorten(text, 60)!r}")


@contextmanager
def refusing_deep_json(where: str) -> Iterator[None]:
    """Refuse JSON that could just be parsed but nests too deeply to be looked at: no part of the format nests so.

    Raises:
        TagError: It does.
    """
    try:
        yield
    except RecursionError:
        refuse(f"{where} to follow the format", "lists or objects that nest too deeply")


def refuse(expected: str, found: str, do: str = "export the model again: these tags were changed by hand") -> NoReturn:
    """Raise the TagError for tags that cannot be read, what was found shortened."""
    raise TagError(expected, found=_shorten(found), do=do)


def _shorten(text: str, length: int = 200) -> str:
    return text if len(text) <= length else f"{text[:length]} …"
