"""Encodes and parses the JSON of tags; a text that cannot be parsed raises a TagError."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from pytest_hierexport._errors import TagError

# ASCII only: the name of a class's module may contain characters that UTF-8 cannot encode.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def compact(value: object) -> str:
    """Return JSON without spaces; keys stay in their order."""
    return _ENCODER.encode(value)


def parse_json(text: str, where: str) -> Any:
    """Parse JSON.

    Raises:
        TagError: The text is not JSON; the error names `where`.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse(f"JSON in {where}", f"{error}, in {_shorten(text, 60)!r}")


def json_or_none(text: str) -> Any:
    """Return what a text is in JSON; None for another text, and for one that nests too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@contextmanager
def refusing_deep_json(where: str) -> Iterator[None]:
    """Turn a RecursionError into a TagError: JSON may be nested too deeply, though it could be parsed.

    Raises:
        TagError: The JSON is nested too deeply; the format has no such part.
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
