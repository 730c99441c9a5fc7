"""The names of a model's classes, modules, parameters and nodes, and which constants spell one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from pytest_hierexport._calls.names import is_torch_nn, qualified_class
from pytest_hierexport._rules.source.evidence import tokens
from pytest_hierexport._rules.source.fact import GAP, Kind
from pytest_hierexport._rules.source.scopes import Check, Decision

if TYPE_CHECKING:
    import onnx
    import torch

_NOT_LITERAL = re.compile(r"\(\?[Pp]?<\w+>|\(\?[a-zA-Z]+\)|\\[a-zA-Z]|\[[^]]*\]|\{[^}]*\}")
"""What is no literal text in a regular expression, also in lower case."""
_FROM_START, _TO_END = {Check.EQUAL, Check.PREFIX}, {Check.EQUAL, Check.SUFFIX}
_Found: TypeAlias = "tuple[str, str] | None"
"""A name, and what it is a name of."""


@dataclass(frozen=True)
class Spelled:
    """A constant that spells a name of the model, or a part of one."""

    constant: str
    name: str
    kind: str
    """`a class`, `a module or parameter`, `a path`, `a node` or `the type`."""


@dataclass(frozen=True)
class Words:
    """Every name of one model; compared without case."""

    classes: frozenset[str]
    """Qualified classes of the module instances."""
    attributes: frozenset[str] = frozenset()
    """Names of modules, parameters and buffers within their module; no positions in lists."""
    paths: frozenset[str] = frozenset()
    """Dotted paths of modules and parameters that have more than one part."""
    nodes: frozenset[str] = frozenset()
    """Names of ONNX nodes and initializers."""
    of_torch: frozenset[str] = frozenset()
    """Names within modules of `torch.nn`, which are the same in every model."""
    types: frozenset[str] = frozenset()
    """What its configuration calls the model."""

    @cached_property
    def _class_names(self) -> Words:
        return Words(self.classes)

    def spelled(self, decision: Decision) -> Iterator[Spelled]:
        """Yield each constant of a decision that spells a name of the model."""
        for constant in sorted(decision.constants):
            found = self._find(constant, decision.check, decision.kinds)
            if found is not None:
                yield Spelled(constant.replace(GAP, "…"), *found)

    def _find(self, constant: str, check: Check, kinds: frozenset[Kind]) -> _Found:
        if check is Check.CLASS:
            return self._class(constant)
        if check is Check.IMPORT:
            return "a name", "which is chosen by the model's own"
        text, is_piece = constant.casefold(), Kind.PIECE in kinds
        found: _Found = None
        if re.search(r"\s", text) and check is not Check.PATTERN:
            return None
        if Kind.NAME in kinds:
            found = self._in_name(text, check, is_piece=is_piece)
        if found is None and Kind.CLASS_NAME in kinds:
            found = self._class_names._in_name(text, check, is_piece=is_piece)
        if found is None and Kind.MODEL_TYPE in kinds:
            found = _of_type(self.types, text, check)
        return self._in_home(text, check) if found is None and Kind.HOME in kinds else found

    def _in_name(self, text: str, check: Check, *, is_piece: bool) -> _Found:
        if check is Check.PATTERN:
            runs = re.findall(r"\w+", _NOT_LITERAL.sub(" ", text))
            return _first(
                self._whole(r) or self._words.get(r) or (self._part(r, check) if len(r) > 4 else None) for r in runs
            )
        if GAP in text:
            return self._in_template(text, check)
        if check is Check.EQUAL:
            return self._whole(text) or (self._words.get(text) if is_piece else None)
        return self._whole(text.strip("./")) or self._long_part(text, check) or self._part(text, check)

    def _whole(self, text: str) -> _Found:
        return self._names.get(text) if len(text) > 1 else None

    def _part(self, text: str, check: Check) -> _Found:
        """A text in a single name; a dot at an end of the text stands for that end of the name."""
        bare = re.sub(r"^\W+|\W+$", "", text)
        if len(bare) < 3 or re.search(r"\W", bare):
            return None
        starts = check is Check.PREFIX or not text.startswith(bare)
        ends = check is Check.SUFFIX or not text.endswith(bare)
        if starts and ends:
            return self._short.get(bare)
        if bare in self._words:
            return self._words[bare]
        if starts or ends:
            holds = str.startswith if starts else str.endswith
            return _first(found for name, found in self._short.items() if holds(name, bare))
        # Within a name a text of few letters may stand by chance.
        inside = (found for name, found in self._short.items() if len(bare) > 3 and bare in name)
        return _first(inside) or _first(found for word, found in self._words.items() if word.startswith(bare))

    def _long_part(self, text: str, check: Check) -> _Found:
        """A text of several names: in a path, a node's name, or the qualified name of a class."""
        if len(re.findall(r"\w+", text)) < 2:
            return None
        holds = {Check.PREFIX: str.startswith, Check.SUFFIX: str.endswith}.get(check, str.__contains__)
        for path, found in self._long.items():
            if holds(path, text) or holds(path.replace(".", "/"), text.strip("/")):
                return found
        reach = ((cls, cls.casefold().find(text)) for cls in sorted(self.classes))
        return _first((cls, "a class") for cls, at in reach if at >= 0 and at + len(text) > cls.rfind(".") + 1)

    def _in_template(self, text: str, check: Check) -> _Found:
        """A text with gaps, which stand for anything in a name."""
        # What follows a gap at once is the end of some longer name.
        text = re.sub(rf"{GAP}\w+", GAP, text)
        if not any(len(word) > 2 and word not in self.of_torch for word in re.findall(r"\w+", text)):
            return None
        before, after = ("" if check in only else ".*" for only in (_FROM_START, _TO_END))
        wanted = re.compile(before + ".*".join(map(re.escape, text.split(GAP))) + after)
        return _first(found for name, found in self._names.items() if wanted.fullmatch(name))

    def _in_home(self, text: str, check: Check) -> _Found:
        """A part below the top-level package of the dotted module that a class is defined in."""
        for cls in sorted(self.classes):
            home = cls.rpartition(".")[0].casefold()
            top, _, below = home.partition(".")
            at = home.find(text)
            is_part = check is not Check.EQUAL and len(text) > 2 and at >= 0 and at + len(text) > len(top) + 1
            if below and top != "torch" and (is_part or text == home or text in below.split(".")):
                return cls, "the module of a class"
        return None

    def _class(self, dotted: str) -> _Found:
        ends = (dotted.partition(".")[0], dotted.rpartition(".")[2])
        own = (cls for cls in sorted(self.classes) if not is_torch_nn(cls))
        return _first((cls, "a class") for cls in own if (cls.partition(".")[0], cls.rpartition(".")[2]) == ends)

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
        given = [(name, kind) for name, kind in sorted(self._short.values()) if name not in self.of_torch]
        found = ((word, name, kind) for name, kind in given for word in tokens(name.rpartition(".")[2]))
        return {
            word: (name, kind) for word, name, kind in reversed(list(found)) if len(word) > 3 and not is_torch_nn(name)
        }


