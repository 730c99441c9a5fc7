"""Looks after a cache's folder: what it holds, whether that is whole, what makes room.

Its contents are:

    QUESTION-START-DIGEST/      a result
    QUESTION-START.lock         held by the session that computes the result; `.holder` tells which
    .hierexport-staged-…        a result that is being written
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from pytest_hierexport._cache.entries import PER_QUESTION, RECORD, entries, read_entry, remove, used
from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.atomic import STAGED, locked
from pytest_hierexport._files.listings import names_in
from pytest_hierexport._files.ownership import is_bare
from pytest_hierexport._files.unrecorded import unrecorded

_KEY = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
_ABANDONED = 24 * 3600
"""The age in seconds from which a staged result or a lock is taken for one of a killed session."""
_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)
_UNITS = ("", "K", "M", "G", "T")


def is_cache(folder: Path) -> bool:
    """Whether a folder holds anything that a cache wrote, or nothing at all."""
    return is_bare(folder) or bool(entries(folder)) or any(_of_sessions(folder))


@unrecorded()
def is_cache_alone(folder: Path) -> bool:
    """Whether a folder holds nothing but what a cache wrote: results may depend on anything else."""
    ours = {path.name for path in (*entries(folder), *_of_sessions(folder))}
    return ours.union([".gitignore"]).issuperset(names_in(folder))


def described(folder: Path) -> Iterator[str]:
    """Yield lines that tell what a cache holds, and of which models; a damaged result has no model."""
    sizes = {entry: _size(entry) for entry in entries(folder)}
    yield f"results: {len(sizes)}, {shown_size(sum(sizes.values()))}"
    if sizes:
        oldest = datetime.fromtimestamp(min(map(used, sizes)), tz=timezone.utc).astimezone()
        yield f"least recently used: {oldest.isoformat(sep=' ', timespec='minutes')}"
    models: dict[str, list[int]] = {}
    for entry, size in sizes.items():
        if (result := read_entry(entry)) is not None:
            models.setdefault(result.model, []).append(size)
    for model, of_model in sorted(models.items()):
        yield f"  {model}: {len(of_model)}, {shown_size(sum(of_model))}"


def damages(folder: Path) -> Iterator[str]:
    """Yield the name of each file of a result that is not as it was kept; a session may remove a result meanwhile."""
    for entry in entries(folder):
        result = read_entry(entry)
        for name in [RECORD] if result is None else result.damaged(entry):
            if os.path.lexists(entry):
                yield f"{entry.name}/{name}"


def clear(folder: Path) -> int:
    """Remove what a cache wrote, and the folder if nothing else is left; return the number of results."""
    removed = entries(folder)
    for path in [*removed, *(path for path in _of_sessions(folder) if not _is_held(path))]:
        remove(path)
    with suppress(OSError):
        if is_bare(folder):
            (folder / ".gitignore").unlink(missing_ok=True)
            folder.rmdir()
    return sum(not os.path.lexists(path) for path in removed)


def tidy(folder: Path, name: str) -> None:
    """Remove a question's results but the `PER_QUESTION` that were used last, and what killed sessions left."""
    abandoned = time.time() - _ABANDONED
    left = [path for path in _of_sessions(folder) if 0 < used(path) < abandoned]
    for path in [*entries(folder, f"{name}-")[PER_QUESTION:], *left]:
        remove(path)


def evict(folder: Path, bound: int) -> int:
    """Remove the least recently used results until the others have so many bytes at most; return their size."""
    total = kept = 0
    for entry in entries(folder):
        size = _size(entry)
        total += size
        if total > bound:
            remove(entry)
        else:
            kept = total
    return kept


def parse_size(text: str) -> int:
    """Return the number of bytes in a text such as `500MB` or `2GiB`.

    Raises:
        UsageError: It is no size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise UsageError("a size", found=repr(text), do="write 500MB or 2GB, for example")
    number, unit, is_binary = found.groups()
    return int(float(number) * (1024 if is_binary else 1000) ** _UNITS.index(unit.upper()))


def shown_size(size: float) -> str:
    """Return a number of bytes as `3.2 MB`."""
    power = 0
    while size >= 999.5 and power < len(_UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {_UNITS[power]}B"


def _of_sessions(folder: Path) -> Iterator[Path]:
    """Yield the locks and the staged results."""
    return (path for path in map(folder.joinpath, names_in(folder)) if path.name.startswith(STAGED) or _is_lock(path))


def _is_held(path: Path) -> bool:
    """Whether a session holds a lock, or the lock of a holder's name, or writes a staged result."""
    from filelock import FileLock, Timeout

    if path.name.startswith(STAGED):
        with locked(path, wait=False) as is_free:
            return not is_free
    lock = path.with_suffix(".lock")
    if not _is_lock(path) or not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except (Timeout, OSError, NotImplementedError):
        return True


def _is_lock(path: Path) -> bool:
    return path.suffix in {".lock", ".holder"} and _KEY.fullmatch(path.stem) is not None


def _size(entry: Path) -> int:
    """Return the number of bytes in a result's files; links are not followed."""
    return 0 if entry.is_symlink() else sum(map(_bytes, map(entry.joinpath, names_in(entry))))


def _bytes(path: Path) -> int:
    with suppress(OSError):
        return os.lstat(path).st_size
    return 0
