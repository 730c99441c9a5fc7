"""The words of a model's names, and the new words that stand for them while the model is renamed.

Each word of a name becomes a new word, which nothing else contains:

    old names    encoder.layer.0     BertLayer
    new names    renamedaaaa.renamedaaab.0     RenamedaaacRenamedaaab
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
"""The words of a name: `Bert` and `Layer` of `BertLayer`, `q` and `proj` of `q_proj`."""
STEM, CODE_LENGTH = "renamed", 4
"""A new word is the stem and a code of so many letters, which is known within any text and in any case."""
NEW_WORD = re.compile(rf"{STEM}[a-z]{{{CODE_LENGTH}}}", re.IGNORECASE)


def with_words(name: str, pattern: re.Pattern[str], other: Callable[[str], str | None]) -> str:
    """Return a name with other words, in its case, for those that a pattern finds and `other` knows in lower case.

    A word whose case its first letters do not tell, such as the Greek `ΝέοΔίκτυο`, is known as it is.
    """

    def replaced(found: re.Match[str]) -> str:
        written, low = found[0], found[0].lower()
        word = other(low if _in_case(low, written) == written else written) or written
        return _in_case(word, written)

    return pattern.sub(replaced, name)


def _in_case(word: str, example: str) -> str:
    """Return a word in the case of an example: in capitals, with one, or as it is."""
    if example.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if example[:1].isupper() else word


@dataclass(frozen=True)
class Names:
    """The old words and classes of a model that has new ones."""

    words: Mapping[str, str]
    """The new word of each old one, in lower case where that tells it."""
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
