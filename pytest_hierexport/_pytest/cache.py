"""Keeps results for later runs and finds those whose inputs are unchanged.

A result is a folder `QUESTION-START-DIGEST`, each part a SHA-256 or its first 16 digits:

    QUESTION  what the result answers: the export of a case, or a rule on it
    START     the session before the first model is built: options, plugins, versions, the files that it has read
    DIGEST    the record in the folder, which holds the digests of the other files

Entries are content-addressed: no session overwrites another's, and damage is detected before use and counts as a miss.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_hierexport._files.atomic import STAGED, staging
from pytest_hierexport._files.ownership import make_folder
from pytest_hierexport._files.paths import digest
from pytest_hierexport._pytest.inputs import Inputs
from pytest_hierexport._pytest.reads import Reads, unrecorded

__all__ = ["Cache", "CachedResult"]

_RECORD = "record.json"
_RESULT = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{64}")
_KEY = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
_PER_QUESTION = 4
"""The number of results that are kept of one question: enough for switching between branches."""
_ABANDONED = 24 * 3600
"""The age in seconds from which a staged result or a lock is taken for one of a killed session."""


@dataclass(frozen=True)
class CachedResult:
    """A result and what it depends on."""

    about: str
    value: Mapping[str, Any]
    files: Mapping[str, str]
    """The SHA-256 of each file, by its name."""
    inputs: Inputs
    name: str = ""
    """The name of the folder that it was read from."""

    def record(self) -> bytes:
        """Return the content of the record; the name of the result's folder ends with its SHA-256."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    def is_whole(self, folder: Path) -> bool:
        """Whether a folder holds the files unchanged."""
        return all((folder / name).is_file() and digest(folder / name) == known for name, known in self.files.items())

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
        return self.is_whole(target)


class Cache:
    """The results in a folder.

    Args:
        folder: The folder; it is made when the first result is kept.
        reads: The files that this process has read.
        facts: Returns what else identifies the session, as JSON can hold it.
        warn: Takes the reason why results are not kept.
        say: Takes a message for a user who waits.
    """

    def __init__(
        self,
        folder: Path,
        reads: Reads,
        facts: Callable[[], object] = dict,
        warn: Callable[[str], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.folder, self._reads = folder, reads
        self._facts, self._warn, self._say = facts, warn, say
        self._start = ""
        self._sure = True

    def begin(self) -> None:
        """Identify the session by its facts and by what it has read so far, for all results of this session."""
        inputs = self._reads.inputs()
        # No other session starts with a file that has changed since this one read it.
        common = os.urandom(16).hex() if inputs is None else asdict(inputs)
        self._start = _short_digest([self._facts(), common])

    @unrecorded()
    def find(self, question: str, about: str, into: Path | None = None) -> CachedResult | None:
        """Return a result that still holds, None where there is none; remove damaged ones.

        Args:
            question: What it answers.
            about: What it must have been kept about.
            into: A folder to make, with a copy of the files.
        """
        for path in self._results(self._name(question)):
            result = _read(path)
            if result is None:
                _remove(path)
            elif result.about == about and result.inputs.hold():
                if into is None or result.copy(path, into):
                    with suppress(OSError):
                        os.utime(path)
                    return result
                if not result.is_whole(path):
                    _remove(path)
        return None

    def keep(self, question: str, about: str, value: Mapping[str, Any], files: Sequence[Path] = ()) -> str:
        """Keep a result; return its name, empty where its inputs are not known or it cannot be written.

        Args:
            question: What it answers.
            about: What it depends on that is no file.
            value: The answer, as JSON can hold it.
            files: The files that belong to it.
        """
        inputs = self._reads.inputs() if self._sure else None
        if inputs is None:
            return ""
        record = CachedResult(about, value, {path.name: digest(path) for path in files}, inputs).record()
        path = self.folder / f"{self._name(question)}-{hashlib.sha256(record).hexdigest()}"
        try:
            self._write(path, record, files)
        except OSError as error:
            self._give_up(f"the cache {self.folder} cannot be written ({error.strerror or error})")
            return ""
        self._prune(question)
        return path.name

    @contextmanager
    def computing(self, files: Iterable[Path] = ()) -> Iterator[None]:
        """Watch the computation of a result, also from files that native code opens; one with programs is not kept."""
        before = self._reads.programs
        self._reads.expect(files)
        yield
        if self._reads.programs != before:
            self._give_up("a model or a rule started a program or connected to a machine, whose part cannot be seen")

    @contextmanager
    def alone(self, question: str, what: str) -> Iterator[None]:
        """Lock a question while it is answered; where another session holds the lock, say to do what, and wait."""
        from filelock import FileLock, Timeout

        name = self._name(question)
        lock, holder = FileLock(self.folder / f"{name}.lock"), self.folder / f"{name}.holder"
        try:
            make_folder(self.folder)
            lock.acquire(timeout=0)
        except Timeout:
            held = "which did not say who it is"
            with suppress(OSError, ValueError):
                held = holder.read_text(encoding="utf-8") or held
            self._say(f"waiting for another session, {held}, to {what}")
            lock.acquire()
        except (OSError, NotImplementedError):
            pass  # The folder cannot be written: sessions share nothing then.
        with suppress(OSError):
            holder.write_text(f"process {os.getpid()} in {Path.cwd()}", encoding="utf-8")
        try:
            yield
        finally:
            _remove(holder)
            lock.release()

    def _name(self, question: str) -> str:
        if not self._start:
            self.begin()
        return f"{_short_digest(question)}-{self._start}"

    def _results(self, name: str) -> list[Path]:
        """Return the results whose names begin so, most recently used first."""
        results = (path for path in self._listed() if path.name.startswith(f"{name}-") and _RESULT.fullmatch(path.name))
        return sorted(results, key=_used, reverse=True)

    def _listed(self) -> list[Path]:
        with suppress(OSError):
            return list(self.folder.iterdir())
        return []

    def _write(self, path: Path, record: bytes, files: Sequence[Path]) -> None:
        make_folder(self.folder)
        with staging(self.folder) as stage:
            made = stage.folder / path.name
            made.mkdir()
            for file in files:
                shutil.copyfile(file, made / file.name)
            (made / _RECORD).write_bytes(record)
            there = _read(path)
            if there is None or not there.is_whole(path):
                _remove(path)
                made.rename(path)

    def _prune(self, question: str) -> None:
        """Remove the least recently used results of a question, and what killed sessions left."""
        abandoned = time.time() - _ABANDONED
        of_sessions = (path for path in self._listed() if path.name.startswith(STAGED) or _KEY.fullmatch(path.stem))
        left = [path for path in of_sessions if 0 < _used(path) < abandoned]
        for path in [*self._results(_short_digest(question))[_PER_QUESTION:], *left]:
            _remove(path)

    def _give_up(self, reason: str) -> None:
        if self._sure:
            self._sure = False
            self._warn(reason)


def _read(path: Path) -> CachedResult | None:
    """Return the result in a folder, None where the record does not have the digest in the folder's name."""
    try:
        record = (path / _RECORD).read_bytes() if (path / _RECORD).is_file() else b""
    except OSError:
        return None
    if hashlib.sha256(record).hexdigest() != path.name.rpartition("-")[2]:
        return None
    fields: dict[str, Any] = json.loads(record)
    return CachedResult(**{**fields, "inputs": Inputs(**fields["inputs"]), "name": path.name})


def _remove(path: Path) -> None:
    """Remove a folder, a file or a link, as far as that can be done."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _used(path: Path) -> float:
    """Return when a result was last used, zero where it is gone."""
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0


def _short_digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
