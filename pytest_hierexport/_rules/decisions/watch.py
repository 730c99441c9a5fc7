"""Watches an exporter's own files while it exports a model under other names, and keeps what decides in them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from inspect import getframeinfo
from itertools import takewhile
from linecache import getline
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any

from torch import nn

from pytest_hierexport._calls.names import is_torch_nn
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.modules import class_of
from pytest_hierexport._export.patching import replaced
from pytest_hierexport._rules.base import Violation
from pytest_hierexport._rules.decisions.deciding import OTHER, Decisions, attribute_of
from pytest_hierexport._rules.decisions.instrument import Code, code_of, instrumented, live_functions, nested
from pytest_hierexport._rules.decisions.operations import watching
from pytest_hierexport._rules.decisions.source import data_of, places, resolved
from pytest_hierexport._rules.decisions.values import Marked, marked, texts, under_old
from pytest_hierexport._rules.new_names import NEW_WORD, Names

_NOT_LITERAL = re.compile(r"\(\?[Pp]?<\w+>|\(\?[a-zA-Z]+\)|\\[a-zA-Z]|\[[^]]*\]|\{[^}]*\}|%[-#0 +]*\d*[a-zA-Z]")
"""What is no literal text in a regular expression, or in a text that is formatted."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_WITH_DIGITS = re.compile(r"(?=[^\W_]{2})[^\W_]*[^\W\d_][^\W_]*")
_MOST_SHOWN = 90


class Watch:
    """Keeps each line of some files that asks for an old name, or in which a name of the model decides.

    Lines of the model's own code, and of code that it calls, are ignored, even in a file of the exporter.

    Args:
        files: The exporter's files, its own first; of the others those that cannot be read are left out.
        model: The model that is renamed.

    Raises:
        UsageError: The exporter's own file cannot be read, is not valid Python, or nests too deeply.
    """

    def __init__(self, files: Iterable[Path], model: nn.Module) -> None:
        """Watch nothing yet."""
        self._found: dict[tuple[Path, int, str], Violation] = {}
        first, *others = files
        self._codes = {first: code_of(first)}
        for path in others:
            with suppress(UsageError):
                self._codes[path] = code_of(path)
        of_torch = [vars(module) for module in model.modules() if is_torch_nn(class_of(module))]
        self._of_torch = {name for held in of_torch for name in (*held["_parameters"], *held["_buffers"])}
        classes = {cls for module in model.modules() for cls in type(module).__mro__}
        own = [cls for cls in classes if cls.__module__.partition(".")[0] not in {"torch", "builtins"}]
        homes = {(cls.__module__, cls.__qualname__) for cls in own}
        functions = live_functions()
        methods = [each for each in functions if (each.__module__, each.__qualname__.rpartition(".")[0]) in homes]
        # All that a decorator returns has one code: one around a method of the model may be around the exporter, too.
        shared = {id(each.__code__) for each in set(functions).difference(methods)}
        self._own = {each.__code__ for each in methods if id(each.__code__) not in shared}
        self._through = nn.Module.__call__.__code__.co_filename
        configs = (attribute_of(module, "config") for module in model.modules())
        self._configurations = [config for config in configs if attribute_of(config, "model_type")]
        names = frozenset(cls.__name__ for cls in own)
        self._shown = {path: path.relative_to(home) for path, (_, home) in places(self._codes).items()}
        """The path of each file below the folder that its top-level package is in."""
        modules = {part.casefold() for path in self._shown.values() for part in path.with_suffix("").parts}
        self._written = frozenset(modules).union(*(_written(code, names) for code in self._codes.values()))
        self._segments = {segment for text in self._written for segment in text.split(".")}

    @contextmanager
    def watching(self, names: Names) -> Iterator[None]:
        """Watch the files for the model's names while the context lasts."""
        decisions = Decisions(names, partial(self._decided, names), self._configurations)
        with instrumented(self._codes, self._own), replaced(watching, "decisions", decisions), ExitStack() as after:
            # A configuration's own code copies its type: into what `config.to_dict()` gives, for one.
            # Above the class that states the type may be another model's.
            of_bases = (type(config).__mro__ for config in self._configurations)
            for cls in {next((base for base in bases if "model_type" in vars(base)), object) for bases in of_bases}:
                if type(kind := vars(cls).get("model_type")) is str and kind:
                    after.enter_context(replaced(cls, "model_type", marked(kind, OTHER)))
            yield

    @property
    def violations(self) -> list[Violation]:
        """What was found, by place."""
        return [self._found[place] for place in sorted(self._found)]

    def asked(self, name: str, frame: FrameType | None) -> None:
        """Keep that a frame asks for an old name, if it is an exporter's that spells the name."""
        # First, for the model's own code asks most: what spells a name is searched for in all that is written.
        if frame is None or name in self._of_torch or resolved(frame.f_code.co_filename) not in self._codes:
            return
        if name.casefold() in self._segments or self._spells(name, _parts(name.casefold())):
            expected = "no module or parameter of the model is asked for by its name"
            do = "walk the modules as they come, or let the user name what is special"
            self._keep(frame, name, expected, lambda code: f"{name!r} is asked for in `{code}`", do)

    def _decided(self, names: Names, values: Sequence[Any]) -> None:
        """Keep a decision if a constant of the source spells the name by which it is made."""
        named = [text for text in texts(values) if under_old(names, text) is not text]
        staying = [text for text in named if isinstance(text, Marked)]
        others = {text.alternative for text in staying}
        words = _parts(" ".join((*map(names.old, NEW_WORD.findall(" ".join(named))), *staying, *others)).casefold())
        constants = {part for text in texts(values) for part in NEW_WORD.split(text) if not isinstance(text, Marked)}
        spelled = [each for each in constants - {OTHER} if self._spells(each, words)]
        # What a name has in common with other models' names, as `node_` in `node_12`, is no name of the model.
        telling = [each for each in spelled if len(staying) < len(named) or not all(_share(each, s) for s in staying)]
        # Of a long text, such as a printed model, the word is shown.
        old = {word for text in (*named, *others) for word in (str(names.old(text)), *names.old(text).split())}
        if constant := max(telling, key=lambda each: (each in old, len(each), each), default=None):
            expected = "no name of the model decides anything"
            do = "decide by what a module holds, where its class is defined or what was recorded, or add an option"
            found = f"for {_most_like(constant, old)!r}"
            self._keep(self._at_work(), constant, expected, lambda code: f"{constant!r} decides `{code}` {found}", do)

    def _at_work(self) -> FrameType:
        """Return the innermost frame of the exporter: what it passes to other code, as a `key`, runs below that."""
        frames = (each for each, _ in walk_stack(sys._getframe()))
        return next((each for each in frames if resolved(each.f_code.co_filename) in self._codes), sys._getframe())

    def _keep(self, frame: FrameType, name: str, expected: str, found: Callable[[str], str], do: str) -> None:
        """Keep what was `found` in the source of what a frame computes now, if that is the exporter's."""
        path = resolved(frame.f_code.co_filename)
        place = path, frame.f_lineno, name
        if path in self._codes and place not in self._found and not self._is_models(frame):
            where = f"{self._shown[path].as_posix()}:{frame.f_lineno}"
            self._found[place] = Violation(where, expected, found(_computed_source(frame)), do)

    def _spells(self, constant: str, words: set[str]) -> bool:
        """Return whether constants of the source make up a text that spells words of a name, or a part of them."""
        text = _plain(constant)
        parts = _parts(_NOT_LITERAL.sub(" ", text)) - self._of_torch
        if not any(part in word or word in part for part in parts for word in words):
            return False
        # A path such as `encoder.layer.0` may be made of constants, as in `f"encoder.layer.{i}"`.
        pieces = sorted((written for written in self._written if written in text), key=len, reverse=True)
        for piece in pieces:
            text = text.replace(piece, " ")
        # `f"exporters.{config.model_type}"` is, beside the model's type.
        types = " ".join(str(config.model_type) for config in self._configurations)
        return bool(pieces) and _parts(text) <= _parts(types.casefold())

    def _is_models(self, frame: FrameType) -> bool:
        """Return whether a frame is of the model's code, or of what that calls; a hook is called by torch."""
        above = takewhile(lambda each: each[0].f_code.co_filename != self._through, walk_stack(frame))
        return any(each.f_code in self._own for each, _ in above)


