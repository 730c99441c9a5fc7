"""Fingerprints the files, folders and variables that a result depends on, and compares them with the present ones.

In go their paths and names, by :meth:`Inputs.of`; :meth:`Inputs.hold` tells whether all are as they were.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pytest_hierexport._cache.environment import variable_digest
from pytest_hierexport._cache.existence import kind_of
from pytest_hierexport._cache.searches import modules_of
from pytest_hierexport._files.listings import names_in
from pytest_hierexport._files.paths import digest, text_digest

Signature = tuple[int, ...]
"""Identity, size and times of a file, which change with its content: a thousandth of the cost of a digest."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a result, by path or name."""

    files: Mapping[str, str]
    """The SHA-256 of each file; empty for one that was looked for and absent."""
    listed: Mapping[str, str]
    """The digest of the names in each folder that was listed."""
    searched: Mapping[str, Mapping[str, str]]
    """The files of each module that was looked for in a folder, by folder and module; empty where there are none."""
    existing: Mapping[str, str]
    """What each path was whose existence was asked for: a `file`, a `folder`, or empty for nothing."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The digest of each environment variable, empty for one that is not set."""

    @classmethod
    def of(
        cls,
        files: Iterable[Path | str],
        listed: Iterable[Path | str],
        searched: Iterable[tuple[str, str]],
        *,
        existing: Mapping[str, str] = {},
        variables: Iterable[str] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> Inputs:
        """Fingerprint the files and folders as they are now, and variables of an environment."""
        return cls(
            {path: _content(path) for path in map(str, files)},
            {path: _names(path) for path in map(str, listed)},
            modules_of(searched),
            existing,
            {name: variable_digest(name, environment) for name in variables},
        )

    def hold(self, environment: Mapping[str, str] = os.environ) -> bool:
        """Whether every file and folder is unchanged, and every variable is in this environment what it was."""
        existing = {path: kind_of(path) for path in self.existing}
        searched = ((folder, module) for folder, modules in self.searched.items() for module in modules)
        variables = self.variables
        return self == Inputs.of(
            self.files, self.listed, searched, existing=existing, variables=variables, environment=environment
        )


def signature(path: str | Path) -> Signature | None:
    """Return the signature of a regular file, None for anything else."""
    try:
        status = os.stat(path)  # noqa: PTH116  # called for every file that Python opens
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content(path: str) -> str:
    known = signature(path)
    return "" if known is None else _digest(path, known)


@cache
def _digest(path: str, _: Signature) -> str:
    return digest(Path(path))


def _names(folder: str) -> str:
    """Return the digest of the names in a folder, empty where there are none."""
    ordered = "\0".join(sorted(name for name in names_in(folder) if name != "__pycache__"))
    return text_digest(ordered) if ordered else ""
