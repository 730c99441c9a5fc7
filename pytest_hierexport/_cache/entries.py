"""Reads and removes the entries in a cache's folder.

Each is a folder `QUESTION-START-DIGEST` with `record.json`, whose SHA-256 is DIGEST, and the files that this names.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_hierexport._cache.inputs import Inputs
from pytest_hierexport._files.listings import names_in
from pytest_hierexport._files.paths import digest, is_plain_name

RECORD = "record.json"
PER_QUESTION = 4
"""The number of results that are kept of one question and one start: enough for switching between branches."""
_RESULT = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{64}")


@dataclass(frozen=True)
class CachedResult:
    """A result and what it depends on."""

    about: str
    """What it depends on that is no file."""
    value: Mapping[str, Any]
    files: Mapping[str, str]
    """The SHA-256 of each file, by its name."""
    inputs: Inputs
    model: str = ""
    """The model that it is about, for those who look into a cache."""
    name: str = ""
    """The name of the folder that it was read from."""

    @classmethod
    def of(cls, record: bytes, name: str = "") -> CachedResult | None:
        """Return the result that a record states, None for a text of another form: it may come from another machine."""
        try:
            stated: dict[str, Any] = json.loads(record)
            result = cls(**{**stated, "inputs": Inputs(**stated["inputs"]), "name": name})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        inputs = result.inputs
        if (
            not all(map(_maps_texts, (result.files, inputs.files, inputs.listed, inputs.existing, inputs.variables)))
            or not isinstance(inputs.searched, dict)
            or not all(map(_maps_texts, inputs.searched.values()))
            or not isinstance(result.value, dict)
            or not isinstance(result.model, str)
        ):
            return None
        return result if all(is_plain_name(file) and file != RECORD for file in result.files) else None

    def record(self) -> bytes:
        """Return the content of the record; the name of the result's folder ends with its SHA-256."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    def damaged(self, folder: Path) -> list[str]:
        """Return the names of the files that are not in a folder as they were kept."""
        files = self.files.items()
        return [name for name, known in files if not ((folder / name).is_file() and digest(folder / name) == known)]

    def copy(self, source: Path, target: Path) -> bool:
        """Copy the files into a new folder; return whether the copies are unchanged."""
        try:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            for name in self.files:
                if not (source / name).is_file():
                    return False
                shutil.copyfile(source / name, target / name)
        except OSError:
            return False
        return not self.damaged(target)


def _maps_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def entries(folder: Path, beginning: str = "") -> list[Path]:
    """Return the results in a cache's folder whose names begin so, most recently used first."""
    found = (name for name in names_in(folder) if name.startswith(beginning) and _RESULT.fullmatch(name))
    return sorted(map(folder.joinpath, found), key=used, reverse=True)


def read_entry(path: Path) -> CachedResult | None:
    """Return the result in a folder, None where the record does not have the digest in the folder's name."""
    try:
        record = (path / RECORD).read_bytes() if (path / RECORD).is_file() else b""
    except OSError:
        return None
    if hashlib.sha256(record).hexdigest() != path.name.rpartition("-")[2]:
        return None
    return CachedResult.of(record, path.name)


def remove(path: Path) -> None:
    """Remove a folder, a file or a link, as far as that can be done."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def used(path: Path) -> float:
    """Return when a result was last used, zero where it is gone."""
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0
