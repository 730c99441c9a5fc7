"""Results of earlier runs, for as long as nothing changed that they depend on.

A result is a folder `QUESTION-START-DIGEST`. The question is what it answers: the export of a case, or a rule on it.
The start is the session before the first model is built: its options, plugins and versions, and the files that it has
read. The digest is that of the record in the folder, which holds the digests of the other files. So a result never
changes, sessions cannot write over each other's, and damage of any kind shows before it is used: it counts as a miss.
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
from pytest_hierexport._pytest.kept import RECORD, Kept, copied, encoded, is_whole, read, remove
from pytest_hierexport._pytest.reads import Reads, unrecorded

__all__ = ["Cache"]

_FORMAT = 1
_RESULT = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{64}")
_STAGED = ".hierexport-staged-"
_KEY = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}")
_PER_QUESTION = 4
"""How many results of one question are kept: enough to go back and forth between branches."""
_ABANDONED = 24 * 3600
"""After how many seconds a staged result or a lock is one that a killed session left."""


class Cache:
    """The results in a folder.

    Args:
        folder: Where they lie; it is made when the first is kept.
        reads: What this process has read.
        facts: Gives what else decides about results, as JSON can hold it.
        warn: Takes the reason why results are not kept.
        say: Takes what a user who waits should know.
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
        """Fix what all results of this session have in common: what it is, and what it has read until now."""
        with unrecorded():
            inputs = self._reads.inputs()
            # No other session starts with a file that has changed since this one read it.
            common = os.urandom(16).hex() if inputs is None else asdict(inputs)
            self._start = _short_digest([_FORMAT, self._facts(), common])

    def find(self, question: str, about: str, into: Path | None = None) -> Kept | None:
        """Return a result that still holds, None where there is none; remove those that are damaged.

        Args:
            question: What it answers.
            about: What it must have been kept about.
            into: A folder to make, with a copy of the result's files.
        """
        with unrecorded():
            for path in self._results(self._name(question)):
                kept = read(path)
                if kept is None:
                    remove(path)
                elif kept.about == about and kept.inputs.hold():
                    if into is None or copied(kept, path, into):
                        _touch(path)
                        return kept
                    if not is_whole(kept, path):
                        remove(path)
        return None

    def keep(
        self,
        question: str,
        about: str,
        value: Mapping[str, Any],
        files: Sequence[Path] = (),
    ) -> str:
        """Keep a result; return its name, or the empty text where it is not sure to hold or cannot be written.

        Args:
            question: What it answers.
            about: What it depends on that is no file.
            value: What the answer is, as JSON can hold it.
            files: The files that belong to it.
        """
        inputs = self._reads.inputs() if self._sure else None
        if inputs is None:
            return ""
        with unrecorded():
            kept = Kept("", about, value, {path.name: digest(path) for path in files}, inputs)
            record = encoded(kept)
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
        """Watch a result being computed: where another program takes part, what it reads is not known.

        Args:
            files: What the result depends on though Python may not be what opens it.
        """
        before = self._reads.programs
        self._reads.expect(files)
        yield
        if self._reads.programs != before:
            self._give_up("a model or a rule started a program or connected to a machine, whose part cannot be seen")

    @contextmanager
    def alone(self, question: str, what: str) -> Iterator[None]:
        """Hold the right to answer a question; where another session has it, say so and wait.

        Args:
            question: The question.
            what: What is done to answer it, for the message.
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
                pass  # It cannot be written: each session then works for itself.
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
        """Return the results of that name or question, the one used last first."""
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
        """Remove the results of a question that were used longest ago, and what killed sessions left."""
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


def _touch(path: Path) -> None:
    with suppress(OSError):
        os.utime(path)


def _used(path: Path) -> float:
    """Return when a result was used last, zero for what is gone."""
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8")
    return ""


def _short_digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
