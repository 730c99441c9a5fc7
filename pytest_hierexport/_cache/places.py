"""Moves contents from and to a URL: a server of Bazel's remote cache protocol for HTTP, or what fsspec opens."""

from __future__ import annotations

import functools
import hashlib
import shutil
from base64 import b64encode
from collections.abc import Callable
from typing import Any, BinaryIO
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pytest_hierexport._errors import UsageError

CHUNK = 1 << 18
"""The bytes that are moved at once."""
_SILENCE = 10.0
"""The seconds that a connection may be silent."""


class Transfer:
    """The copy of one content, which counts and digests what it moves.

    Args:
        largest: The number of bytes beyond which it fails.
    """

    def __init__(self, largest: int) -> None:
        self.moved, self.abandoned = 0, False
        self._largest, self._digest = largest, hashlib.sha256()

    def copy(self, source: BinaryIO, target: BinaryIO) -> None:
        """Copy a file into another.

        Raises:
            OSError: It is too large, or it was abandoned.
        """
        while chunk := source.read(CHUNK):
            self.moved += len(chunk)
            if self.abandoned:
                raise OSError("it was abandoned")
            if self.moved > self._largest:
                raise OSError(f"it sent more than {self._largest} bytes")
            self._digest.update(chunk)
            target.write(chunk)

    @property
    def digest(self) -> str:
        """The SHA-256 of what was moved."""
        return self._digest.hexdigest()


def place_at(url: str) -> _Server | _FileSystem:
    """Return the place at a URL, without any connection to it: it gets and puts contents by name.

    To get one that is not there raises a FileNotFoundError.

    Raises:
        UsageError: It is no URL, or no installed package serves such a one.
    """
    try:
        if urlsplit(url).scheme in {"http", "https"}:
            return _Server(url)
        import fsspec

        fsspec.get_filesystem_class(url.partition("://")[0].partition("::")[0])
    except (ValueError, ImportError) as error:
        found, do = f"{without_login(url)} ({error})", "correct the URL, or install what serves it"
        raise UsageError("a folder or a URL for the cache", found=found, do=do) from None
    return _FileSystem(functools.cache(lambda: fsspec.core.url_to_fs(url)))


def without_login(url: str) -> str:
    """Return a URL without user and password."""
    before, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{before}{separator}{host.rpartition('@')[2]}{slash}{path}"


class _Server:
    """A server; the user and password in its URL are sent as such."""

    def __init__(self, url: str) -> None:
        user, is_named, _ = urlsplit(url).netloc.rpartition("@")
        self._url = without_login(url).rstrip("/")
        self._headers = {"Content-Type": "application/octet-stream"}
        if is_named:
            self._headers["Authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"

    def get(self, name: str, into: BinaryIO, transfer: Transfer) -> None:
        with self._answer(name) as answer:
            transfer.copy(answer, into)

    def put(self, name: str, content: BinaryIO, size: int) -> None:
        with self._answer(name, data=content, headers={"Content-Length": str(size)}, method="PUT"):
            pass

    def _answer(self, name: str, **request: Any) -> Any:
        headers = {**self._headers, **request.pop("headers", {})}
        asked = Request(f"{self._url}/{name}", headers=headers, **request)  # noqa: S310  # http(s) alone comes here
        try:
            return build_opener(_Redirection).open(asked, timeout=_SILENCE)
        except HTTPError as error:
            error.close()
            if error.code == 404:
                raise FileNotFoundError(name) from None
            raise


class _Redirection(HTTPRedirectHandler):
    """Follows redirections; a login is for the server of the URL alone, and encrypted where the URL says so."""

    def redirect_request(self, req: Request, *answer: Any) -> Request | None:
        followed = super().redirect_request(req, *answer)
        if followed is not None and (followed.host != req.host or (req.type, followed.type) == ("https", "http")):
            followed.remove_header("Authorization")
        return followed


class _FileSystem:
    """What fsspec opens; it may connect as it is opened, so that comes with the first transfer."""

    def __init__(self, opened: Callable[[], tuple[Any, str]]) -> None:
        self._opened = opened

    def get(self, name: str, into: BinaryIO, transfer: Transfer) -> None:
        system, path = self._located(name)
        with system.open(path, "rb") as file:
            transfer.copy(file, into)

    def put(self, name: str, content: BinaryIO, size: int) -> None:  # noqa: ARG002  # HTTP alone states it
        system, path = self._located(name)
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        with system.open(path, "wb") as file:
            shutil.copyfileobj(content, file, CHUNK)

    def _located(self, name: str) -> tuple[Any, str]:
        system, root = self._opened()
        return system, f"{root.rstrip('/')}/{name}"
