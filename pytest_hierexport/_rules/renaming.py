"""A model under other names: every class and every attribute of the author's own, renamed and put back.

Renaming changes no computation. So an exporter that knows no model gives the same graph with renamed tags; one that
decides by a name gives another graph or other tags.

A class is renamed through a generated subclass, an attribute by its key in the module's registries. These still resolve
the old name, for models write as well as read by it: transformers' dynamic rotary embeddings call
`register_buffer("inv_freq", …)` in their forward, others look into `_modules`. These names stay:

- keys of lists and dicts, which are positions and data, not attributes, and whatever in a name is no letter;
- a module whose class `torch.nn` defines, whole: its class has no segment in a tag, its names are torch's and the
  same in every model, and torch's own code finds parameters by them (`_flat_weights_names`);
- parameters and buffers of a class that extends such a building block, for the same reason;
- what TorchScript compiled, whose names are fixed in its code, and the parts of a module that finds them in its own
  way, by these names alone, as what `torch.compile` gives does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import getattr_static
from itertools import product
from string import ascii_lowercase
from types import new_class
from typing import Any

from torch import nn
from torch.jit import ScriptModule

from pytest_hierexport._calls.attribution import Attribution, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.names import encode, is_torch_nn, join_path, scope_of
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._export.modules import qualified, walk_modules, written_class
from pytest_hierexport._rules.new_names import CODE_LENGTH, STEM, WORD, Names, with_words
from pytest_hierexport._rules.old_names import OldName, OnOldName, Registry

_REGISTRIES = ("_modules", "_parameters", "_buffers")
_NOT_SAVED = "_non_persistent_buffers_set"


class CannotRenameError(HierexportError):
    """A model that has a class of which no subclass can be made."""


@dataclass(frozen=True)
class Renaming:
    """The names of a model before and after it was renamed."""

    paths: Mapping[str, str]
    """Every encoded path of a module instance, new ones by old ones."""
    names: Names
    """The words that new names are made of, and the generated classes."""

    def is_renamed(self, call: str) -> bool:
        """Return whether a call has an old name that was to be replaced."""
        path = call.partition("@")[0]
        return self.paths.get(path, path) != path

    def under_own_names(self, attribution: Attribution) -> Attribution:
        """Return the same attribution under the model's own names.

        Raises:
            ValueError: Two of its calls have one name then.
        """
        own = self.names.old
        calls = (
            Call(own(call.path), call.index, own(call.cls), None if call.parent is None else own(call.parent))
            for call in attribution.hierarchy.values()
        )
        nodes, initializers = (
            {key: tuple(Origin(own(each.call), each.evidence) for each in origins) for key, origins in held.items()}
            for held in (attribution.nodes, attribution.initializers)
        )
        return Attribution(Hierarchy(calls, keep=attribution.hierarchy.keep), nodes, initializers)


@contextmanager
def renamed(model: nn.Module, *, printed: bool = True, note: OnOldName | None = None) -> Iterator[Renaming]:
    """Rename the model in place while the context lasts.

    Args:
        model: Any module; it computes the same under its new names, and nothing is copied.
        printed: Whether `str(type(module))` shows the new name too. Some models look themselves up by what their
            class prints; False leaves that as it was, and renames `__name__` and `__qualname__` alone.
        note: Called with each old name that is looked up in the model, and the frame that asks.

    Raises:
        CannotRenameError: A class forbids subclasses; the model is left as it was.
    """
    plan = _Plan(model, printed=printed, note=note)
    before = [(m, type(m), {name: vars(m)[name] for name in (*_REGISTRIES, _NOT_SAVED)}) for m in plan.modules]
    try:
        old = _paths(model)
        for module in plan.modules:
            plan.apply(module)
        yield Renaming(dict(zip(old, _paths(model), strict=True)), plan.names)
    finally:
        for module, cls, registries in before:
            object.__setattr__(module, "__class__", cls)
            vars(module).update(registries)


def _paths(model: nn.Module) -> list[str]:
    return [join_path(path) for path, _ in walk_modules(model)]


class _Names:
    """A new name for each old one: each of its words becomes a new word, the same one throughout the model.

    So a new name has the digits, separators and letter case of the old one, which are conventions and no names, and
    whatever is cut out of it, or made of it, can be told from other texts (:mod:`new_names`).
    """

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        taken = {name for cls in {type(module) for module in modules} for name in (cls.__name__, *dir(cls))}
        for module in modules:
            # The registries of what TorchScript compiled are no dicts.
            taken.update(vars(module), *(getattr(module, registry).keys() for registry in _REGISTRIES))
        text = "\n".join(taken).lower()
        codes = ("".join(letters) for letters in product(ascii_lowercase, repeat=CODE_LENGTH))
        fresh = (word for code in codes if (word := STEM + code) not in text)
        self.words: defaultdict[str, str] = defaultdict(lambda: next(fresh))
        """New words by old ones."""
        self.attributes: dict[str, str] = {}
        """New names of attributes by old ones."""

    def of_class(self, name: str) -> str:
        return with_words(name, WORD, self.words.__getitem__)

    def of_attribute(self, name: str) -> str:
        return self.attributes.get(name) or self.attributes.setdefault(name, self.of_class(name))


class _Plan:
    """The generated classes of a model, and the registries that are renamed, by the model's own classes."""

    def __init__(self, model: nn.Module, *, printed: bool, note: OnOldName | None) -> None:
        self._names, self._note = _Names(model), note
        self._generated: dict[type, type] = {}
        self._registries: dict[type, tuple[str, ...]] = {}
        self.modules = [module for module in model.modules() if not isinstance(module, ScriptModule)]
        for module in self.modules:
            cls, named = type(module), written_class(module)
            if cls in self._registries or is_torch_nn(qualified(named)):
                continue
            new = self._generated.get(named) or _subclass(named, self._names.of_class(named.__name__), printed=printed)
            self._generated |= {named: new, cls: new if cls is named else _made_again(cls, new)}
            self._registries[cls] = _renamed_registries(module)
        self.names = Names(self._names.words, {id(new): old for old, new in self._generated.items()})

    def apply(self, module: nn.Module) -> None:
        """Rename a module; its generated class answers to the old names that its own class does not have itself."""
        cls, rename = type(module), self._names.of_attribute
        for registry in self._registries.get(cls, ()):
            entries = vars(module)[registry]
            renamed = {rename(name): value for name, value in entries.items()}
            vars(module)[registry] = Registry(renamed, self._names.attributes, self._note)
            for old in entries:
                if rename(old) != old and not any(old in vars(base) for base in cls.__mro__):
                    setattr(self._generated[cls], old, OldName(old, rename(old), self._note))
            if registry == "_buffers":
                vars(module)[_NOT_SAVED] = {rename(name) for name in vars(module)[_NOT_SAVED]}
                if renamed.keys() != entries.keys():
                    for method in ("__setattr__", "register_buffer"):
                        setattr(self._generated[cls], method, _by_new_names(cls, method, self._names.attributes))
        object.__setattr__(module, "__class__", self._generated.get(cls, cls))


