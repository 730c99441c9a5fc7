"""A model under other names: every class and every attribute of the author's own, renamed and put back.

Renaming changes no computation. So an exporter that knows no model gives the same graph with renamed tags; one that
decides by a name gives another graph or other tags.

A class is renamed through a generated subclass, an attribute by its key in the module's registries, which still
answer to the old name. What keeps its name:

- keys of lists and dicts, which are positions and data, not attributes;
- a module whose class `torch.nn` defines, whole: its class has no segment in a tag, its names are torch's and the
  same in every model, and torch's own code finds parameters by them (`_flat_weights_names`);
- parameters and buffers of a class that extends such a building block, for the same reason;
- what TorchScript compiled, whose names are fixed in its code, and the parts of a module that finds them in its own
  way, by these names alone, as what `torch.compile` gives does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import new_class
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.names import encode, is_torch_nn, join_path, qualified_class
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._rules.old_names import OldName, Registry

if TYPE_CHECKING:
    import torch

__all__ = ["CannotRenameError", "Renaming", "renamed"]

_REGISTRIES = ("_modules", "_parameters", "_buffers")


class CannotRenameError(HierexportError):
    """A model that has a class of which no subclass can be made."""


@dataclass(frozen=True)
class Renaming:
    """A map of every renamed path, class and tensor, old to new."""

    paths: Mapping[str, str]
    """Every encoded path of a module instance."""
    classes: Mapping[str, str]
    """Every qualified class that was renamed."""
    tensors: Mapping[str, str]
    """Every dotted name of a parameter or buffer, as `named_parameters` writes it."""

    @property
    def reverse(self) -> Renaming:
        """New to old."""
        paths, classes, tensors = (
            {new: old for old, new in names.items()} for names in (self.paths, self.classes, self.tensors)
        )
        return Renaming(paths, classes, tensors)

    def call(self, call: Call) -> Call:
        """Return the call under its new names."""
        parent = None if call.parent is None else self.call_name(call.parent)
        return Call(self._path(call.path), call.index, self.classes.get(call.cls, call.cls), parent)

    def call_name(self, name: str) -> str:
        """Return the new name of a call."""
        path, mark, index = name.partition("@")
        return f"{self._path(path)}{mark}{index}"

    def hierarchy(self, hierarchy: Hierarchy) -> Hierarchy:
        """Return the same calls under their new names."""
        return Hierarchy((self.call(call) for call in hierarchy.values()), keep=hierarchy.keep)

    def _path(self, path: str) -> str:
        return self.paths.get(path, path)


@contextmanager
def renamed(
    model: torch.nn.Module, *, printed: bool = True, note: Callable[[str], None] | None = None
) -> Iterator[Renaming]:
    """Rename the model in place while the context lasts.

    Args:
        model: Any module; it computes the same under its new names, and nothing is copied.
        printed: Whether `str(type(module))` shows the new name too. Some models look themselves up by what their
            class prints; False leaves that as it was, and renames `__name__` and `__qualname__` alone.
        note: Called with each old name that is looked up in the model.

    Raises:
        CannotRenameError: A class forbids subclasses; the model is left as it was.
    """
    names = _Names(model)
    plan = _Plan(model, names, printed=printed, note=note)
    modules = [module for module in model.modules() if not _is_compiled(module)]
    before = [(module, type(module), {r: vars(module)[r] for r in _REGISTRIES}) for module in modules]
    non_persistent = [(module, set(module._non_persistent_buffers_set)) for module in modules]
    try:
        for module in modules:
            plan.apply(module)
        yield plan.renaming
    finally:
        for module, cls, registries in before:
            object.__setattr__(module, "__class__", cls)
            vars(module).update(registries)
        for module, buffers in non_persistent:
            module._non_persistent_buffers_set = buffers


class _Names:
    """One new name for each old one, the same throughout the model, and none that something else has."""

    def __init__(self, model: torch.nn.Module) -> None:
        modules = list(model.modules())
        self._taken = {name for cls in {type(module) for module in modules} for name in dir(cls)}
        for module in modules:
            # The registries of what TorchScript compiled are no dicts.
            self._taken.update(vars(module), *(getattr(module, registry).keys() for registry in _REGISTRIES))
        self._numbers = count()
        self._classes: dict[str, str] = {}
        self.attributes: dict[str, str] = {}

    def of_class(self, name: str) -> str:
        return self._classes.get(name) or self._classes.setdefault(name, self._fresh("Renamed"))

    def of_attribute(self, name: str) -> str:
        # A name made of digits is an index in whatever kind of list a module keeps.
        if name.isdecimal():
            return name
        return self.attributes.get(name) or self.attributes.setdefault(name, self._fresh("renamed"))

    def _fresh(self, stem: str) -> str:
        return next(name for i in self._numbers if (name := f"{stem}{i}") not in self._taken)


class _Plan:
    """The generated classes, and what becomes of each module."""

    def __init__(
        self, model: torch.nn.Module, names: _Names, *, printed: bool, note: Callable[[str], None] | None
    ) -> None:
        self._names = names
        self._note = note
        self._printed = printed
        self._generated: dict[type, type] = {}
        self._fixed: set[type] = set()
        self._classes: dict[str, str] = {}
        for module in model.modules():
            self._generate(module)
        for module in model.modules():
            self._keep_old_names(module)
        paths: dict[str, str] = {}
        tensors: dict[str, str] = {}
        for old, new, module in self._walk(model):
            paths[join_path(old)] = join_path(new)
            tensors.update(self._tensors(old, new, module))
        self.renaming = Renaming(paths, self._classes, tensors)

    def apply(self, module: torch.nn.Module) -> None:
        for registry in self._renames(type(module)):
            entries = vars(module)[registry]
            new = {self._names.of_attribute(name): value for name, value in entries.items()}
            vars(module)[registry] = Registry(new, self._names.attributes, self._note)
            if registry == "_buffers":
                kept = module._non_persistent_buffers_set
                module._non_persistent_buffers_set = {self._names.of_attribute(name) for name in kept}
        object.__setattr__(module, "__class__", self._generated.get(type(module), type(module)))

    def _renames(self, cls: type) -> tuple[str, ...]:
        """The registries of a class's modules whose keys are attributes that its author named."""
        from torch import nn

        if cls not in self._generated or cls in self._fixed:
            return ()
        keyed = issubclass(cls, (nn.ModuleDict, nn.ModuleList))
        extends = any(base is not nn.Module and is_torch_nn(_qualified(base)) for base in cls.__mro__)
        return (() if keyed else ("_modules",)) + (() if extends else ("_parameters", "_buffers"))

    def _generate(self, module: torch.nn.Module) -> None:
        cls, stands_for = type(module), _stands_for(module)
        if cls in self._generated or is_torch_nn(_qualified(stands_for)) or _is_compiled(module):
            return
        if not _finds_by_registry(module):
            self._fixed.add(cls)
        old = stands_for.__name__
        new = self._names.of_class(old)
        qualname = stands_for.__qualname__.removesuffix(old) + new
        self._generated[cls] = _subclass(cls, stands_for.__module__, qualname, printed=self._printed)
        self._classes[_qualified(stands_for)] = qualified_class(stands_for.__module__, qualname, new)

    def _keep_old_names(self, module: torch.nn.Module) -> None:
        """Let a generated class answer to the names that its module's parts had, where the class itself has no such."""
        for registry in self._renames(type(module)):
            for old in vars(module)[registry]:
                new = self._names.of_attribute(old)
                if new != old and not any(old in vars(base) for base in type(module).__mro__):
                    setattr(self._generated[type(module)], old, OldName(old, new, self._note))

    def _walk(
        self, module: torch.nn.Module, old: tuple[str, ...] = (), new: tuple[str, ...] = (), above: tuple[int, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], torch.nn.Module]]:
        """Yield every path, old and new; a module that holds itself ends its path."""
        if id(module) in above:
            return
        yield old, new, module
        renames = "_modules" in self._renames(type(module))
        for name, child in module._modules.items():
            if child is not None:
                other = self._names.of_attribute(name) if renames else name
                yield from self._walk(child, (*old, name), (*new, other), (*above, id(module)))

    def _tensors(self, old: tuple[str, ...], new: tuple[str, ...], module: torch.nn.Module) -> dict[str, str]:
        renames = "_parameters" in self._renames(type(module))
        return {
            ".".join((*old, name)): ".".join((*new, self._names.of_attribute(name) if renames else name))
            for name in (*module._parameters.keys(), *module._buffers.keys())
        }


