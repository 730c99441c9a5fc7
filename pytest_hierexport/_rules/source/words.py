"""The names that a model gives to its classes, modules, parameters and nodes, and which constants spell one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_hierexport._calls.hierarchy import is_torch_nn, qualified_class
from pytest_hierexport._rules.source.state import Decision, Kind
from pytest_hierexport._rules.source.subjects import WORD
from pytest_hierexport._rules.source.values import Certainty

if TYPE_CHECKING:
    import onnx
    import torch

__all__ = ["Spelled", "Words", "words_of"]

_SHORTEST_PART = 3
_SHORTEST_DOUBTFUL_PART = 5
_IN_PATTERN = re.compile(r"\(\?P?<\w+>|\(\?[a-zA-Z]+\)|\\[a-zA-Z]|\[[^]]*\]|\{[^}]*\}")


@dataclass(frozen=True)
class Spelled:
    """A constant that spells a name of the model, or a part of one."""

    constant: str
    name: str
    kind: str
    """`a class`, `a module or parameter`, `a path` or `a node`."""


@dataclass(frozen=True)
class Words:
    """Every name of one model; compared without case."""

    classes: frozenset[str]
    """Qualified classes of the module instances."""
    attributes: frozenset[str]
    """Names of modules, parameters and buffers within their module; no positions in lists."""
    paths: frozenset[str]
    """Dotted paths of modules and parameters that have more than one part."""
    nodes: frozenset[str]
    """Names of ONNX nodes and initializers."""

    def spelled(self, decision: Decision) -> Iterator[Spelled]:
        """Yield each constant of a decision that spells a name of the model."""
        if decision.kind is Kind.CLASS:
            yield from (Spelled(c, cls, "a class") for c in decision.constants for cls in self._same_class(c))
            return
        for constant in sorted(decision.constants):
            found = self._find(constant, decision.kind, decision.certainty)
            if found is not None:
                yield Spelled(constant, *found)

    def _same_class(self, dotted: str) -> Iterator[str]:
        home, name = dotted.partition(".")[0], dotted.rpartition(".")[2]
        for cls in self.classes:
            if not is_torch_nn(cls) and cls.partition(".")[0] == home and cls.rpartition(".")[2] == name:
                yield cls

    def _find(self, constant: str, kind: Kind, certainty: Certainty) -> tuple[str, str] | None:
        text = constant.casefold()
        bare = re.sub(r"^\W+|\W+$", "", text)
        if certainty is Certainty.TEXT:
            return self._in_doubt(constant, bare, kind)
        if kind is Kind.PATTERN:
            runs = [run for run in re.findall(r"[^\W\d_]+|\w+", _IN_PATTERN.sub(" ", constant)) if run]
            return next((found for run in runs if (found := self._part(run.casefold(), str.__contains__))), None)
        if kind is Kind.WITHIN:
            return next((found for run in re.findall(r"\w+", text) if (found := self._whole(run))), None)
        if kind is Kind.MEMBER:
            return self._member(text)
        if kind is Kind.EQUAL:
            return self._whole(text) or (self._words.get(text) if certainty is Certainty.PIECE else None)
        test = {Kind.PREFIX: str.startswith, Kind.SUFFIX: str.endswith}.get(kind, str.__contains__)
        return self._whole(bare) or self._path(text, test) or self._part(bare, test)

    def _whole(self, text: str) -> tuple[str, str] | None:
        return self._names.get(text)

    def _part(self, text: str, test: Callable[[str, str], bool]) -> tuple[str, str] | None:
        if (found := self._whole(text) or self._words.get(text)) is not None:
            return found
        if len(text) < _SHORTEST_PART:
            return None
        return next((found for name, found in self._short.items() if test(name, text)), None)

    def _path(self, text: str, test: Callable[[str, str], bool]) -> tuple[str, str] | None:
        """A text of several parts that is in a path, in a node's name, or reaches into a qualified class's name."""
        if len(re.findall(r"\w+", text)) < 2:
            return None
        for path, found in self._long.items():
            if test(path, text) or test(path.replace(".", "/"), text.strip("/")):
                return found
        for cls in self.classes:
            place = cls.casefold().find(text)
            if place >= 0 and place + len(text) > cls.rfind(".") + 1:
                return cls, "a class"
        return None

    def _member(self, text: str) -> tuple[str, str] | None:
        """A method whose name ends in a whole name: `visit_BertLayer`."""
        tails = [text[match.end() :] for match in re.finditer("_", text)]
        return next((found for tail in tails if len(tail) > _SHORTEST_PART and (found := self._whole(tail))), None)

    def _in_doubt(self, constant: str, text: str, kind: Kind) -> tuple[str, str] | None:
        """For text that may not be a name at all: whole classes and paths, or long words that are tested for."""
        if kind in (Kind.EQUAL, Kind.WITHIN, Kind.MEMBER):
            found = self._names.get(text)
            if found is None or found[1] not in {"a class", "a path"} or is_torch_nn(found[0]):
                return None
            # A class of one word, `Model`, is told from the key "model" by its capital alone.
            last = found[0].rpartition(".")[2]
            return found if found[1] == "a path" or len(WORD.findall(last)) > 1 or last in constant else None
        if len(text) < _SHORTEST_DOUBTFUL_PART:
            return None
        return next((found for word, found in self._words.items() if text in word), None)

    @cached_property
    def _short(self) -> dict[str, tuple[str, str]]:
        classes = {cls.rpartition(".")[2].casefold(): (cls, "a class") for cls in sorted(self.classes)}
        return {**{name.casefold(): (name, "a module or parameter") for name in sorted(self.attributes)}, **classes}

    @cached_property
    def _long(self) -> dict[str, tuple[str, str]]:
        nodes = {name.casefold(): (name, "a node") for name in sorted(self.nodes)}
        return {**nodes, **{path.casefold(): (path, "a path") for path in sorted(self.paths)}}

    @cached_property
    def _names(self) -> dict[str, tuple[str, str]]:
        return {**self._long, **{cls.casefold(): (cls, "a class") for cls in sorted(self.classes)}, **self._short}

    @cached_property
    def _words(self) -> dict[str, tuple[str, str]]:
        """The words of the names that the model's author gave, each with the first name that it is of."""
        words: dict[str, tuple[str, str]] = {}
        for name, kind in sorted(self._short.values()):
            for word in WORD.findall(name.rpartition(".")[2]):
                if len(word) >= _SHORTEST_PART and not is_torch_nn(name):
                    words.setdefault(word.casefold(), (name, kind))
        return words


def words_of(model: torch.nn.Module, graph: onnx.GraphProto | None = None) -> Words:
    """Return the names of a model and, where a graph is given, of its nodes and initializers."""
    classes: set[str] = set()
    attributes: set[str] = set()
    paths: set[str] = set()
    for path, module in model.named_modules():
        cls = type(module)
        classes.add(qualified_class(cls.__module__, cls.__qualname__, cls.__name__))
        # The registries of what TorchScript compiled are no dicts.
        own = [*module._modules.keys(), *module._parameters.keys(), *module._buffers.keys()]
        attributes.update(name for name in own if not name.isdecimal())
        paths.update(f"{path}.{name}" for name in own if path)
    nodes: Iterable[str] = () if graph is None else (e.name for e in (*graph.node, *graph.initializer) if e.name)
    return Words(frozenset(classes), frozenset(attributes), frozenset(paths), frozenset(nodes) - attributes)