def _of_type(types: frozenset[str], text: str, check: Check) -> _Found:
    """What a configuration calls the model, or a part of that which is tested for."""
    parts = check is not Check.EQUAL and len(text) > 2
    named = (name for name in sorted(types) if text == name.casefold() or (parts and text in name.casefold()))
    return _first((name, "the type") for name in named)


def _first(found: Iterable[_Found]) -> _Found:
    return next((each for each in found if each is not None), None)


def words_of(model: torch.nn.Module, graph: onnx.GraphProto | None = None) -> Words:
    """Return the names of a model and, where a graph is given, of its nodes and initializers."""
    classes, attributes, paths, of_torch = set[str](), set[str](), set[str](), set[str]()
    for path, module in model.named_modules():
        cls = type(module)
        classes.add(qualified := qualified_class(cls.__module__, cls.__qualname__, cls.__name__))
        # The registries of what TorchScript compiled are no dicts.
        own = [*module._modules.keys(), *module._parameters.keys(), *module._buffers.keys()]
        named = [name for name in own if not name.isdecimal()]
        attributes.update(named)
        of_torch.update(named if is_torch_nn(qualified) and not module._modules else ())
        paths.update(f"{path}.{name}" for name in own if path)
    elements = () if graph is None else (*graph.node, *graph.initializer)
    # One word, `sqrt`, is an operator's, not the model's.
    nodes = {element.name for element in elements if re.search(r"\W|\d", element.name)} - attributes
    configs = (getattr(module, "config", None) for module in model.modules())
    types = {name for config in configs if isinstance(name := getattr(config, "model_type", None), str)}
    return Words(*map(frozenset, (classes, attributes, paths, nodes, of_torch, types)))