def _plain(text: str) -> str:
    r"""Return a text in lower case, and without what escapes it in a regular expression: `stem.` for `Stem\.`."""
    return re.sub(r"\\(\W)", r"\1", text.casefold())


def _parts(text: str) -> set[str]:
    """Return what may be a name in a text: two letters or more, with and without the digits beside them (`t5`)."""
    return {*_LETTERS.findall(text), *_WITH_DIGITS.findall(text)}


def _most_like(constant: str, names: Iterable[str]) -> str:
    """Return the name that has most of a constant's parts, of several the shortest."""
    parts, lows = _parts(constant.casefold()), ((name.casefold(), name) for name in names)
    return min((OTHER in low, len(parts - _parts(low)), len(name), name[:_MOST_SHOWN]) for low, name in lows)[-1]


def _share(constant: str, text: Marked) -> bool:
    """Return whether an alternative has each run of letters and digits that a constant spells as often as its text."""
    runs = re.findall(r"\w+", _NOT_LITERAL.sub(" ", constant).casefold())
    return all(0 < text.casefold().count(run) <= text.alternative.casefold().count(run) for run in runs)


@cache
def _written(code: Code, without: frozenset[str]) -> frozenset[str]:
    """Return the texts that may be names, in lower case, and that a file's code spells: constants, global names, data.

    The model's own classes spell its names themselves, so code is read `without` them.
    """
    found = set(code.split)
    for each in nested(code.module, without):
        found.update(texts(each.co_consts), each.co_names, (each.co_name,))
    found.update(*(re.split(r"[\s,;:=\"'{}\[\]]+", text) for text in data_of(Path(code.module.co_filename), found)))
    pieces = (_plain(piece) for text in found for piece in (text, *_NOT_LITERAL.split(text)))
    return frozenset(filter(_parts, pieces))


def _computed_source(frame: FrameType) -> str:
    """Return the source of what a frame computes now, in one line; in Python 3.10 the first line of it."""
    file, place = frame.f_code.co_filename, getattr(getframeinfo(frame, context=0), "positions", None)
    code = place and ast.get_source_segment(Path(file).read_text("utf-8", "replace"), place)
    return " ".join((code or getline(file, frame.f_lineno)).split())
