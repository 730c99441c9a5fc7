"""Names the module instances of a model and describes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from pytest_hierexport._calls.hierarchy import Module, Parameter
from pytest_hierexport._calls.names import encode, is_torch_nn, join_path, qualified_class
from pytest_hierexport._errors import UsageError

if TYPE_CHECKING:
    import torch


def class_of(module: torch.nn.Module) -> str:
    """Return the qualified class of a module.

    A class that parametrisation made on the fly stands for the first class in its MRO that it did not make.
    """
    made = next(cls for cls in type(module).__mro__ if not _made_by_torch(cls))
    return qualified_class(made.__module__, made.__qualname__, made.__name__)


def _made_by_torch(cls: type) -> bool:
    """Whether a class claims to live in one of torch's modules that does not define it."""
    home = cls.__module__
    if not is_torch_nn(f"{home}."):
        return False
    found: object = sys.modules.get(home)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is not cls


def kept_classes(names: Sequence[str]) -> frozenset[str]:
    """Resolve the classes that a user wants to see in tags, given as `package.Class`, by importing them.

    Raises:
        UsageError: A name that imports to no class.
    """
    return frozenset(_resolve_class(name) for name in names)


def _resolve_class(name: str) -> str:
    found = ""
    try:
        cls = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        found = str(error)
    else:
        if isinstance(cls, type):
            return qualified_class(cls.__module__, cls.__qualname__, cls.__name__)
        found = f"a {type(cls).__name__}, not a class"
    raise UsageError(
        "classes to keep, each importable as package.Class",
        found=f"{name!r} ({found})",
        do="correct or drop that name",
    )


class Instances:
    """The module instances of a model and the paths under which each can be reached.

    An instance is known by its attribute dictionary, which torch's tracing proxies share with the module that
    they stand for.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Collect every path, those of shared instances included."""
        self.root = model
        self._paths: dict[int, list[str]] = {}
        self._modules: dict[int, torch.nn.Module] = {}
        for parts, module in _walk(model):
            self._paths.setdefault(id(vars(module)), []).append(join_path(parts))
            self._modules[id(vars(module))] = module
        self._by_identity = {str(id(module)): module for module in self._modules.values()}

    def paths(self, module: torch.nn.Module) -> list[str]:
        """Return the paths of an instance, the first found first; none for a module that is not the model's."""
        return self._paths.get(id(vars(module)), [])

    def class_of(self, module: torch.nn.Module) -> str:
        """Return the qualified class of an instance, also where a tracing proxy stands for it."""
        return class_of(self._modules[id(vars(module))])

    def classes(self) -> set[type]:
        """Return every class that an instance is of, base classes included."""
        return {cls for module in self._modules.values() for cls in type(module).__mro__}

    def by_identity(self, identity: str) -> torch.nn.Module | None:
        """Return the instance whose `id` is given as text; None for anything that is not the model's."""
        return self._by_identity.get(identity)

    def tensors(self) -> dict[str, tuple[str, ...]]:
        """Return the paths of the modules that own each parameter and buffer, by every dotted name it goes by.

        The names are torch's own, not encoded. A tensor that several modules share has them all as owners.
        """
        named: dict[str, torch.Tensor] = {}
        owners: dict[int, list[str]] = {}
        for parts, module in _walk(self.root):
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    named[".".join((*parts, name))] = tensor
                    owners.setdefault(id(tensor), []).append(join_path(parts))
        return {name: tuple(owners[id(tensor)]) for name, tensor in named.items()}

    def is_root(self, module: torch.nn.Module) -> bool:
        """Whether the module is the model itself, or a proxy of it."""
        return vars(module) is vars(self.root)


_MOST_PATHS = 10_000
"""How many paths are listed before an instance that has one is given no other: names under names multiply."""


def _walk(root: torch.nn.Module) -> Iterator[tuple[tuple[str, ...], torch.nn.Module]]:
    """Yield every path, not only the first to each instance; a module that holds itself ends its path."""
    met: set[int] = set()
    listed = 0
    at: list[tuple[tuple[str, ...], torch.nn.Module, tuple[int, ...]]] = [((), root, ())]
    while at:
        parts, module, above = at.pop()
        if id(module) in above or (id(module) in met and listed >= _MOST_PATHS):
            continue
        met.add(id(module))
        listed += 1
        yield parts, module
        held = [(name, child) for name, child in module._modules.items() if child is not None]
        at += [((*parts, name), child, (*above, id(module))) for name, child in reversed(held)]


def module_tree(model: torch.nn.Module) -> tuple[Module, ...]:
    """Return every module instance of the model under every path, with the parameters and buffers that it owns.

    An instance of several paths names the first of them in all others. So does a tensor that is declared more than
    once, by tied parameters or by such an instance.
    """
    first: dict[int, str] = {}
    return tuple(_module(join_path(parts), module, first) for parts, module in _walk(model))


def _module(path: str, module: torch.nn.Module, first: dict[int, str]) -> Module:
    """Describe an instance under one path; `first` gains its path and its tensors' names, where they are new to it."""
    shared = first.setdefault(id(module), path)
    parameters = tuple(_parameters(path, module, first))
    return Module(path, class_of(module), parameters, None if shared == path else shared)


def _parameters(path: str, module: torch.nn.Module, first: dict[int, str]) -> Iterator[Parameter]:
    """Yield what a module declares; `first` gains the dotted name of each tensor that is new to it, by identity."""
    for held, trainable in ((module._parameters, True), (module._buffers, False)):
        for name, tensor in held.items():
            if tensor is not None:
                full = f"{path}.{encode(name)}" if path else encode(name)
                shared = first.setdefault(id(tensor), full)
                shape, dtype = tuple(int(d) for d in tensor.shape), str(tensor.dtype).rpartition(".")[2]
                yield Parameter(encode(name), shape, dtype, trainable, None if shared == full else shared)
