"""The old names of a model that has new ones, and what a value would be under the old ones.

Each word of a name becomes a new word, which nothing else contains:

    old names    encoder.layer.0     BertLayer
    new names    renamedaaaa.renamedaaab.0     RenamedaaacRenamedaaab
    a value      "Renamedaaab_0"     is "Layer_0" under the old names
    a value      "layer_0", 12, "Identity"     is the same

Some names of a model cannot be changed while it is exported, such as its configuration's `model_type`, and parts of
words tell nothing. Such a text is marked with its alternative: what it would be if the model had other names.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
"""The words of a name: `Bert` and `Layer` of `BertLayer`, `q` and `proj` of `q_proj`."""
STEM, CODE_LENGTH = "renamed", 4
"""A new word is the stem and a code of so many letters, which is known within any text and in any case."""
NEW_WORD = re.compile(rf"{STEM}[a-z]{{{CODE_LENGTH}}}", re.IGNORECASE)
_COPIED = (tuple, list, set, frozenset)
_MOST_ITEMS, _DEEPEST = 1000, 4


def with_words(name: str, pattern: re.Pattern[str], other: Callable[[str], str | None]) -> str:
    """Return a name with other words, in its case, for those that a pattern finds and `other` knows in lower case."""

    def in_case(found: re.Match[str]) -> str:
        word = other(found[0].lower()) or found[0]
        if found[0].isupper():
            return word.upper()
        return word[:1].upper() + word[1:] if found[0][:1].isupper() else word

    return pattern.sub(in_case, name)


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


@dataclass(frozen=True)
class Names:
    """The old words and classes of a model that has new ones."""

    words: Mapping[str, str]
    """The new word of each old one, in lower case."""
    classes: Mapping[int, type]
    """The old class of each new one, which is named by its `id`."""

    @cached_property
    def _old_words(self) -> Mapping[str, str]:
        return {new: old for old, new in self.words.items()}

    def old(self, text: str) -> str:
        """Return a text under the old names; the very text where it has no new ones."""
        return with_words(text, NEW_WORD, self._old_words.get) if STEM in text.lower() else text

    def new(self, text: str) -> Iterator[str]:
        """Yield the new spellings of a path (its last parts may be torch's) or of a qualified class."""
        parts = text.split(".")
        new = [with_words(part, WORD, self.words.get) for part in parts]
        yield ".".join((*parts[:-1], new[-1]))
        yield from (".".join((*new[:count], *parts[count:])) for count in range(1, len(parts) + 1))

    def other(self, value: Any, depth: int = 0) -> Any:
        """Return a value under the old names, of marked texts the alternative; the very value where nothing changes."""
        if isinstance(value, str):
            return value.alternative if isinstance(value, Marked) else self.old(value)
        if isinstance(value, type):
            return self.classes.get(id(value), value)
        if isinstance(value, PurePath):
            text = self.old(str(value))
            return value if text == str(value) else type(value)(text)
        copy = _copy(value)
        if copy is None or depth > _DEEPEST:
            return value
        items = [self.other(item, depth + 1) for item in value]
        return value if all(map(operator.is_, value, items)) else copy(items)


def is_a(value: Any, *kinds: type) -> bool:
    """Return whether a value is of some kinds, whatever it says that its class is."""
    # Abstract classes keep what they were asked for, and fail for a class that is not hashable.
    return type(type(value)).__hash__ is not None and issubclass(type(value), kinds)


def is_translated(value: Any) -> bool:
    """Return whether a value is translated whole, and runs no code of its own when it is used twice."""
    is_plain = isinstance(value, type) or not callable(value)
    is_single = isinstance(value, (str, bytes, re.RegexFlag)) or not is_a(value, Iterable)
    return (is_plain and is_single) or _copy(value) is not None


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts that a value is or holds: of a class its name, of a regular expression its pattern."""
    if isinstance(value, re.Pattern):
        yield str(value.pattern)
    elif isinstance(value, (str, PurePath)):
        yield value if isinstance(value, str) else str(value)
    elif isinstance(value, type):
        yield value.__name__
    elif depth <= _DEEPEST and is_a(value, *_COPIED, KeysView):
        for item in value:
            yield from texts(item, depth + 1)


def _copy(value: Any) -> Callable[[list[Any]], Any] | None:
    """Return what makes a collection of the same kind; None for a value that is none of Python's own, or large."""
    kind = set if is_a(value, KeysView) else type(value)
    return kind if any(kind is each for each in _COPIED) and len(value) <= _MOST_ITEMS else None
