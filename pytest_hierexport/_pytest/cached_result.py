"""Reads and verifies one result in the cache: a folder with a record that holds the digest of every other file."""

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

__all__ = ["RECORD", "CachedResult", "copied", "encoded", "is_whole", "read", "remove"]

RECORD = "record.json"


@dataclass(frozen=True)
class CachedResult:
    """A result and what it depends on."""

    name: str
    about: str
    value: Mapping[str, Any]
    files: Mapping[str, str]
    """The SHA-256 of each file, by its name."""
    inputs: Inputs


def encoded(result: CachedResult) -> bytes:
    """Return a result's record; the name of its folder ends with the record's SHA-256."""
    record = {"about": result.about, "value": result.value, "files": result.files, "inputs": asdict(result.inputs)}
    return json.dumps(record, sort_keys=True).encode()


def read(path: Path) -> CachedResult | None:
    """Return the result in a folder, None where the record does not have the digest in the folder's name."""
    try:
        record = (path / RECORD).read_bytes() if (path / RECORD).is_file() else b""
    except OSError:
        return None
    if hashlib.sha256(record).hexdigest() != path.name.rpartition("-")[2]:
        return None
    fields: dict[str, Any] = json.loads(record)
    return CachedResult(path.name, fields["about"], fields["value"], fields["files"], Inputs(**fields["inputs"]))


def is_whole(result: CachedResult, folder: Path) -> bool:
    """Whether a folder holds the result's files unchanged."""
    return all((folder / name).is_file() and digest(folder / name) == known for name, known in result.files.items())


def copied(result: CachedResult, source: Path, target: Path) -> bool:
    """Copy the files of a result into a new folder; return whether the copies are unchanged."""
    try:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in result.files:
            if not (source / name).is_file():
                return False
            shutil.copyfile(source / name, target / name)
    except OSError:
        return False
    return is_whole(result, target)


def remove(path: Path) -> None:
    """Remove a result, or a file or link with its name, as far as that can be done."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
