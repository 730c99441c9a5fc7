"""Keeps results for later runs and finds those whose inputs are unchanged.

A result is a folder `QUESTION-START-DIGEST`, each part a SHA-256 or its first 16 digits:

    QUESTION  what the result answers: the export of a case, or a rule on it
    START     the session before the first model is built: options, plugins, versions, the files that it has read
    DIGEST    the record in the folder, which holds the digests of the other files

Entries are content-addressed: no session overwrites another's, and damage is detected before use and counts as a miss.

A result goes in by :meth:`Cache.keep` and comes out by :meth:`Cache.find`. What is read in :meth:`Cache.computing`
counts for its model.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._cache.dependencies import COMMON
from pytest_hierexport._cache.entries import RECORD, CachedResult, entries, read_entry, remove
from pytest_hierexport._cache.reads import Reads
from pytest_hierexport._cache.upkeep import evict, tidy
from pytest_hierexport._files.atomic import staging
from pytest_hierexport._files.ownership import make_folder
from pytest_hierexport._files.paths import digest, text_digest
from pytest_hierexport._files.unrecorded import unrecorded

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from pytest_hierexport._cache.remote import Remote

SIZE = 5_000_000_000
"""The number of bytes that a cache may have where nothing else is asked for."""


class Cache:
    """The results in a folder.

    Args:
        folder: The folder; it is made when the first result is kept.
        reads: The files that this process has read.
        facts: Returns what else identifies the session, as JSON can hold it.
        warn: Takes the reason why no results are kept.
        unkept: Takes the name of a model whose results are not kept, because a program has a part in them.
        say: Takes a message for a user who waits.
        bound: The number of bytes that the results may have.
        remote: A cache that machines share; what is taken from there comes into the folder.
    """

    def __init__(
        self,
        folder: Path,
        reads: Reads,
        *,
        facts: Callable[[], object] = dict,
        warn: Callable[[str], None] = lambda _: None,
        unkept: Callable[[str], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
        bound: int = SIZE,
        remote: Remote | None = None,
    ) -> None:
        self.folder, self._reads, self._bound, self._remote = folder, reads, bound, remote
        self._facts, self._warn, self._unkept, self._say = facts, warn, unkept, say
        self._start = ""
        self._writable = True
        self._told_unkept: set[str] = set()
        """The models of which the user was told that their results are not kept."""
        self._size = bound
        """The number of bytes of all results, as far as this session knows: to measure them takes time."""

    def share(self, objects: Iterable[object]) -> None:
        """Take objects that keep things in memory for all models, such as the functions of rules."""
        self._reads.logs.shared += objects

    def begin(self) -> None:
        """Identify the session by its facts and by what it has read so far, for all results of this session."""
        inputs = self._reads.inputs()
        # No other session starts with a file that has changed since this one read it. A worker looks for other modules
        # and files than the one process of a run without workers; each result has those of the session that made it.
        common = os.urandom(16).hex() if inputs is None else asdict(replace(inputs, searched={}, existing={}))
        self._start = _short_digest([self._facts(), common])

    @unrecorded()
    def find(self, question: str, about: str, into: Path | None = None, *, shared: bool = True) -> CachedResult | None:
        """Return a result that still holds, None where there is none; remove damaged ones.

        Args:
            question: What it answers.
            about: What it must have been kept about.
            into: A folder to make, with a copy of the files.
            shared: Whether the cache that machines share is asked, too.
        """
        name = self._name(question)
        found = self._found(name, about, into)
        if found is None and shared and self._pull(name, about):
            found = self._found(name, about, into)
        return found

    def _found(self, name: str, about: str, into: Path | None) -> CachedResult | None:
        for path in entries(self.folder, f"{name}-"):
            result = read_entry(path)
            if result is None:
                remove(path)
            elif self._holds(result, about):
                if into is None or result.copy(path, into):
                    with suppress(OSError):
                        os.utime(path)
                    return result
                if result.damaged(path):
                    remove(path)
        return None

    def _holds(self, result: CachedResult, about: str) -> bool:
        return result.about == about and result.inputs.hold(self._reads.environment)

    def _pull(self, name: str, about: str) -> bool:
        """Take a result that holds from the remote cache into the folder; return whether there is one."""
        if self._remote is None:
            return False
        for result in self._remote.results(_remote_key(name, about)):
            if self._holds(result, about):
                try:
                    with self._staged(name, result.record()) as made:
                        fetched = self._remote.fetch(result.files, made)
                except OSError as error:
                    self._give_up(error)
                    return False
                if fetched:
                    self._make_room(self._bound)
                    return True
        return False

    @unrecorded()
    def keep(
        self,
        question: str,
        about: str,
        value: Mapping[str, Any],
        files: Sequence[Path] = (),
        model: str = "",
        *,
        reads_of: str = COMMON,
    ) -> str:
        """Keep a result; return its name, empty where its inputs are not known or it cannot be written.

        Args:
            question: What it answers.
            about: What it depends on that is no file.
            value: The answer, as JSON can hold it.
            files: The files that belong to it.
            model: The name of the model that it is about.
            reads_of: The model whose reads it depends on, as :meth:`computing` was told.
        """
        usable = self._writable and not self._reads.logs.started_program(reads_of)
        inputs = self._reads.inputs(reads_of) if usable else None
        if inputs is None:
            return ""
        name, digests = self._name(question), {path.name: digest(path) for path in files}
        record = CachedResult(about, value, digests, inputs, model).record()
        try:
            size = len(record) + sum(path.stat().st_size for path in files)
            if size > self._bound:
                return ""
            with self._staged(name, record) as made:
                for file in files:
                    shutil.copyfile(file, made / file.name)
        except OSError as error:
            self._give_up(error)
            return ""
        tidy(self.folder, name)
        self._make_room(size)
        if self._remote is not None and self._remote.pushes:
            self._remote.push(_remote_key(name, about), record, {digests[path.name]: path for path in files})
        return made.name

    @contextmanager
    def computing(self, model: str, files: Iterable[Path] = ()) -> Iterator[None]:
        """Watch the computation of a result; if it starts a program, no result of its model is kept.

        `files` are those that native code opens, of which no audit event tells.
        """
        with self._reads.logs.of(model):
            self._reads.expect(files)
            yield
        if self._reads.logs.started_program(model) and model not in self._told_unkept:
            self._told_unkept.add(model)
            self._unkept(model)

    @contextmanager
    def alone(self, question: str, what: str) -> Iterator[None]:
        """Lock a question while it is answered; if another session holds the lock, say that it does `what` and wait."""
        from filelock import FileLock

        name = self._name(question)
        lock, holder = FileLock(self.folder / f"{name}.lock"), self.folder / f"{name}.holder"
        self._lock(lock, holder, what)
        try:
            yield
        finally:
            remove(holder)
            lock.release()

    @unrecorded()
    def _lock(self, lock: BaseFileLock, holder: Path, what: str) -> None:
        from filelock import Timeout

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

    def _name(self, question: str) -> str:
        if not self._start:
            self.begin()
        return f"{_short_digest(question)}-{self._start}"

    @contextmanager
    def _staged(self, name: str, record: bytes) -> Iterator[Path]:
        """Give a folder for the files of a result, which takes its place if they have their digests."""
        make_folder(self.folder)
        with staging(self.folder) as stage:
            made = stage.folder / f"{name}-{hashlib.sha256(record).hexdigest()}"
            made.mkdir()
            (made / RECORD).write_bytes(record)
            yield made
            path = self.folder / made.name
            if not _is_whole(path) and _is_whole(made):
                remove(path)
                try:
                    made.rename(path)
                except OSError:
                    # Another session may have been faster.
                    if not _is_whole(path):
                        raise

    def _make_room(self, added: int) -> None:
        self._size += added
        if self._size > self._bound:
            self._size = evict(self.folder, self._bound)

    def _give_up(self, error: OSError) -> None:
        if self._writable:
            self._writable = False
            self._warn(f"the cache {self.folder} cannot be written ({error.strerror or error})")


def _is_whole(path: Path) -> bool:
    result = read_entry(path)
    return result is not None and not result.damaged(path)


def _remote_key(name: str, about: str) -> str:
    return text_digest(f"{name} {about}")


def _short_digest(value: object) -> str:
    return text_digest(json.dumps(value, sort_keys=True))[:16]
