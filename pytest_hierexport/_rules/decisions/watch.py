"""Watches an exporter's own files while it exports a model under other names, and keeps what decides in them."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from pytest_hierexport._rules.base import Violation
from pytest_hierexport._rules.decisions.deciding import WRITING, Decisions
from pytest_hierexport._rules.decisions.instrument import SITES, instrumented, live_functions
from pytest_hierexport._rules.decisions.names import NEW_WORD, Marked, Names, texts
from pytest_hierexport._rules.decisions.operations import watching
from pytest_hierexport._rules.decisions.source import parsed, resolved, shown

if TYPE_CHECKING:
    import torch

_NOT_LITERAL = re.compile(r"\(\?[Pp]?<\w+>|\(\?[a-zA-Z]+\)|\\[a-zA-Z]|\[[^]]*\]|\{[^}]*\}")
"""What is no literal text in a regular expression."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")


class Watch:
    """Keeps each line of some files that asks for an old name, or in which a name of the model decides.

    Lines of the model's own code, and of code that it calls, are ignored, even in a file of the exporter.

    Args:
        files: The exporter's files.
        model: The model that is renamed.
    """

    def __init__(self, files: Iterable[Path], model: torch.nn.Module) -> None:
        """Watch nothing yet."""
        from torch import nn

        from pytest_hierexport._calls.names import is_torch_nn
        from pytest_hierexport._export.modules import class_of

        self._found: dict[tuple[Path, int, str], tuple[str, str, str]] = {}
        self._files = frozenset(files)
        of_torch = [vars(module) for module in model.modules() if is_torch_nn(class_of(module))]
        self._of_torch = {name for held in of_torch for name in (*held["_parameters"], *held["_buffers"])}
        classes = {cls for module in model.modules() for cls in type(module).__mro__}
        own = [cls for cls in classes if cls.__module__.partition(".")[0] not in {"torch", "builtins"}]
        homes = {(cls.__module__, cls.__qualname__) for cls in own}
        # Decorators name what they return after the method.
        methods = (f for f in live_functions() if (f.__module__, f.__qualname__.rpartition(".")[0]) in homes)
        self._own = frozenset(method.__code__ for method in methods)
        self._through = nn.Module.__call__.__code__.co_filename
        configs = [getattr(module, "config", None) for module in model.modules()]
        self._types = {str(getattr(config, "model_type", None)) for config in configs} - {"None"}
        names = frozenset(cls.__name__ for cls in own)
        self._spelled = frozenset().union(*(_spelled(path, names) for path in self._files)) - self._of_torch
        self._names: Names | None = None

    @contextmanager
    def watching(self, names: Names) -> Iterator[None]:
        """Watch the files while the context lasts.

        Args:
            names: The model's other names.
        """
        self._names = names
        with instrumented(self._files, without=self._own):
            watching.watch(Decisions(names, self._decided), self._types)
            try:
                yield
            finally:
                watching.watch(None)

    @property
    def violations(self) -> list[Violation]:
        """What was found, by place."""
        places = sorted(self._found)
        return [Violation(f"{shown(path)}:{line}", *self._found[path, line, name]) for path, line, name in places]

    def asked(self, name: str, frame: FrameType | None) -> None:
        """Keep that a frame asks for an old name, if it is an exporter's."""
        if frame is None or name in self._of_torch:
            return
        path, line = resolved(frame.f_code.co_filename), frame.f_lineno
        if path in self._files and not self._is_models(frame):
            self._found[path, line, name] = (
                "no module or parameter of the model is asked for by its name",
                f"{name!r} is asked for in `{linecache.getline(str(path), line).strip()}`",
                "walk the modules as they come, or let the user name what is special",
            )

    def _decided(self, site: int, values: Sequence[Any]) -> None:
        """Keep a decision if a constant of the source spells the name by which it is made."""
        if site == WRITING or self._names is None:
            return
        names = [str(self._names.own(text)) for text in texts(values) if self._names.other(text) is not text]
        written = (text for text in texts(values) if not isinstance(text, Marked))
        constants = sorted((part for text in written for part in NEW_WORD.split(text)), key=len, reverse=True)
        spelling = next(((each, name) for each in constants for name in names if self._spells(each, name)), None)
        if spelling is None or self._is_models(sys._getframe(2)):
            return
        (path, node), (constant, name) = SITES[site], spelling
        if (path, node.lineno, constant) not in self._found:
            self._found[path, node.lineno, constant] = (
                "no name of the model decides anything",
                f"{constant!r} decides `{SITES[site].code}` for {name!r}",
                "decide by what a module holds, where its class is defined or what was recorded, or add an option",
            )

    def _spells(self, constant: str, name: str) -> bool:
        """Return whether a constant of the source spells a name, or a part of it, by two letters or more."""
        own = name.casefold()
        parts = {run.casefold() for run in _LETTERS.findall(_NOT_LITERAL.sub(" ", constant))} - self._of_torch
        # A text that `config.model_type` was put into is made by the constants around it.
        made_by = parts.difference(_LETTERS.findall(" ".join(self._types).casefold())) or parts
        return made_by <= self._spelled and any(part in own or own in part for part in parts)

    def _is_models(self, frame: FrameType | None) -> bool:
        """Return whether a frame is of the model's code, or of what that calls; a hook is called by torch."""
        while frame is not None and frame.f_code.co_filename != self._through:
            if frame.f_code in self._own:
                return True
            frame = frame.f_back
        return False


@lru_cache(maxsize=1024)
def _spelled(path: Path, without: frozenset[str]) -> frozenset[str]:
    """Return the words, in lower case, of a file's constants and names, without docstrings and local variables.

    Args:
        path: The file.
        without: The model's own classes, which spell its names themselves.
    """
    codes = [compile(parsed(path), str(path), "exec", dont_inherit=True, optimize=2)]
    spelled: set[str] = set()
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name not in without]
        spelled.update(texts(code.co_consts), code.co_names, (code.co_name,))
    return frozenset(run.casefold() for text in spelled for run in _LETTERS.findall(text))
