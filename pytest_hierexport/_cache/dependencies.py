"""Attributes reads to models, and finds those that a model depends on.

build_one   imports helper, reads one.json           helper   reads names.txt as it is loaded
build_two   imports helper, which is loaded          one      calls helper.load, which is cached

one         one.json; helper.py and names.txt
two         helper.py and names.txt; and what one read, because it changed what helper keeps in memory

`reads.Reads` tells :class:`Logs` of each read; out come the logs of all that a model depends on, by
:meth:`Logs.leading_from`.
"""

from __future__ import annotations

import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from pytest_hierexport._cache.existence import kind_of
from pytest_hierexport._cache.loading import executing, file_of
from pytest_hierexport._cache.memory import fingerprint, kept_by
from pytest_hierexport._files.paths import absolute, is_installed

COMMON = ""
"""Stands for the reads that every model depends on."""


@dataclass
class Log:
    """What was read while one model was worked on, or while the code of one module ran as it was loaded."""

    files: set[Path] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    searched: set[tuple[str, str]] = field(default_factory=set)
    """The folders in which modules were looked for, each with the module's name there."""
    existing: dict[str, str] = field(default_factory=dict)
    """What each path was when code first asked whether it exists."""
    started_program: bool = False
    """Whether a program was started or a connection opened."""
    leads_to: set[str | Path] = field(default_factory=set)
    """The models, by name, and the modules, by file, whose reads count, too."""


class Logs:
    """The logs of a process."""

    def __init__(self) -> None:
        self._logs: dict[str | Path, Log] = defaultdict(Log)
        self._model = self._latest = COMMON
        """The model that is worked on, and the one that was worked on last."""
        self._searches: dict[str, set[tuple[str, str]]] = defaultdict(set)
        """Where each module was looked for, by its full name."""
        self._memory: dict[int, int | None] = {}
        """The fingerprint of each module of the project, by the module's address."""
        self.shared: list[object] = []
        """Objects of the project besides modules that all models may reach, such as the functions of rules."""

    @property
    def common(self) -> Log:
        """What every model depends on."""
        return self._logs[COMMON]

    @contextmanager
    def of(self, model: str) -> Iterator[None]:
        """Attribute what is read meanwhile to a model."""
        if model != self._latest:
            self._compare_memory()
        outer, self._model = self._model, model
        self._latest = model
        try:
            yield
        finally:
            self._model = outer

    def current(self) -> list[Log]:
        """Return the logs that take what this thread reads just now."""
        modules = executing()
        if modules and is_installed(modules[-1]):
            # An installed package keeps what it reads as it is loaded, for every model.
            return [self.common]
        return [self._logs[self._model], *(self._logs[file] for file in modules if not is_installed(file))]

    def add_imports(self, files: Sequence[Path]) -> None:
        """Attribute modules of the project that are imported, by their files; they may be loaded already."""
        for file in files:
            self._logs[file].files.add(file)
        for log in self.current():
            log.leads_to.update(files)

    def add_module(self, module: ModuleType) -> None:
        """Note what a module keeps in memory just after it was loaded."""
        self._memory[id(module)] = fingerprint(kept_by(module))

    def add_search(self, module: str, folder: str, *, by_project: bool) -> None:
        """Attribute that a module was looked for: an installed package may keep what came of it, for every model."""
        place = folder, module.rpartition(".")[2]
        self._searches[module].add(place)
        for log in self.current() if by_project else [self.common]:
            log.searched.add(place)

    def end_search(self, module: str, file: Path | None) -> None:
        """Attribute where a module was looked for to its file; a namespace package has none, and is every model's."""
        log = self.common if file is None or is_installed(file) else self._logs[file]
        log.searched |= self._searches[module]

    def add_question(self, path: str, *, for_all: bool) -> None:
        """Attribute that code asked whether a path exists; what it asked outside of models counts if it is for all."""
        if self._model != COMMON or for_all:
            for log in self.current():
                log.existing.setdefault(path, kind_of(path))

    def add_program(self) -> None:
        """Attribute a program or a connection to the model that is worked on; those between models do not count."""
        if self._model != COMMON:
            for log in self.current():
                log.started_program = True

    def started_program(self, model: str) -> bool:
        """Whether a program was started, or a connection opened, in what a model's results depend on."""
        return any(log.started_program for log in self.leading_from(model))

    def leading_from(self, model: str) -> list[Log]:
        """Return the logs of all that a model depends on."""
        found: dict[str | Path, Log] = {}
        waiting: list[str | Path] = [COMMON, model]
        while waiting:
            key = waiting.pop()
            if key not in found:
                found[key] = self._logs[key]
                waiting += list(found[key].leads_to)
        return list(found.values())

    def unknown_modules(self) -> list[Path]:
        """Return the files of the project's modules that were loaded in a way that told no log."""
        known = set().union(*(log.files for log in list(self._logs.values())))
        return [file for _, file in self._loaded() if file not in known]

    def _compare_memory(self) -> None:
        """Find the modules whose memory the latest model has changed: they lead to what it read."""
        memory: dict[int, int | None] = {}
        shared = {str(position): value for position, value in enumerate(self.shared)}
        held: list[tuple[int, str | Path, dict[str, object]]] = [(id(self), COMMON, shared)]
        held += [(id(module), file, kept_by(module)) for module, file in self._loaded()]
        for key, owner, kept in held:
            now = memory[key] = fingerprint(kept)
            if self._latest != COMMON and (now is None or now != self._memory.get(key)):
                self._logs[owner].leads_to.add(self._latest)
        self._memory = memory

    def _loaded(self) -> Iterator[tuple[ModuleType, Path]]:
        # `pytest` is a script there: the `__main__` of the process that it starts, and of none of its workers.
        scripts = absolute(sysconfig.get_paths()["scripts"])
        for module in list(sys.modules.values()):
            file = file_of(module) if isinstance(module, ModuleType) else None
            if file is not None and not is_installed(file) and file.parent != scripts:
                yield module, file