def _stands_for(module: torch.nn.Module) -> type:
    """Return the class by which tags call the module: not its own where parametrisation made that."""
    from pytest_hierexport._export.modules import class_of

    name = class_of(module)
    return next(cls for cls in type(module).__mro__ if _qualified(cls) == name)


def _is_compiled(module: torch.nn.Module) -> bool:
    from torch.jit import ScriptModule

    return isinstance(module, ScriptModule)


def _finds_by_registry(module: torch.nn.Module) -> bool:
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


def _qualified(cls: type) -> str:
    return qualified_class(cls.__module__, cls.__qualname__, cls.__name__)


def _subclass(cls: type, home: str, qualname: str, *, printed: bool) -> type:
    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(__module__=home, __qualname__=qualname)

    metaclass = type(cls) if printed else type(type(cls).__name__, (type(cls),), {"__repr__": lambda _: repr(cls)})
    try:
        generated = new_class(qualname.rpartition(".")[2], (cls,), {"metaclass": metaclass}, fill)
    except Exception as error:  # a class may forbid subclasses in any way it likes
        raise CannotRenameError(
            "every class of the model to have subclasses, for it is renamed through one",
            found=f"{encode(cls.__module__)}.{cls.__qualname__}: {type(error).__name__}: {error}",
            do="let that class be extended without arguments, or leave it out of the case",
        ) from error
    return generated