def _by_new_names(cls: type, method: str, new: Mapping[str, str]) -> Callable[..., None]:
    """Return a class's method that assigns to buffers, under their new names.

    Of `self.count += 1` or `self.register_buffer("count", …)` in the root's forward, `torch.export` looks up the
    assigned name among the root's buffers.
    """
    own: Any = getattr(cls, method)

    # torch looks for a parameter `persistent` before it registers a buffer that is assigned.
    @wraps(own)
    def assign(module: nn.Module, name: str, *value: Any, **options: Any) -> None:
        renamed = new.get(name, name)
        own(module, renamed if renamed in vars(module)["_buffers"] else name, *value, **options)

    return assign


def _renamed_registries(module: nn.Module) -> tuple[str, ...]:
    """Return the registries whose keys are attributes that the module's author named."""
    if not _finds_by_registry(module):
        return ()
    keyed = isinstance(module, (nn.ModuleDict, nn.ModuleList))
    extends = any(base is not nn.Module and is_torch_nn(qualified(base)) for base in type(module).__mro__)
    return (() if keyed else ("_modules",)) + (() if extends else ("_parameters", "_buffers"))


def _finds_by_registry(module: nn.Module) -> bool:
    """Whether a module returns every entry of its registries by attribute access."""
    held = vars(module)["_modules"]
    name = "a name that no module has"
    vars(module)["_modules"] = {**held, name: module}
    try:
        return getattr(module, name) is module
    except Exception:  # noqa: BLE001  # a class may look for attributes in any way it likes
        return False
    finally:
        vars(module)["_modules"] = held


class _Silent:
    """The first base of a class while it is made, so that no other base hears of it.

    `__init_subclass__` may ask for an argument, wrap `forward` once more, or keep each class in a registry.
    """

    def __init_subclass__(cls, **_: object) -> None:
        pass


def _subclass(cls: type, new: str, *, printed: bool) -> type:
    """Return a subclass with a new name, which tags show."""
    scope = scope_of(cls.__qualname__, cls.__name__)
    names = {"__module__": cls.__module__, "__qualname__": f"{scope}{new}", "__dir__": _without_old_names(cls)}
    metaclass = type(cls) if printed else type(type(cls).__name__, (type(cls),), {"__repr__": lambda _: repr(cls)})
    try:
        made = new_class(new, (_Silent, cls), {"metaclass": metaclass}, lambda held: held.update(names))
        made.__bases__ = (cls,)
    except Exception as error:  # a class may forbid subclasses in any way it likes
        raise CannotRenameError(
            "every class of the model to have subclasses, for it is renamed through one",
            found=f"{encode(cls.__module__)}.{cls.__qualname__}: {type(error).__name__}: {error}",
            do="let that class be extended, or leave it out of the case",
        ) from error
    return made


def _without_old_names(cls: Any) -> Callable[[nn.Module], list[str]]:
    """Return a class's `__dir__` for a subclass: who lists the parts of a module finds each once, as in the model."""

    def names(module: nn.Module) -> list[str]:
        return [each for each in cls.__dir__(module) if not isinstance(getattr_static(type(module), each, 0), OldName)]

    return names


def _made_again(cls: type, base: type) -> type:
    """Return a copy of a class that torch made for parametrisations, with another base.

    torch empties this class when it removes the parametrisations, so that of the original model cannot be shared.
    """
    held = {name: value for name, value in vars(cls).items() if name not in {"__dict__", "__weakref__"}}
    return type(base)(cls.__name__, (base,), held)
