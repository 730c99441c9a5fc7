"""Encodes and parses the JSON of tags; text that cannot be parsed raises a TagError."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from pytest_hierexport._errors import TagError

# ASCII alone: the name of a class's module may hold characters that UTF-8 cannot encode.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def compact(value: object) -> str:
    """Return JSON without spaces, keys in their given order."""
    return _ENCODER.encode(value)


def parse_json(text: str, where: str) -> Any:
    """Parse JSON.

    Raises:
        TagError: The text is not JSON; the error says where it was.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse(f"JSON in {where}", f"{error}, in {_shorten(text, 60)!r}")


@contextmanager
def refusing_deep_json(where: str) -> Iterator[None]:
    """Refuse JSON that was parsed but nests too deeply for recursion; no part of the format does.

    Raises:
        TagError: It nests too deeply.
    """
    try:
        yield
    except RecursionError:
        refuse(f"{where} to follow the format", "lists or objects that nest too deeply")


def refuse(expected: str, found: str, do: str = "export the model again: these tags were changed by hand") -> NoReturn:
    """Raise the TagError for tags that cannot be read; `found` is shortened."""
    raise TagError(expected, found=_shorten(found), do=do)


def _shorten(text: str, length: int = 200) -> str:
    return text if len(text) <= length else f"{text[:length]} …"
