"""The names of a model's classes, modules, parameters and nodes, and which constants spell one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_hierexport._calls.names import is_torch_nn, qualified_class
from pytest_hierexport._rules.source.evidence import tokens
from pytest_hierexport._rules.source.program import Check, Decision
from pytest_hierexport._rules.source.values import GAP, Kind

if TYPE_CHECKING:
    import onnx
    import torch

__all__ = ["Spelled", "Words", "words_of"]

_IN_PATTERN = re.compile(r"\(\?P?<\w+>|\(\?[a-zA-Z]+\)|\\[a-zA-Z]|\[[^]]*\]|\{[^}]*\}")
_Found = tuple[str, str]
"""A name, and what it is a name of."""


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
    of_torch: frozenset[str] = frozenset()
    """Names within modules of `torch.nn`, which are the same in every model."""

    def spelled(self, decision: Decision) -> Iterator[Spelled]:
        """Yield each constant of a decision that spells a name of the model."""
        for constant in sorted(decision.constants):
            found = self._find(constant, decision.check, decision.kinds)
            if found is not None:
                yield Spelled(constant.replace(GAP, "…"), *found)

    def _find(self, constant: str, check: Check, kinds: frozenset[Kind]) -> _Found | None:
        if check is Check.CLASS:
            return self._same_class(constant)
        if check is Check.IMPORT:
            return "a name", "which is chosen by the model's own"
        if check is Check.ATTRIBUTE:
            return None if constant in self.of_torch else self._whole(constant.casefold())
        if Kind.NAME in kinds or not kinds - {Kind.PIECE, Kind.UNKNOWN}:
            found = self._in_name(constant, check, kinds)
        else:
            found = None
        if found is None and Kind.CLASS_NAME in kinds:
            found = self._only_classes._in_name(constant, check, kinds | {Kind.NAME})
        return found or (self._in_home(constant, check) if Kind.HOME in kinds else None)

    def _in_name(self, constant: str, check: Check, kinds: frozenset[Kind]) -> _Found | None:
        text = constant.casefold()
        if GAP in text:
            return self._in_template(text, in_doubt=Kind.NAME not in kinds)
        if Kind.NAME not in kinds:
            return self._in_doubt(constant, check)
        if check in {Check.PATTERN, Check.WITHIN, Check.MEMBER}:
            return self._in_runs(constant, check)
        if check is Check.EQUAL:
            return self._whole(text) or (self._words.get(text) if Kind.PIECE in kinds else None)
        return self._whole(text.strip("./")) or self._long_part(text, check) or self._part(text, check)

    def _in_runs(self, constant: str, check: Check) -> _Found | None:
        """A pattern, a text that is searched for a name, or the name of a method: `visit_BertLayer`."""
        if check is Check.MEMBER:
            found = (self._whole(t) for m in re.finditer("_", constant) if len(t := constant[m.end() :].casefold()) > 3)
        elif check is Check.PATTERN:
            found = (self._run(run) for run in re.findall(r"\w+", _IN_PATTERN.sub(" ", constant)))
        else:
            found = (self._whole(run) for run in re.findall(r"\w+", constant.casefold()))
        return next(filter(None, found), None)

    def _whole(self, text: str) -> _Found | None:
        return self._names.get(text) if len(text) > 1 else None

    def _run(self, run: str) -> _Found | None:
        """A run of letters in a pattern: a whole name, a word of one, or much of a word."""
        run = run.casefold()
        found = self._whole(run) or self._words.get(run)
        if found is None and len(run) > 4:
            found = next((f for word, f in self._words.items() if run in word), None)
        return found

    def _in_template(self, text: str, *, in_doubt: bool) -> _Found | None:
        """The constant parts of a text with gaps: paths, whole names, or a word before a gap."""
        # What follows a gap at once is the end of some longer name.
        for part in re.split(f"(?<={GAP})", re.sub(rf"(?<={GAP})\w+", "", text)):
            runs = re.findall(r"\w+", part)
            bare = part.strip(f"{GAP}_")
            if len(runs) > 1:
                found = self._long_part(part.strip(GAP), Check.PART)
            elif in_doubt or len(bare) < 3:
                found = None
            else:
                found = self._words.get(bare) if part.endswith(GAP) else None
                found = found or self._whole(bare.strip("./"))
            if found is not None:
                return found
        return None

    def _part(self, text: str, check: Check) -> _Found | None:
        """A text in a single name; a dot at an end of the text stands for that end of the name."""
        bare = re.sub(r"^\W+|\W+$", "", text)
        if not bare or re.search(r"\W", bare):
            return None
        starts, ends = (
            check is Check.PREFIX or not text.startswith(bare),
            check is Check.SUFFIX or not text.endswith(bare),
        )
        if bare in self._words and not (starts and ends):
            return self._words[bare] if len(bare) > 2 else None
        for name, found in self._short.items():
            at = name.startswith(bare) if starts else True
            if len(bare) > 2 and bare in name and at and (not ends or name.endswith(bare)):
                return found if len(bare) > 3 or starts or ends or self._begins_word(bare) else None
        return None

    def _begins_word(self, text: str) -> bool:
        return any(word.startswith(text) for word in self._words)

    def _long_part(self, text: str, check: Check) -> _Found | None:
        """A text of several names: in a path, a node's name, or the qualified name of a class."""
        if len(re.findall(r"\w+", text)) < 2:
            return None
        holds = {Check.PREFIX: str.startswith, Check.SUFFIX: str.endswith}.get(check, str.__contains__)
        for path, found in self._long.items():
            if holds(path, text) or holds(path.replace(".", "/"), text.strip("/")):
                return found
        reach = ((cls, cls.casefold().find(text)) for cls in sorted(self.classes))
        return next(((c, "a class") for c, at in reach if at >= 0 and at + len(text) > c.rfind(".") + 1), None)

    def _in_doubt(self, constant: str, check: Check) -> _Found | None:
        """For a text that may not be a name at all: whole classes and paths, and long words that are tested for."""
        text = constant.casefold()
        if check in {Check.EQUAL, Check.WITHIN, Check.MEMBER}:
            name, kind = self._names.get(text, ("", ""))
            if kind == "a path":
                return name, kind
            last = name.rpartition(".")[2]
            # A class of one word, `Model`, is told from the key "model" by its capital alone.
            is_class = kind == "a class" and not is_torch_nn(name) and (len(tokens(last)) > 1 or last in constant)
            return (name, kind) if is_class else None
        bare = re.sub(r"^\W+|\W+$", "", text)
        if len(bare) < 5 or not text.startswith(bare):
            return None
        return next((found for word, found in self._words.items() if bare in word), None)

    def _in_home(self, constant: str, check: Check) -> _Found | None:
        """A part below the top-level package of the dotted module that a class is defined in."""
        text = constant.casefold()
        for cls in sorted(self.classes):
            home = cls.rpartition(".")[0]
            top, _, below = home.casefold().partition(".")
            at = home.casefold().find(text)
            reaches = at >= 0 and at + len(text) > len(top) + 1 and len(text) > 2
            parts = text in below.split(".") or (reaches and check is not Check.EQUAL) or text == home.casefold()
            if below and parts and not is_torch_nn(cls) and top != "torch":
                return cls, "the module of a class"
        return None

    def _same_class(self, dotted: str) -> _Found | None:
        home, name = dotted.partition(".")[0], dotted.rpartition(".")[2]
        for cls in sorted(self.classes):
            if not is_torch_nn(cls) and cls.partition(".")[0] == home and cls.rpartition(".")[2] == name:
                return cls, "a class"
        return None

    @cached_property
    def _only_classes(self) -> Words:
        return Words(self.classes, frozenset(), frozenset(), frozenset())

    @cached_property
    def _short(self) -> dict[str, _Found]:
        classes = {cls.rpartition(".")[2].casefold(): (cls, "a class") for cls in sorted(self.classes)}
        return {**{name.casefold(): (name, "a module or parameter") for name in sorted(self.attributes)}, **classes}

    @cached_property
    def _long(self) -> dict[str, _Found]:
        nodes = {name.casefold(): (name, "a node") for name in sorted(self.nodes)}
        return {**nodes, **{path.casefold(): (path, "a path") for path in sorted(self.paths)}}

    @cached_property
    def _names(self) -> dict[str, _Found]:
        return {**self._long, **{cls.casefold(): (cls, "a class") for cls in sorted(self.classes)}, **self._short}

    @cached_property
    def _words(self) -> dict[str, _Found]:
        """The words of the names that the model's author gave, each with the first name that it is of."""
        words: dict[str, _Found] = {}
        for name, kind in sorted(self._short.values()):
            for word in tokens(name.rpartition(".")[2]):
                if len(word) > 2 and not is_torch_nn(name) and name not in self.of_torch:
                    words.setdefault(word, (name, kind))
        return words


def words_of(model: torch.nn.Module, graph: onnx.GraphProto | None = None) -> Words:
    """Return the names of a model and, where a graph is given, of its nodes and initializers."""
    classes: set[str] = set()
    attributes: set[str] = set()
    of_torch: set[str] = set()
    paths: set[str] = set()
    for path, module in model.named_modules():
        cls = type(module)
        classes.add(qualified := qualified_class(cls.__module__, cls.__qualname__, cls.__name__))
        # The registries of what TorchScript compiled are no dicts.
        own = [*module._modules.keys(), *module._parameters.keys(), *module._buffers.keys()]
        named = [name for name in own if not name.isdecimal()]
        attributes.update(named)
        of_torch.update(named if is_torch_nn(qualified) and not module._modules else ())
        paths.update(f"{path}.{name}" for name in own if path)
    nodes: Iterable[str] = () if graph is None else (e.name for e in (*graph.node, *graph.initializer) if e.name)
    return Words(*map(frozenset, (classes, attributes, paths, set(nodes) - attributes, of_torch)))
