"""Records the files and environment variables that a process reads: the inputs that a cached result depends on.

A Python audit hook (PEP 578) records every file that is opened or imported and every folder that is listed, from before
the first `conftest.py` is loaded. All models of a run share the process, so a result depends on four kinds of reads:

    common      before the first model, between two models, and by installed packages as they are loaded
    its own     while the model was built, exported and checked
    of modules  that it imports, directly or through others: what their code read when it was executed
    inherited   by another model, where that left something in memory that this one can reach: in a module that both
                import, such as an `lru_cache` or a registry

:meth:`Reads.start` begins to record; out comes what a model depends on so far, by :meth:`Reads.inputs`.
"""

from __future__ import annotations

import glob
import importlib
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from traceback import walk_stack
from types import FrameType, ModuleType
from typing import Any
from urllib.parse import unquote

import _pytest

from pytest_hierexport._cache.dependencies import COMMON, Logs
from pytest_hierexport._cache.environment import counts_as_reader, watch_environment
from pytest_hierexport._cache.existence import kind_of, watch_existence
from pytest_hierexport._cache.inputs import Inputs, Signature, signature
from pytest_hierexport._cache.loading import watch_loading
from pytest_hierexport._cache.programs import asks_for_a_version, is_own_program, looks_for_a_library, program_of
from pytest_hierexport._cache.searches import nearest_importer, watch_searches
from pytest_hierexport._files.listings import names_in
from pytest_hierexport._files.paths import (
    AROUND_TESTS,
    PACKAGE,
    absolute,
    installed_folders,
    is_installed,
    is_project,
    of_standard_library,
)
from pytest_hierexport._files.temporary import RUN_FOLDER
from pytest_hierexport._files.unrecorded import paused, unrecorded

_FILE_EVENTS: Mapping[str, int] = {"open": 0, "import": 1, "ctypes.dlopen": 0, "sqlite3.connect": 0}
"""The audit events that name a file, with the position of its path."""
_LISTING_EVENTS = frozenset({"os.listdir", "os.scandir"})
_PATTERN_EVENTS = frozenset({"glob.glob/2", "pathlib.Path.glob"})
"""The audit events that name a pattern for paths."""
_TEMPORARY_EVENTS = frozenset({"tempfile.mkstemp", "tempfile.mkdtemp", "os.mkdir"})
"""The audit events that name a temporary file or folder; `os.mkdir` does so below the system's temporary folder."""
_PROGRAM_EVENTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket.connect"})
"""The audit events after which a result depends on another program or machine."""
_EVENTS = frozenset({*_FILE_EVENTS, *_LISTING_EVENTS, *_PATTERN_EVENTS, *_TEMPORARY_EVENTS, *_PROGRAM_EVENTS})
_NATIVE = ".safetensors"
"""The files that native code opens without an audit event: those beside a recorded file count as read."""
_CURRENT_TEST = "PYTEST_CURRENT_TEST"
_CACHE_TAG = f".{sys.implementation.cache_tag}"
_BACKPORT = Path(sysconfig.get_paths()["purelib"], "importlib_metadata", "__init__.py")
_OURS = f"{PACKAGE}{os.sep}"
_FINDERS = (
    *(f"{absolute(file).parent}{os.sep}" for file in (importlib.__file__, _BACKPORT, _pytest.__file__)),
    *(f"{PACKAGE / room}{os.sep}" for room in AROUND_TESTS),
)
"""The packages that list folders to find what is recorded when it is used: modules, tests, run folders."""
_RESOURCES = str(absolute(importlib.__file__).with_name("resources"))
"""What lists the resources of a package for those who ask: `importlib/resources/`."""


