"""Finds what in a text names the machine that this process runs on: folders, the user, the host.

"/home/ann/model.py"       /home/ann/model.py, the home folder
"node of ann@build-7"      ann@build-7, the user's name
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_hierexport._files.paths import PACKAGE, absolute, package_folders

_TOKEN = re.compile(r"""[^\s"'`<>()\[\]{},;|=]+""")
"""A run of characters that an address may consist of: `/mnt/data` of `--data=/mnt/data`."""
_BEFORE, _BEHIND = r"(?:(?<=file://)|(?<![\w.~/\\-]))", r"""(?=[/\\]|[^\w.-]|$)[^\s"'<>|,;]*"""
"""Patterns for the text before and behind a folder's path, which may go on into the folder."""
_LEAST = 3
"""The least length of a folder's path to look for: `/` is everywhere."""


@dataclass(frozen=True)
class Machine:
    """The folders and names that must not appear."""

    folders: Mapping[str, str]
    """A description of each folder (`the home folder`), by its absolute path."""
    names: Mapping[str, str]
    """A description of each name (`the user's name`), by the name."""

    @classmethod
    def this(cls) -> Machine:
        """Return the machine that this process runs on."""
        virtual = [sys.prefix] if sys.prefix != sys.base_prefix else []
        named = {
            "a package folder": [*package_folders(), *virtual, str(PACKAGE.parent)],
            "the working folder": [os.curdir],
            "the temporary folder": [tempfile.gettempdir()],
        }
        with suppress(RuntimeError):  # as for the user's name below
            named["the home folder"] = [str(Path.home())]
        folders: dict[str, str] = {}
        for what, path in ((what, path) for what, paths in named.items() for path in paths):
            # With links followed or not: either may have been written down.
            for form in map(str, (absolute(path), Path(path).resolve())):
                if len(form) >= _LEAST:
                    folders.setdefault(form, what)
        host = socket.gethostname()
        names = dict.fromkeys((host, host.partition(".")[0]), "the host's name")
        with suppress(OSError, KeyError, ImportError):  # a process may run under a user id without a name
            names[getpass.getuser()] = "the user's name"
        return cls(folders, {name: what for name, what in names.items() if name and name != "localhost"})

    def revealed_by(self, text: str, *, is_name: bool = False) -> Iterator[tuple[str, str]]:
        """Yield the paths and addresses in a text that reveal the machine, each with the thing that it reveals.

        Args:
            text: Any text.
            is_name: Whether it is a name of a node or a value, which may look like a path and be none: then only
                paths that exist count.
        """
        if not any(word in text for words in (self.names, self._forms) for word in words):
            return
        found = [(match[0], self._forms[match[1]]) for match in self._pattern.finditer(text)]
        for token in _TOKEN.findall(self._pattern.sub(" ", text)):
            found += [(token, self.names[part]) for part in _parts_of_address(token) if part in self.names][:1]
        yield from ((part, what) for part, what in found if not is_name or _exists(part))

    @cached_property
    def _forms(self) -> dict[str, str]:
        """The ways in which the folders are written, with either slash or with a backslash escaped: longest first."""
        forms = {
            form: what
            for folder, what in self.folders.items()
            for form in (folder, folder.replace("\\", "/"), folder.replace("\\", "\\\\"))
        }
        return dict(sorted(forms.items(), key=lambda form: -len(form[0])))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(f"{_BEFORE}({'|'.join(map(re.escape, self._forms))}){_BEHIND}")


def _parts_of_address(token: str) -> list[str]:
    """Return the parts of a path or an address; a word by itself is neither."""
    if not token.startswith(("/", "~", "\\")) and ":/" not in token and "@" not in token and token[1:3] != ":\\":
        return []
    return re.split(r"[/\\@:~]", token)


def _exists(path: str) -> bool:
    """Whether a path, or a part of it from the root that is longer than one name, is there."""
    at = Path(path)
    return at.is_absolute() and any(os.path.lexists(part) for part in (at, *at.parents) if len(part.parts) > 2)
