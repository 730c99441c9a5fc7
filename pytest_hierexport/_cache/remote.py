"""Takes results from a cache that machines share by a URL, and adds results to it.

    ac/KEY        JSON: {"results": [SHA-256 of a record, …]}, the latest first
    cas/SHA-256   a record, or a file that a record names

This is the layout of Bazel's remote cache protocol for HTTP. What comes from there is compared with its digest, then
parsed as JSON or copied, and never run.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pytest_hierexport._cache.entries import PER_QUESTION, CachedResult
from pytest_hierexport._cache.places import Transfer, place_at
from pytest_hierexport._errors import in_words
from pytest_hierexport._files.unrecorded import unrecorded

_PATIENCE = 10.0
"""The seconds that a transfer may take, and more for what it moves."""
_SLOWEST = 1 << 20
"""The bytes that it has to move in each further second."""
_LARGEST_RECORD = 1 << 26
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Remote:
    """A cache that machines share.

    Args:
        url: Its place.
        pushes: Whether results are added to it.
        largest: The number of bytes of the largest file that is taken from it.
        warn: Takes the reason why the cache was not used, or not always.

    Raises:
        UsageError: No installed package serves such a URL.
    """

    def __init__(self, url: str, *, pushes: bool, largest: int, warn: Callable[[str], None]) -> None:
        self.pushes, self._largest, self._warn = pushes, largest, warn
        self._place = place_at(url)
        self._usable = True

    def results(self, key: str) -> Iterator[CachedResult]:
        """Yield the results of a key, the latest first; none where the cache cannot be reached."""
        for digest in self._digests(key):
            record = io.BytesIO()
            if self._get(f"cas/{digest}", record, digest, _LARGEST_RECORD):
                result = CachedResult.of(record.getvalue())
                if result is not None:
                    yield result

    def fetch(self, files: Mapping[str, str], folder: Path) -> bool:
        """Copy files into a folder, each by its SHA-256; return whether all are there."""
        for name, digest in files.items():
            with (folder / name).open("xb") as file:
                if not self._get(f"cas/{digest}", file, digest, self._largest):
                    return False
        return True

    def push(self, key: str, record: bytes, files: Mapping[str, Path]) -> None:
        """Add a result: the files by their SHA-256, the record, and last the list that names the record."""
        digest = hashlib.sha256(record).hexdigest()
        known = [each for each in self._digests(key) if each != digest]
        listed = json.dumps({"results": [digest, *known][:PER_QUESTION]}).encode()
        for of_file, path in files.items():
            with path.open("rb") as file:
                self._put(f"cas/{of_file}", file, path.stat().st_size)
        self._put(f"cas/{digest}", io.BytesIO(record), len(record))
        self._put(f"ac/{key}", io.BytesIO(listed), len(listed))

    def _digests(self, key: str) -> list[str]:
        content = io.BytesIO()
        self._get(f"ac/{key}", content, "", _LARGEST_RECORD)
        try:
            listed = json.loads(content.getvalue() or b"{}")["results"]
            return [digest for digest in listed if _SHA256.fullmatch(digest)][:PER_QUESTION]
        except (ValueError, TypeError, KeyError, RecursionError):
            return []

    def _get(self, name: str, into: BinaryIO, digest: str, largest: int) -> bool:
        """Copy a content; return whether it is there and has the given digest, if that is not empty."""
        transfer = Transfer(largest)
        if not self._in_time(lambda: self._place.get(name, into, transfer), transfer):
            return False
        if digest and transfer.digest != digest:
            self._warn("it sent other content than was asked for")
            return False
        return True

    def _put(self, name: str, content: BinaryIO, size: int) -> None:
        transfer = Transfer(size)
        transfer.moved = size
        if not self._in_time(lambda: self._place.put(name, content, size), transfer) and self._usable:
            self._fail("it takes no results (404, not found)")

    def _in_time(self, action: Callable[[], None], transfer: Transfer) -> bool:
        """Carry out a transfer; return whether it ended well. One that fails or takes too long is the session's last.

        It runs in a thread of its own: a connection's own limits let a server send a byte now and then for ever.
        """
        failures: list[Exception] = []

        @unrecorded()
        def run() -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001  # whatever a file system raises, the run goes on without it
                failures.append(error)

        if not self._usable:
            return False
        thread, started = threading.Thread(target=run, daemon=True), time.monotonic()
        thread.start()
        while thread.is_alive():
            left = started + _PATIENCE + transfer.moved / _SLOWEST - time.monotonic()
            if left <= 0:
                transfer.abandoned = True
                return self._fail("it is too slow")
            thread.join(left)
        if not failures or isinstance(failures[0], FileNotFoundError):
            return not failures
        return self._fail(in_words(failures[0]))

    def _fail(self, reason: str) -> bool:
        self._usable = False
        self._warn(reason)
        return False
