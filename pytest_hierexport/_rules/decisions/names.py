"""The old names of a model that has new ones, and what a value would be under the old ones.

Each word of a name becomes a new word, which nothing else contains:

    old names    encoder.layer.0     BertLayer
    new names    renamedaaaa.renamedaaab.0     RenamedaaacRenamedaaab
    a value      "Renamedaaab_0"     is "Layer_0" under the old names
    a value      "layer_0", 12, "Identity"     is the same

Some names of a model cannot be changed while it is exported, such as its configuration's `model_type`. A text of these
is marked with an alternative: what it would be if the model had another such name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass
from enum import EnumMeta
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
"""The words of a name: `Bert` and `Layer` of `BertLayer`, `q` and `proj` of `q_proj`."""
STEM, CODE_LENGTH = "renamed", 4
"""A new word is the stem and a code of so many letters, which is known within any text and in any case."""
NEW_WORD = re.compile(rf"{STEM}[a-z]{{{CODE_LENGTH}}}", re.IGNORECASE)
_MOST_ITEMS, _DEEPEST = 1000, 3
_COPIED = (tuple, list, set, frozenset)
_TEXT_METHODS = """
    __add__ __getitem__ __mod__ __mul__ capitalize casefold expandtabs format join lower lstrip partition removeprefix
    removesuffix replace rpartition rsplit rstrip split splitlines strip swapcase title upper
"""


def with_words(name: str, pattern: re.Pattern[str], other: Callable[[str], str | None]) -> str:
    """Return a name with other words, in its case, for those that a pattern finds and `other` knows in lower case."""

    def in_case(found: re.Match[str]) -> str:
        word = other(found[0].lower())
        if word is None:
            return found[0]
        is_title = found[0][:1].isupper()
        return word.upper() if found[0].isupper() else word[:1].upper() + word[1:] if is_title else word

    return pattern.sub(in_case, name)


class Marked(str):
    """A name that stays as it is, and its alternative; texts made of it are marked, too."""

    __slots__ = ("alternative",)
    alternative: str

    def __new__(cls, text: str, alternative: str) -> Self:
        """Mark a text."""
        made = super().__new__(cls, text)
        made.alternative = alternative
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Copy and pickle the text without its mark."""
        return str, (str(self),)

    def __radd__(self, before: str) -> Marked:
        """Return the text behind another one."""
        return Marked(before + str(self), before + self.alternative)


def marked(value: Any, alternative: Any) -> Any:
    """Return a value with its texts marked by their alternatives, which may be another kind of value."""
    if isinstance(value, str) and isinstance(alternative, str):
        return value if value == alternative else Marked(value, alternative)
    if type(value) in {list, tuple} and type(value) is type(alternative) and len(value) == len(alternative):
        return type(value)(map(marked, value, alternative))
    return value


def _marking(name: str) -> Any:
    method = getattr(str, name)

    def marking(text: Marked, *args: Any, **options: Any) -> Any:
        made = method(text, *args, **options)
        try:
            return marked(made, method(text.alternative, *args, **options))
        except Exception:  # noqa: BLE001  # an alternative may be too short, or hold no such part
            return made

    return marking


for _name in _TEXT_METHODS.split():
    setattr(Marked, _name, _marking(_name))


@dataclass(frozen=True)
class Names:
    """The old words and classes of a model that has new ones."""

    words: Mapping[str, str]
    """The new word of each old one, in lower case."""
    classes: Mapping[int, type]
    """The old class of each new one, which is named by its `id`."""

    def old(self, value: Any) -> Any:
        """Return a value under the old names; the very value where it has no new ones."""
        return self._translated(value, lambda text: self._text(str(text) if isinstance(text, Marked) else text))

    def other(self, value: Any) -> Any:
        """Return a value under the old names, of marked texts the alternative; the very value where nothing changes."""
        return self._translated(value, lambda text: text.alternative if isinstance(text, Marked) else self._text(text))

    def new(self, text: str) -> Iterator[str]:
        """Yield the new spellings of a path (its last parts may be torch's) or of a qualified class."""
        parts = text.split(".")
        new = [self._new_part(part) for part in parts]
        yield ".".join((*parts[:-1], new[-1] or parts[-1]))
        for count in range(1, len(parts) + 1):
            if new[count - 1] is None:
                return
            yield ".".join((*map(str, new[:count]), *parts[count:]))

    def _new_part(self, part: str) -> str | None:
        """Return the new spelling of a part of a name; None for one that is no name of the model."""
        is_name = all(word.lower() in self.words for word in WORD.findall(part))
        return with_words(part, WORD, self.words.__getitem__) if is_name else None

    @cached_property
    def _old_words(self) -> Mapping[str, str]:
        return {new: old for old, new in self.words.items()}

    def _translated(self, value: Any, translate: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return translate(value)
        if isinstance(value, type):
            return self.classes.get(id(value), value)
        if isinstance(value, PurePath):
            text = translate(str(value))
            return value if text == str(value) else type(value)(text)
        made = set if is_a(value, KeysView) else type(value)
        if not any(made is kind for kind in _COPIED) or len(value) > _MOST_ITEMS or depth > _DEEPEST:
            return value
        items = [self._translated(item, translate, depth + 1) for item in value]
        return value if all(a is b for a, b in zip(value, items, strict=True)) else made(items)

    def _text(self, text: str) -> str:
        if STEM not in text.lower():
            return text
        return with_words(text, NEW_WORD, self._old_words.get)


def is_a(value: Any, *kinds: type) -> bool:
    """Return whether a value is of some kinds, whatever it says that its class is."""
    # Abstract classes keep what they were asked for, and fail for a class that is not hashable.
    return type(type(value)).__hash__ is not None and issubclass(type(value), kinds)


def is_translated(value: Any) -> bool:
    """Return whether a value is translated whole, and runs no code of its own when it is used twice."""
    if is_a(value, *_COPIED, KeysView):
        return (type(value) in _COPIED or is_a(value, KeysView)) and len(value) <= _MOST_ITEMS
    is_plain = isinstance(value, type) or not callable(value)
    return is_plain and (isinstance(value, (str, bytes, re.RegexFlag)) or not is_a(value, Iterable))


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts that a value is or holds: of a class its name, of an enumeration its members' names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, PurePath):
        yield str(value)
    elif isinstance(value, re.Pattern):
        yield value.pattern if isinstance(value.pattern, str) else ""
    elif isinstance(value, type) and not isinstance(value, EnumMeta):
        yield value.__name__
    elif is_a(value, *_COPIED, Mapping, KeysView, EnumMeta):
        named: Iterable[Any] = value.__members__ if isinstance(value, EnumMeta) else value
        for item in named if depth <= _DEEPEST else ():
            yield from texts(item, depth + 1)
