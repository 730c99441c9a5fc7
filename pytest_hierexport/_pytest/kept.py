"""A result in the cache: a folder with a record that names the digest of every other file in it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_hierexport._files.paths import digest
from pytest_hierexport._pytest.inputs import Inputs

__all__ = ["RECORD", "Kept", "copied", "encoded", "is_whole", "read", "remove"]

RECORD = "record.json"


@dataclass(frozen=True)
class Kept:
    """A result that lies in the cache."""

    name: str
    about: str
    value: Mapping[str, Any]
    files: Mapping[str, str]
    """The SHA-256 of each file, by its name."""
    inputs: Inputs


def encoded(kept: Kept) -> bytes:
    """Return a result's record, whose SHA-256 ends the name of its folder."""
    record = {"about": kept.about, "value": kept.value, "files": kept.files, "inputs": asdict(kept.inputs)}
    return json.dumps(record, sort_keys=True).encode()


def read(path: Path) -> Kept | None:
    """Return the result in a folder, None where its record is not the one that was kept under that name."""
    try:
        record = (path / RECORD).read_bytes() if (path / RECORD).is_file() else b""
    except OSError:
        return None
    if hashlib.sha256(record).hexdigest() != path.name.rpartition("-")[2]:
        return None
    fields: dict[str, Any] = json.loads(record)
    return Kept(path.name, fields["about"], fields["value"], fields["files"], Inputs(**fields["inputs"]))


def is_whole(kept: Kept, folder: Path) -> bool:
    """Whether a folder holds a result's files as they were kept."""
    return all((folder / name).is_file() and digest(folder / name) == known for name, known in kept.files.items())


def copied(kept: Kept, source: Path, target: Path) -> bool:
    """Copy the files of a result into a folder of their own; return whether the copies are what was kept."""
    try:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in kept.files:
            if not (source / name).is_file():
                return False
            shutil.copyfile(source / name, target / name)
    except OSError:
        return False
    return is_whole(kept, target)


def remove(path: Path) -> None:
    """Remove a result, or whatever stands in its place, as far as that can be done."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
