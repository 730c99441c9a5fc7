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
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_hierexport._files.ownership import make_folder
from pytest_hierexport._files.paths import digest
from pytest_hierexport._pytest.cached_result import RECORD, CachedResult, copied, encoded, is_whole, read, remove
from pytest_hierexport._pytest.reads import Reads, unrecorded

__all__ = ["Cache"]

_FORMAT = 1
_RESULT = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{64}")
_STAGED = ".hierexport-staged-"
_KEY = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
_PER_QUESTION = 4
"""The number of results that are kept of one question: enough for switching between branches."""
_ABANDONED = 24 * 3600
"""The age in seconds from which a staged result or a lock is taken for one of a killed session."""


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
        """Use the folder, which need not exist."""
        self.folder, self._reads = folder, reads
        self._facts, self._warn, self._say = facts, warn, say
        self._start = ""
        self._sure = True

    def begin(self) -> None:
        """Identify the session by its facts and by what it has read so far, for all results of this session."""
        with unrecorded():
            inputs = self._reads.inputs()
            # No other session starts with a file that has changed since this one read it.
            common = os.urandom(16).hex() if inputs is None else asdict(inputs)
            self._start = _short_digest([_FORMAT, self._facts(), common])

    def find(self, question: str, about: str, into: Path | None = None) -> CachedResult | None:
        """Return a result that still holds, None where there is none; remove damaged ones.

        Args:
            question: What it answers.
            about: What it must have been kept about.
            into: A folder to make, with a copy of the result's files.
        """
        with unrecorded():
            for path in self._results(self._name(question)):
                result = read(path)
                if result is None:
                    remove(path)
                elif result.about == about and result.inputs.hold() and _is_taken(result, path, into):
                    return result
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
        with unrecorded():
            record = encoded(CachedResult("", about, value, {path.name: digest(path) for path in files}, inputs))
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
        """Watch the computation of a result: what another program reads for it is not known.

        Args:
            files: Inputs that native code may open, which the audit hook does not see.
        """
        before = self._reads.programs
        self._reads.expect(files)
        yield
        if self._reads.programs != before:
            self._give_up("a model or a rule started a program or connected to a machine, whose part cannot be seen")

    @contextmanager
    def alone(self, question: str, what: str) -> Iterator[None]:
        """Lock a question while it is answered; where another session holds the lock, say so and wait.

        Args:
            question: The question.
            what: The work, for the message: `export bert`.
        """
        from filelock import FileLock, Timeout

        name = self._name(question)
        lock = FileLock(self.folder / f"{name}.lock")
        holder = self.folder / f"{name}.holder"
        with unrecorded():
            try:
                make_folder(self.folder)
                lock.acquire(timeout=0)
            except Timeout:
                self._say(f"waiting for another session, {_text(holder) or 'which did not say who it is'}, to {what}")
                lock.acquire()
            except (OSError, NotImplementedError):
                pass  # The folder cannot be written: sessions share nothing then.
            with suppress(OSError):
                holder.write_text(f"process {os.getpid()} in {Path.cwd()}", encoding="utf-8")
        try:
            yield
        finally:
            with unrecorded():
                remove(holder)
                lock.release()

    def _name(self, question: str) -> str:
        if not self._start:
            self.begin()
        return f"{_short_digest(question)}-{self._start}"

    def _results(self, name: str) -> list[Path]:
        """Return the results whose names begin so, most recently used first."""
        results = [path for path in self._listed() if path.name.startswith(f"{name}-") and _RESULT.fullmatch(path.name)]
        return sorted(results, key=_used, reverse=True)

    def _listed(self) -> list[Path]:
        with suppress(OSError):
            return list(self.folder.iterdir())
        return []

    def _write(self, path: Path, record: bytes, files: Sequence[Path]) -> None:
        make_folder(self.folder)
        staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=self.folder))
        try:
            for file in files:
                shutil.copyfile(file, staged / file.name)
            (staged / RECORD).write_bytes(record)
            there = read(path)
            if there is None or not is_whole(there, path):
                remove(path)
                staged.rename(path)
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _prune(self, question: str) -> None:
        """Remove the least recently used results of a question, and what killed sessions left."""
        for path in self._results(_short_digest(question))[_PER_QUESTION:]:
            remove(path)
        abandoned = time.time() - _ABANDONED
        for path in self._listed():
            of_a_session = path.name.startswith(_STAGED) or _KEY.fullmatch(path.stem)
            if of_a_session and 0 < _used(path) < abandoned:
                remove(path)

    def _give_up(self, reason: str) -> None:
        if self._sure:
            self._sure = False
            self._warn(reason)


def _is_taken(result: CachedResult, path: Path, into: Path | None) -> bool:
    """Copy a result where that is asked for, and mark it as used; remove it where its files are damaged."""
    if into is None or copied(result, path, into):
        with suppress(OSError):
            os.utime(path)
        return True
    if not is_whole(result, path):
        remove(path)
    return False


def _used(path: Path) -> float:
    """Return when a result was last used, zero where it is gone."""
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8")
    return ""


def _short_digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
