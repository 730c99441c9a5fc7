"""Turns names of models into file names, and into the paths of their snapshots."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from pytest_hierexport._files.paths import text_digest
from pytest_hierexport._text import escape, percent_encoded

SNAPSHOTS = "__hierexport__"
"""The name of the folders of snapshots."""

# Names of devices on Windows, with any ending.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[0-9¹²³]) *(?:\.|$)", re.IGNORECASE)
# With an ending, or a temporary file's prefix and random part, a name stays below the 143 bytes that the strictest
# file systems take (eCryptfs; most take 255).
_LONGEST = 100
_LONGEST_STEM = 60


def file_name(name: str) -> str:
    """Return a file name, without an ending, that differs for each model's name on every system.

    A long name, and one that equals another where case is ignored or characters are composed, ends with `#` and a
    digest; no other name holds a `#` here. The file name does not depend on the other models of a run.
    """
    portable = _without_edges(escape(name))
    if len(portable.encode()) <= _LONGEST and name == name.casefold() == unicodedata.normalize("NFKC", name):
        return portable
    stem = portable.encode()[:_LONGEST_STEM].decode("utf-8", "ignore")
    digest = text_digest(name)[:16]
    return f"{re.sub('%[0-9A-F]?$', '', stem)}#{digest}"


def snapshot_file(anchor: Path, name: str) -> Path:
    """Return the snapshot of the model of that name with that anchor."""
    return snapshot_folder(anchor) / f"{file_name(name)}.txt"


def snapshot_folder(anchor: Path) -> Path:
    """Return the folder of the snapshots of an anchor's models."""
    return (anchor if anchor.is_dir() else anchor.parent) / SNAPSHOTS


def _without_edges(escaped: str) -> str:
    """Encode a first character that hides a file or begins a device's name, and a last one that Windows removes."""
    first, rest = escaped[:1], escaped[1:]
    if first in {".", " "} or _DEVICE.match(escaped):
        first = percent_encoded(first)
    if rest.endswith((".", " ")):
        rest = rest[:-1] + percent_encoded(rest[-1])
    return first + rest
