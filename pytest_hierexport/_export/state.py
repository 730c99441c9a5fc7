"""Restores a model after an export or a proof to exactly the state in which it was found."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import chain
from threading import RLock
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pytest_hierexport._errors import UsageError, gist

ONE_AT_A_TIME = RLock()
"""Held while functions of torch are replaced: of two threads that did so at once, one would put back the other's."""

WAS_TRAINING = "the model was in training mode; it was exported in eval mode"
"""What the user is told of a model for which :func:`in_eval_mode` gives true."""


@contextmanager
def as_found(model: torch.nn.Module) -> Iterator[None]:
    """Put back, when the context ends, also after an error, what a forward pass may store in the model or write to.

    That is every attribute of its modules, what the containers and objects among them hold, and the elements of its
    buffers and other tensors. Under a tracer what is stored would be a tensor without storage, left in the user's
    model. Parameters are not looked at: :func:`weights_as_found` is for who may change them.
    """
    found = list(_holders(model))
    tensors = [(tensor, tensor._version, tensor.detach().clone()) for tensor in _written_to(found)]
    try:
        yield
    finally:
        for holder in found:
            holder.restore()
        with torch.no_grad():
            for tensor, version, elements in tensors:
                if tensor._version != version:
                    tensor.copy_(elements)


@contextmanager
def weights_as_found(model: torch.nn.Module) -> Iterator[None]:
    """Put every parameter back, and whether it wants a gradient; elements written in place stay as they are."""
    found = [(parameter, parameter.data, parameter.requires_grad) for parameter in model.parameters()]
    try:
        yield
    finally:
        for parameter, data, wants_gradient in found:
            parameter.data = data
            parameter.requires_grad_(wants_gradient)


class _Holder:
    """Something that holds parts of the model, with what it held."""

    def __init__(self, read: Callable[[], list[Any]], write: Callable[[list[Any]], None]) -> None:
        self._read, self._write = read, write
        self.parts = read()

    def restore(self) -> None:
        if not _same(self._read(), self.parts):
            self._write(self.parts)


_BASES: tuple[Any, ...] = (OrderedDict, dict, list, set, deque, tuple, frozenset)
_MISSING = object()


def _container(holder: Any) -> _Holder:
    """Read and write by the methods of Python's own type: a subclass may refuse to be written to."""
    base = next(base for base in _BASES if isinstance(holder, base))
    is_mapping = issubclass(base, dict)

    def read() -> list[Any]:
        return list(chain(*base.items(holder))) if is_mapping else list(base.__iter__(holder))

    def write(parts: list[Any]) -> None:
        base.clear(holder)
        if is_mapping:
            for key, value in zip(parts[::2], parts[1::2], strict=True):
                base.__setitem__(holder, key, value)
        else:
            (base.update if base is set else base.extend)(holder, parts)

    return _Holder(read, write)


def _slotted(holder: Any, names: Sequence[str]) -> _Holder:
    def read() -> list[Any]:
        return [getattr(holder, name, _MISSING) for name in names]

    def write(parts: list[Any]) -> None:
        for name, was, now in zip(names, parts, read(), strict=True):
            # What was not written may be read-only: a property over the slot.
            if was is now:
                continue
            if was is not _MISSING:
                object.__setattr__(holder, name, was)
            else:
                object.__delattr__(holder, name)

    return _Holder(read, write)


def _same(now: list[Any], before: list[Any]) -> bool:
    """Whether these are the very same objects; tensors have no plain equality."""
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _holders(model: torch.nn.Module) -> Iterator[_Holder]:
    """Yield all that holds something of the model: its modules, then what is found in them, each once."""
    at: list[Any] = list(model.modules())
    seen: set[int] = set()
    while at:
        thing = at.pop()
        if id(thing) in seen or isinstance(thing, _HOLD_NOTHING):
            continue
        seen.add(id(thing))
        for holder in _held_by(thing):
            yield holder
            at += holder.parts


def _held_by(thing: Any) -> Iterator[_Holder]:
    if isinstance(thing, _BASES):
        yield _container(thing)
    elif isinstance(thing, (torch.nn.Module, SimpleNamespace)) or not _is_of_python_or_torch(type(thing)):
        attributes = getattr(thing, "__dict__", None)
        if isinstance(attributes, dict):
            yield _container(attributes)
        if names := _slots(type(thing)):
            yield _slotted(thing, names)


def _is_of_python_or_torch(cls: type) -> bool:
    """Whether a class is Python's own or torch's: a logger or a lock holds far more than the model, for others."""
    package = cls.__module__.partition(".")[0]
    return package == "torch" or package in sys.stdlib_module_names


def _slots(cls: type) -> list[str]:
    """Return the names of a class's slots, but for those that Python fills itself."""
    stated = (base.__dict__.get("__slots__", ()) for base in cls.__mro__)
    names = (name for slots in stated for name in ((slots,) if isinstance(slots, str) else slots))
    return [name for name in names if name not in ("__dict__", "__weakref__")]


_HOLD_NOTHING = (
    *(str, bytes, int, float, complex, type(None), type, Enum, torch.Tensor, torch.dtype, torch.device),
    *(FunctionType, MethodType, BuiltinFunctionType, ModuleType),
)


def _written_to(holders: Iterable[_Holder]) -> Iterator[torch.Tensor]:
    """Yield the tensors that a forward pass may write to and of which torch counts how often that was done."""
    parts = {id(part): part for holder in holders for part in holder.parts if isinstance(part, torch.Tensor)}
    yield from (t for t in parts.values() if not isinstance(t, torch.nn.Parameter) and not t.is_inference())


@contextmanager
def in_eval_mode(model: torch.nn.Module) -> Iterator[bool]:
    """Run in eval mode; gives whether any module was in training mode. :func:`as_found` puts the flags back.

    Raises:
        UsageError: The model does not go into eval mode, as `ExportedProgram.module()` does not.
    """
    training = any(module.training for module in model.modules())
    try:
        if training:
            model.eval()
    except Exception as error:
        raise UsageError(
            f"{type(model).__name__} to go into eval mode",
            found=gist(error),
            do="pass a model whose eval() works; of a program of torch.export, the module that it was made of",
        ) from error
    yield training


@contextmanager
def replaced(holder: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute while the context lasts."""
    original = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, original)


@contextmanager
def pytrees_as_found() -> Iterator[None]:
    """Forget the cache classes that transformers' exporter registers with torch's pytrees for good.

    Otherwise what dynamo can export would depend on the models that the process exported before. A class that registers
    itself when its module is imported stays registered.
    """
    if pytree._cxx_pytree_imported:  # optree keeps what it was told: a second registration would be an error
        yield
        return
    known, loaded = set(pytree.SUPPORTED_NODES), set(sys.modules)
    pending = len(pytree._cxx_pytree_pending_imports)
    try:
        yield
    finally:
        added = [cls for cls in pytree.SUPPORTED_NODES if cls not in known and cls.__module__ in loaded]
        for cls in added:
            pytree._deregister_pytree_node(cls)
        waiting = pytree._cxx_pytree_pending_imports
        waiting[pending:] = [each for each in waiting[pending:] if each[0][0] not in added]
