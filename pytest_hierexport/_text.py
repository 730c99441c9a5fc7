"""Shows text to people, its control characters escaped and its parts set out; escapes names for the ids of tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count

# The C0 and C1 controls; line separators and direction marks; invisible characters except the joiners that scripts
# need; lone surrogates, which UTF-8 cannot encode. Ranges, because `str.isprintable` changes with Python's Unicode
# tables.
CONTROLS = (
    "\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f"
)
"""The characters that a terminal obeys or hides, as a set in a regular expression."""
_CONTROL = re.compile(f"[{CONTROLS}]")
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""A control sequence of a terminal (ECMA-48), such as one that sets a colour."""
PLAIN = re.compile(r"(?:\(?[^\W_]+(?:[-_'][^\W_]+)*[),;:.]*(?: |$))+")
"""Words, each with the punctuation of prose after it: none of it is syntax in Markdown or on GitHub."""
_KEPT = frozenset(" _-+,=@~.")
"""Beside letters and digits: harmless in ids, in file names and within a shell's quotes."""


def one_line(text: str) -> str:
    r"""Return text that a terminal shows on one line, its control characters escaped: `\x1b`, `\n`."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def printable(text: str) -> str:
    """Return text of several lines, each as :func:`one_line` returns it."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def without_colours(text: str) -> str:
    """Return text without the control sequences by which programs colour what they print."""
    return _SEQUENCE.sub("", text)


def first_names(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(number: int, thing: str) -> str:
    """Return a number of things: `1 node`, `1,234 nodes`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def numbered(name: str, mark: str, first: int = 2) -> Iterator[str]:
    """Yield a name, then the name with `first` and the numbers after it behind a mark."""
    yield name
    yield from (f"{name}{mark}{i}" for i in count(first))


def aligned(parts: Sequence[tuple[str, str]]) -> list[str]:
    """Return labelled texts, the lines of each below one another."""
    lines = ((label, i, line) for label, text in parts for i, line in enumerate(text.splitlines() or [""]))
    return [f"  {'' if i else label:<9} {line}".rstrip() for label, i, line in lines]


def inline_code(text: str) -> str:
    """Return Markdown that shows text literally: as code, unless it is plain words.

    Code holds no links, mentions, images or tags; a backslash would not stop an address from becoming a link.
    """
    shown = one_line(text)
    if PLAIN.fullmatch(shown):
        return shown
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    padding = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) else ""
    return f"{ticks}{padding}{shown}{padding}{ticks}"


def escape(name: str) -> str:
    """Percent-encode the characters that separate parts of a test id or path, or that no file name may hold."""
    escaped = "".join(c if c.isalnum() or c in _KEPT else percent_encoded(c) for c in name)
    return escaped if escaped.strip(". ") else percent_encoded(name)


def percent_encoded(text: str) -> str:
    """Percent-encode all characters of a text; it may hold lone surrogates."""
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))