class Reads:
    """The files and folders that this process reads from :meth:`start` on.

    Args:
        outside: Folders that do not count: those that the run itself writes.
    """

    def __init__(self, outside: Iterable[Path] = ()) -> None:
        self.outside = list(outside)
        self.environment: Mapping[str, str] = {}
        """The environment at the start: what this process sets itself is no input."""
        self._signatures: dict[Path, Signature | None] = {}
        self.logs = Logs()

    def start(self) -> None:
        """Record what is read from now on."""
        # The hook calls both, and must not see the files that they open.
        installed_folders()
        tempfile.gettempdir()
        _install_hooks()
        self.environment = dict(os.environ)
        self.imported(self.logs.unknown_modules())
        _active.append(self)

    def stop(self) -> None:
        """Record nothing more."""
        _active.remove(self)

    def expect(self, files: Iterable[Path]) -> None:
        """Record files that native code is about to read."""
        for file in files:
            self._add_file(file)

    @unrecorded()
    def inputs(self, model: str = COMMON) -> Inputs | None:
        """Return what a model's results depend on so far, None where a file has changed since it was read.

        Without a model they are the common inputs.
        """
        logs = self.logs.leading_from(model)
        recorded = {path for log in logs for path in list(log.files) if self._counts(path)}
        if any(signature(path) != self._signatures[path] for path in recorded):
            return None
        folders = {Path.cwd(), *(path.parent for path in recorded)}
        native = {folder / name for folder in folders for name in names_in(folder) if name.endswith(_NATIVE)}
        files = recorded.union(filter(self._counts, self.logs.unknown_modules()), native)
        listed = {folder for log in logs for folder in list(log.folders) if self._counts(folder)}
        searched = {each for log in logs for each in list(log.searched)}
        searched = {each for each in searched if self._counts(Path(each[0]))}
        # Python does not look into a folder of the path that is not there.
        places = (str(absolute(folder or ".")) for folder in sys.path if isinstance(folder, str))
        existing = {(place, kind_of(place)) for place in places}.union(*(list(log.existing.items()) for log in logs))
        existing = {each for each in existing if self._counts(Path(each[0]))}
        if len(dict(existing)) < len(existing):
            return None  # something came or went between two questions
        variables = {name for log in logs for name in list(log.variables)}
        taken = Inputs.of(
            files, listed, searched, existing=dict(existing), variables=variables, environment=self.environment
        )
        # Taking the digests takes time, too.
        return taken if all(signature(path) == self._signatures[path] for path in recorded) else None

    def imported(self, files: Sequence[Path]) -> None:
        """Record that the modules of these files are imported, which may be loaded already."""
        if files and not paused.get():
            for file in files:
                self._signatures.setdefault(file, signature(file))
            self.logs.add_imports(files)

    def executed(self, module: ModuleType, file: Path) -> None:
        """Note that a module has been loaded."""
        if not is_installed(file):
            self.imported([file])
            self.logs.add_module(module)

    def searched(self, module: str, folder: str, found: ModuleSpec | None) -> None:
        """Note that a module was looked for in a folder."""
        if not is_installed(absolute(folder or ".")):
            importer = nearest_importer()
            by_project = not paused.get() and (is_project(importer) or (found and importer.startswith(_OURS)))
            self.logs.add_search(module, str(absolute(folder or ".")), by_project=bool(by_project))
        if found is not None:
            # Who imports a module that is loaded by then does not look for it: it counts with the module.
            self.logs.end_search(module, None if found.origin is None else absolute(found.origin))

    def asked(self, path: object, asker: FrameType) -> None:
        """Note that code asked whether a path exists."""
        file = asker.f_code.co_filename
        if paused.get() or of_standard_library(file) or not counts_as_reader(asker):
            return
        with unrecorded():
            found, by_project = _path(path), is_project(file)
            # A package asks for many paths elsewhere, such as those of its own caches.
            if found and not is_installed(found) and (by_project or found.is_relative_to(Path.cwd())):
                # A test that runs asks for what it has made.
                by_test = os.environ.get(_CURRENT_TEST) not in {None, self.environment.get(_CURRENT_TEST)}
                self.logs.add_question(str(found), for_all=by_project and not by_test)

    def variable_read(self, name: str, reader: str) -> None:
        """Note that code of a file read a variable."""
        if not paused.get():
            for log in self.logs.current() if is_project(reader) else [self.logs.common]:
                log.variables.add(name)

    def _counts(self, path: Path) -> bool:
        if is_installed(path) or any(map(RUN_FOLDER.fullmatch, path.parts)):
            return False
        return not any(path.is_relative_to(folder) for folder in self.outside)

    def record(self, event: str, args: Sequence[object]) -> None:
        """Record an audit event."""
        if event in _FILE_EVENTS:
            if event != "open" or not _only_writes(args):
                self._add_file(_path(args[_FILE_EVENTS[event]]))
                self._add_file(_path_of_address(args[_FILE_EVENTS[event]]))
        elif event in _LISTING_EVENTS:
            self._add_folder(_path(args[0] or "."))
        elif event in _PATTERN_EVENTS:
            for folder in _folders_of_pattern(event, args):
                self._add_folder(_path(folder))
        elif event in _TEMPORARY_EVENTS:
            self._add_temporary(event, _path(args[0]))
        elif asks_for_a_version(args):
            self._add_file(_path(program_of(args)))
        elif not is_own_program(args) and not looks_for_a_library():
            self.logs.add_program()

    def _add_file(self, path: Path | None) -> None:
        source = None if path is None else _source_of(path)
        if source is not None and not is_installed(source):
            if source not in self._signatures:
                self._signatures[source] = signature(source)
            for log in self.logs.current():
                log.files.add(source)

    def _add_temporary(self, event: str, path: Path | None) -> None:
        if path is None or not self._counts(path):
            return
        if event != "os.mkdir" or (path.is_relative_to(tempfile.gettempdir()) and not path.exists()):
            self.outside.append(path)

    def _add_folder(self, path: Path | None) -> None:
        if path is not None and not is_installed(path) and not _is_search():
            for log in self.logs.current():
                log.folders.add(path)


