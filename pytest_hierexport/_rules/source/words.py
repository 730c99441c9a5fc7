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
_Names: TypeAlias = "dict[str, tuple[str, str]]"
"""Names in lower case, each as it is written and what it is a name of."""


@dataclass(frozen=True)
class Spelled:
    """A constant that spells a name of the model, or a part of one."""

    constant: str
    reason: str
    """`bert.BertLayer is a class of the model`."""


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

    def spelled(self, decision: Decision) -> Iterator[Spelled]:
        """Yield each constant of a decision that spells a name of the model."""
        for constant in sorted(decision.constants):
            if decision.check is Check.IMPORT:
                yield Spelled(constant.replace(GAP, "…"), "a name of the model is put into it")
            elif found := self._find(constant, decision.check, decision.kinds):
                yield Spelled(constant.replace(GAP, "…"), "{} is {} of the model".format(*found))

    def _find(self, constant: str, check: Check, kinds: frozenset[Kind]) -> tuple[str, str] | None:
        if check is Check.CLASS:
            ends = _ends(constant)
            return next(((c, "a class") for c in sorted(self.classes) if _ends(c) == ends and not is_torch_nn(c)), None)
        among = (names for kind, names in self._by_kind.items() if kind in kinds)
        found = (self._among(*names, constant.casefold(), check, is_piece=Kind.PIECE in kinds) for names in among)
        return next(filter(None, found), None)

    def _among(
        self, short: _Names, long: _Names, words: _Names, text: str, check: Check, *, is_piece: bool
    ) -> tuple[str, str] | None:
        """Return the single or dotted name that a text spells, or one that a check for the text finds something in."""
        if check is Check.PATTERN:
            runs = re.findall(r"\w+", _NOT_LITERAL.sub(" ", text))
            return next(
                (f for r in runs if (f := short.get(r) or words.get(r) or (len(r) > 4 and _in(short, r)))), None
            )
        if GAP in text:
            return self._in_template(short | long, text, check)
        if len(text) < 2 or re.search(r"\s", text) or check is Check.EQUAL:
            whole = {**(words if is_piece else {}), **long, **short}
            return whole.get(text) if len(text) > 1 and not re.search(r"\s", text) else None
        text = text.replace("/", ".")
        bare = text.strip("._")
        if not re.fullmatch(r"\w+", bare):
            return _in(long, text.lstrip(".") if check is Check.PREFIX else text, check)
        if len(bare) < 4 and check is Check.PART:
            # Within a name a text of few letters may stand by chance.
            return short.get(bare) or next((found for word, found in words.items() if word.startswith(bare)), None)
        return _in(short, text, check) if len(bare) > 2 else short.get(text.strip("."))

    def _in_template(self, names: _Names, text: str, check: Check) -> tuple[str, str] | None:
        """A text with gaps, which stand for anything in a name."""
        # What follows a gap at once is the end of some longer name.
        text = re.sub(rf"{GAP}\w+", GAP, text)
        if not any(len(word) > 2 and word not in self.of_torch for word in re.findall(r"\w+", text)):
            return None
        before = "" if check in {Check.EQUAL, Check.PREFIX} else ".*"
        after = "" if check in {Check.EQUAL, Check.SUFFIX} else ".*"
        wanted = re.compile(before + ".*".join(map(re.escape, text.split(GAP))) + after)
        return next((found for name, found in names.items() if wanted.fullmatch(name)), None)

    @cached_property
    def _by_kind(self) -> dict[Kind, tuple[_Names, _Names, _Names]]:
        """The single and the dotted names that a value of a kind may be, and words of the former."""
        classes = _names((cls.rpartition(".")[2], cls, "a class") for cls in sorted(self.classes))
        qualified = _names((cls, cls, "a class") for cls in sorted(self.classes))
        short = classes | _names((name, name, "a module or parameter") for name in sorted(self.attributes))
        nodes = _names((name.replace("/", "."), name, "a node") for name in sorted(self.nodes))
        paths = _names((path, path, "a path") for path in sorted(self.paths))
        homes = [(cls.rpartition(".")[0], cls) for cls in sorted(self.classes) if not cls.startswith("torch.")]
        below = [(home.partition(".")[2], home, cls) for home, cls in homes if "." in home]
        parts = _names((part, cls, "the module of a class") for path, _, cls in below for part in path.split("."))
        return {
            Kind.NAME: (short, nodes | paths | qualified, self._words(short)),
            Kind.CLASS_NAME: (classes, qualified, self._words(classes)),
            Kind.MODEL_TYPE: (_names((name, name, "the type") for name in sorted(self.types)), {}, {}),
            Kind.HOME: (parts, _names((home, cls, "the module of a class") for _, home, cls in below), {}),
        }

    def _words(self, short: _Names) -> _Names:
        """The words of the names that the model's author gave, each with the first name that it is of."""
        given = [found for found in short.values() if found[0] not in self.of_torch and not is_torch_nn(found[0])]
        found = [(word, each) for each in sorted(given) for word in tokens(each[0].rpartition(".")[2])]
        return {word: each for word, each in reversed(found) if len(word) > 3}


def _names(named: Iterable[tuple[str, str, str]]) -> _Names:
    return {text.casefold(): (name, kind) for text, name, kind in named}


def _in(names: _Names, text: str, check: Check = Check.PART) -> tuple[str, str] | None:
    """Return a name that a text is found in; dots in the text are compared with the ends of the name as well."""
    if text in names:
        return names[text]
    for name, found in names.items():
        whole = f".{name}."
        part = {Check.PREFIX: whole[1 : len(text) + 1], Check.SUFFIX: whole[-len(text) - 1 : -1]}.get(check, whole)
        # The packages around a class are no names of the model.
        is_in_last = found[1] != "a class" or whole.rfind(text) + len(text) > name.rfind(".") + 2
        if text in part and is_in_last:
            return found
    return None


def _ends(dotted: str) -> tuple[str, str]:
    return dotted.partition(".")[0], dotted.rpartition(".")[2]


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
