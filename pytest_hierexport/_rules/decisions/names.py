"""What a value of an exporter would be under other names of the model.

While the model has other names, a value that holds one is known by the words of which these are made:

    renamed: encoder.layer.0, BertLayer     ->  renamedaaa.renamedaab.0, RenamedaacRenamedaab
    value:   "Renamedaab_0"                 ->  under other names: "Layer_0"
    value:   "layer_0", 12, "Identity"      ->  the same

Some names of a model cannot be changed while it is exported, such as its configuration's `model_type`. A text of
these is marked, and tells itself what it would be under another name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass
from enum import EnumMeta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
"""The words of a name: `Bert` and `Layer` of `BertLayer`, `q` and `proj` of `q_proj`."""
STEM, CODE_LENGTH = "renamed", 4
"""A new word is the stem and a code of so many letters, which is known within any text and in any case."""
NEW_WORD = re.compile(rf"{STEM}[a-z]{{{CODE_LENGTH}}}", re.IGNORECASE)
_MOST_ITEMS, _DEEPEST = 1000, 3
_TEXT_METHODS = """
    __add__ __getitem__ __mod__ __mul__ capitalize casefold expandtabs format join lower lstrip partition removeprefix
    removesuffix replace rpartition rsplit rstrip split splitlines strip swapcase title upper
"""


def in_case_of(word: str, like: str) -> str:
    """Return a word in lower, upper or title case, as another one is."""
    return word.upper() if like.isupper() else word[:1].upper() + word[1:] if like[:1].isupper() else word


class Marked(str):
    """A name that stays as it is, and what it would be under another name; texts made of it are marked, too."""

    __slots__ = ("other",)
    other: str

    def __new__(cls, text: str, other: str) -> Self:
        """Mark a text."""
        made = super().__new__(cls, text)
        made.other = other
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Copy and pickle the text without its mark."""
        return str, (str(self),)

    def __radd__(self, before: str) -> Marked:
        """Return the text behind another one."""
        return Marked(before + str(self), before + self.other)


def marked(value: Any, other: Any) -> Any:
    """Return a value with its texts marked by those that it has under another name."""
    if isinstance(value, str) and isinstance(other, str):
        return value if value == other else Marked(value, other)
    if type(value) in {list, tuple} and type(value) is type(other) and len(value) == len(other):
        return type(value)(map(marked, value, other))
    return value


def _marking(name: str) -> Any:
    method = getattr(str, name)
    return lambda text, *args, **kwargs: marked(method(text, *args, **kwargs), method(text.other, *args, **kwargs))


for _name in _TEXT_METHODS.split():
    setattr(Marked, _name, _marking(_name))


@dataclass(frozen=True)
class Names:
    """The old words and classes of a model that has new ones."""

    words: Mapping[str, str]
    """Old words by new ones, both in lower case."""
    classes: Mapping[type, type]
    """Old classes by new ones."""

    def other(self, value: Any, depth: int = 0) -> Any:
        """Return a value under other names; the very value where it holds no name."""
        if isinstance(value, Marked):
            return value.other
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, type):
            return self.classes.get(value, value)
        made = set if isinstance(value, KeysView) else type(value)
        if made not in {tuple, list, set, frozenset} or len(value) > _MOST_ITEMS or depth > _DEEPEST:
            return value
        others = [self.other(item, depth + 1) for item in value]
        return value if all(a is b for a, b in zip(value, others, strict=True)) else made(others)

    def own(self, value: Any) -> Any:
        """Return a value under the model's own names."""
        return self._text(str(value)) if isinstance(value, Marked) else self.other(value)

    def _text(self, text: str) -> str:
        if STEM not in text.lower():
            return text
        return NEW_WORD.sub(lambda new: in_case_of(self.words.get(new[0].lower(), new[0]), new[0]), text)


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts that a value is or holds; of a class, a pattern and an enumeration, what they are made of."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, re.Pattern):
        yield value.pattern if isinstance(value.pattern, str) else ""
    elif isinstance(value, type) and not isinstance(value, EnumMeta):
        yield value.__name__
    elif isinstance(value, Iterable) and isinstance(value, (tuple, list, set, frozenset, Mapping, KeysView, EnumMeta)):
        named: Iterable[Any] = value.__members__ if isinstance(value, EnumMeta) else value
        for item in named if depth <= _DEEPEST else ():
            yield from texts(item, depth + 1)