_active: list[Reads] = []


@cache
def _install_hooks() -> None:
    """Install the one audit hook of this process, which Python never removes, and watch its environment."""
    sys.addaudithook(partial(_hook, _to_each(Reads.record)))
    watch_environment(_to_each(Reads.variable_read))
    watch_loading(_to_each(Reads.imported), _to_each(Reads.executed))
    watch_searches(_to_each(Reads.searched))
    watch_existence(_to_each(Reads.asked))


def _to_each(note: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls a method of those that record at the time; it fails in no code that they watch."""

    def tell(*args: object) -> None:
        for reads in _active:
            with suppress(OSError):  # without a working directory, a relative path names nothing
                note(reads, *args)

    return tell


def _hook(record: Callable[..., None], event: str, args: tuple[object, ...]) -> None:
    if _active and event in _EVENTS and not paused.get():
        record(event, args)


def _path(value: object) -> Path | None:
    return absolute(os.fsdecode(value)) if isinstance(value, (str, bytes, os.PathLike)) and value else None


def _path_of_address(value: Any) -> Path | None:
    """Return the path in an address such as `file:any.db?mode=ro`, by which SQLite may open a database."""
    is_address = isinstance(value, str) and value.startswith("file:")
    return _path(unquote(re.split("[?#]", value.removeprefix("file:"))[0])) if is_address else None


@unrecorded()
def _folders_of_pattern(event: str, args: Sequence[Any]) -> list[Path]:
    """Return the folders in which parts of a pattern without wildcards are looked for: Python does not list these."""
    above, pattern = map(os.fsdecode, args if event == "pathlib.Path.glob" else (args[2] or "", args[0]))
    # A part `**` lists all folders below.
    heads = [head for head in Path(pattern).parents if glob.has_magic(f"{head}") and "**" not in head.parts]
    return [Path(above, found) for head in heads for found in glob.glob(f"{head}", root_dir=above)]  # noqa: PTH207


def _only_writes(args: Sequence[object]) -> bool:
    flags = args[2] if isinstance(args[2], int) else 0
    return bool(flags & os.O_TRUNC or flags & os.O_EXCL or flags & os.O_ACCMODE == os.O_WRONLY)


def _is_search() -> bool:
    """Whether the current listing of a folder is a search for modules, distributions or tests."""
    files = (frame.f_code.co_filename for frame, _ in walk_stack(sys._getframe(1)))
    askers = (file for file in files if file != __file__ and (_is_finder(file) or not of_standard_library(file)))
    # What lists for others, such as `os`, `pathlib` and `glob`, is passed over.
    return _is_finder(next(askers, ""))


def _is_finder(file: str) -> bool:
    return file.startswith(("<frozen importlib", *_FINDERS)) and not file.startswith(_RESOURCES)


def _source_of(path: Path) -> Path:
    """Return the source of a bytecode file: importing a module may open its bytecode alone."""
    stem, tag, _ = path.name.rpartition(_CACHE_TAG)
    if not tag or path.suffix != ".pyc":
        return path
    if sys.pycache_prefix and path.is_relative_to(sys.pycache_prefix):
        return Path("/", path.parent.relative_to(sys.pycache_prefix), f"{stem}.py")
    return path.parent.parent / f"{stem}.py" if path.parent.name == "__pycache__" else path
