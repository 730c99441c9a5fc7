"""What a value would be under the old names of a model that has new ones (:mod:`new_names`).

    "Renamedaaab_0"                is "Layer_0" under the old names
    "layer_0", 12, "Identity"      are the same

Some names of a model cannot be changed while it is exported, such as its configuration's `model_type`, and parts of
words tell nothing. Such a text is marked with its alternative: what it would be if the model had other names.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, KeysView
from pathlib import PurePath
from typing import Any

from pytest_hierexport._rules.new_names import Names

_COPIED = (tuple, list, set, frozenset)
_MOST_ITEMS, _DEEPEST = 1000, 4


class Marked(str):
    """A text that shows no new name, and what it would be if the model had other names."""

    __slots__ = ("alternative",)
    alternative: str

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Copy and pickle the text without its mark."""
        return str, (str(self),)


def marked(value: Any, alternative: Any) -> Any:
    """Return a value with its texts marked by their alternatives, which may be another kind of value."""
    if isinstance(alternative, str) and isinstance(value, str) and value != alternative:
        value = Marked(value)
        value.alternative = alternative
    elif any(type(value) is kind is type(alternative) for kind in (list, tuple)) and len(value) == len(alternative):
        return type(value)(map(marked, value, alternative))
    return value


def under_old(names: Names, value: Any, depth: int = 0) -> Any:
    """Return a value under the old names, of marked texts the alternative; the very value where nothing changes."""
    if isinstance(value, str):
        return value.alternative if isinstance(value, Marked) else names.old(value)
    if isinstance(value, type):
        return names.classes.get(id(value), value)
    if isinstance(value, PurePath) or (isinstance(value, bytes) and len(value) <= _MOST_ITEMS):
        old = names.old(text := os.fsdecode(value))
        return value if old is text else os.fsencode(old) if isinstance(value, bytes) else type(value)(old)
    copy = _copy(value)
    if copy is None or depth > _DEEPEST:
        return value
    items = [under_old(names, item, depth + 1) for item in value]
    return value if all(map(operator.is_, value, items)) else copy(items)


def is_a(value: Any, *kinds: type) -> bool:
    """Return whether a value is of some kinds, whatever it says that its class is."""
    # Abstract classes keep what they were asked for, and fail for a class that is not hashable.
    return type(type(value)).__hash__ is not None and issubclass(type(value), kinds)


def is_translated(value: Any) -> bool:
    """Return whether a value is translated whole, and runs no code of its own when it is used twice."""
    is_single = isinstance(value, (str, bytes, re.RegexFlag)) or not is_a(value, Iterable)
    return (is_single and (isinstance(value, type) or not callable(value))) or _copy(value) is not None


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts that a value is or holds: of a class its name, of a regular expression its pattern."""
    value = value.pattern if isinstance(value, re.Pattern) else value.__name__ if isinstance(value, type) else value
    if isinstance(value, (str, bytes, PurePath)):
        yield value if isinstance(value, str) else os.fsdecode(value)
    elif depth <= _DEEPEST and is_a(value, *_COPIED, KeysView):
        for item in value:
            yield from texts(item, depth + 1)


def _copy(value: Any) -> Callable[[list[Any]], Any] | None:
    """Return what makes a collection of the same kind; None for a value that is none of Python's own, or large."""
    kind = set if is_a(value, KeysView) else type(value)
    return kind if any(kind is each for each in _COPIED) and len(value) <= _MOST_ITEMS else None
