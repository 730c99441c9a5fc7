"""Restores a model, after an export or a proof, to the state in which it was found."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from pytest_hierexport._errors import UsageError, gist

WAS_TRAINING = "the model was in training mode; it was exported in eval mode"
"""The note for a model for which :func:`in_eval_mode` gives True."""


@contextmanager
def as_found(model: torch.nn.Module) -> Iterator[None]:
    """Undo, when the context ends, also after an error, what a forward pass changed in the model.

    Restored are the attributes of its modules, the contents of the containers and objects that they refer to, and the
    elements of buffers and other tensors. A model that stores a value in its forward pass would otherwise keep one of
    a tracer's tensors, which has no storage. What a forward pass writes into parameters stays: their copies would need
    as much memory as the model. Use :func:`weights_as_found` around code that may replace their tensors. A lazy module
    is left as its first run makes it.
    """
    records = list(_records(model))
    tensors = [(t, t.data, t._version, t.requires_grad, t.detach().clone()) for t in _writable_tensors(records)]
    try:
        yield
    finally:
        for record in records:
            record.restore()
        with torch.no_grad():
            for tensor, data, version, required, elements in tensors:
                # With gradients, a write makes a buffer part of the graph of autograd; torch detaches no view in place.
                if tensor.requires_grad and not required and not tensor._is_view():
                    tensor.detach_()
                tensor.data = data  # it may have been resized, or have the memory of another tensor now
                if tensor._version != version or _differ(tensor, elements):
                    tensor.copy_(elements)


def _differ(tensor: torch.Tensor, elements: torch.Tensor) -> bool:
    """Whether elements were written through `tensor.data`, which leaves the version as it is.

    False where torch cannot compare them: fake tensors have no elements, and sparse ones no operator for it.
    """
    with suppress(Exception):
        return not torch.equal(tensor, elements)
    return False


@contextmanager
def weights_as_found(model: torch.nn.Module) -> Iterator[None]:
    """Restore each parameter's tensor and `requires_grad`; elements that were written in place are not restored."""
    originals = [(parameter, parameter.data, parameter.requires_grad) for parameter in model.parameters()]
    try:
        yield
    finally:
        for parameter, data, requires_grad in originals:
            parameter.data = data
            parameter.requires_grad_(requires_grad)


class _Record:
    """The contents of a container or an object, so that they can be restored."""

    def __init__(self, read: Callable[[], list[Any]], write: Callable[[list[Any]], None]) -> None:
        self._read, self._write = read, write
        self.parts = read()

    def restore(self) -> None:
        # Compared by identity: `==` of two tensors gives a tensor.
        if list(map(id, self._read())) != list(map(id, self.parts)):
            self._write(self.parts)


_BASES: tuple[Any, ...] = (OrderedDict, dict, list, set, deque, tuple, frozenset)
_MISSING = object()


def _record_of_container(container: Any) -> _Record:
    # The methods of the built-in type are called: those of a subclass may refuse to write.
    base = next(base for base in _BASES if isinstance(container, base))
    is_mapping = issubclass(base, dict)

    def read() -> list[Any]:
        return list(chain(*base.items(container))) if is_mapping else list(base.__iter__(container))

    def write(parts: list[Any]) -> None:
        base.clear(container)
        if is_mapping:
            for key, value in zip(parts[::2], parts[1::2], strict=True):
                base.__setitem__(container, key, value)
        else:
            (base.update if base is set else base.extend)(container, parts)

    return _Record(read, write)


def _record_of_slots(instance: Any, names: Sequence[str]) -> _Record:
    def read() -> list[Any]:
        return [getattr(instance, name, _MISSING) for name in names]

    def write(parts: list[Any]) -> None:
        for name, was, now in zip(names, parts, read(), strict=True):
            # An unchanged slot is not written: a property of the same name may make it read-only.
            if was is now:
                continue
            if was is not _MISSING:
                object.__setattr__(instance, name, was)
            else:
                object.__delattr__(instance, name)

    return _Record(read, write)


def _records(model: torch.nn.Module) -> Iterator[_Record]:
    """Yield a record of each module, and of each container and object that can be reached from one."""
    pending: list[Any] = list(model.modules())
    seen: set[int] = set()
    while pending:
        candidate = pending.pop()
        if id(candidate) in seen or isinstance(candidate, _LEAF_TYPES):
            continue
        seen.add(id(candidate))
        for record in _records_of(candidate):
            yield record
            pending += record.parts


def _records_of(candidate: Any) -> Iterator[_Record]:
    cls = type(candidate)
    if isinstance(candidate, _BASES):
        yield _record_of_container(candidate)
    elif isinstance(candidate, torch.nn.Module) and _is_lazy(candidate):
        yield _record_of_slots(candidate, ["training"])
    elif isinstance(candidate, (torch.nn.Module, SimpleNamespace)) or not _is_of_python_or_torch(cls):
        attributes = getattr(candidate, "__dict__", None)
        if isinstance(attributes, dict):
            yield _record_of_container(attributes)
        if names := slots_of(cls):
            yield _record_of_slots(candidate, names)


def _is_lazy(module: torch.nn.Module) -> bool:
    """Whether a module still gets its weights and its class: the first run draws them, and the graph has these."""
    return any(map(is_lazy, chain(module.parameters(recurse=False), module.buffers(recurse=False))))


def _is_of_python_or_torch(cls: type) -> bool:
    """Whether a class belongs to Python or torch: a logger or a lock refers to state that is not the model's."""
    package = cls.__module__.partition(".")[0]
    return package == "torch" or package in sys.stdlib_module_names


def slots_of(cls: type) -> list[str]:
    """Return the names of a class's slots, without those that Python itself fills.

    `copyreg` knows them, too, but leaves an attribute in the class, which a cached result of another model depends on.
    """
    names = (name for base in cls.__mro__ for name in _own_slots(base))
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _own_slots(cls: type) -> list[str]:
    """Return the names of the slots that a class states itself; Python writes the class into those of private ones."""
    slots = cls.__dict__.get("__slots__", ())
    own = f"_{cls.__name__.lstrip('_')}"
    names = (slots,) if isinstance(slots, str) else slots
    return [f"{own}{name}" if name.startswith("__") and not name.endswith("__") else name for name in names]


_LEAF_TYPES = (
    *(str, bytes, int, float, complex, type(None), type, Enum, torch.Tensor, torch.dtype, torch.device),
    *(FunctionType, MethodType, BuiltinFunctionType, ModuleType),
)


def _writable_tensors(records: Iterable[_Record]) -> Iterator[torch.Tensor]:
    """Yield the tensors that a forward pass may write to; inference tensors have no version that would show it."""
    parts = {id(part): part for record in records for part in record.parts if isinstance(part, torch.Tensor)}
    yield from (t for t in parts.values() if not isinstance(t, torch.nn.Parameter) and not t.is_inference())


@contextmanager
def in_eval_mode(model: torch.nn.Module) -> Iterator[bool]:
    """Run in eval mode; gives whether any module was in training mode.

    Modules go back by their `train()`: a class that merges weights in its `eval()` (LoRA) takes them apart there.
    :func:`as_found` restores the flags also where that fails.

    Raises:
        UsageError: The model's `eval()` fails, as that of `ExportedProgram.module()` does.
    """
    # A frozen part in TorchScript has no mode.
    modes = [(module, getattr(module, "training", False)) for module in model.modules()]
    training = any(mode for _, mode in modes)
    required = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        if training:
            _to_eval_mode(model)
        yield training
    finally:
        for module, mode in modes if training else ():  # a module before those in it: `train()` sets these, too
            if getattr(module, "training", False) != mode:
                with suppress(Exception):
                    module.train(mode)
        for parameter, was in required:
            if parameter.requires_grad != was:
                parameter.requires_grad_(was)


def _to_eval_mode(model: torch.nn.Module) -> None:
    try:
        model.eval()
    except Exception as error:
        raise UsageError(
            f"{type(model).__name__} to go into eval mode",
            found=gist(error),
            do="pass a model whose eval() works; of a program of torch.export, the module that it was made of",
        ) from error


@contextmanager
def pytrees_as_found() -> Iterator[None]:
    """Deregister, when the context ends, the cache classes that transformers' exporter registered as torch pytrees.

    Otherwise it would depend on the models that the process exported before which models dynamo can export. A class
    that is registered by the import of its module stays registered: the module is not imported a second time.
    """
    if pytree._cxx_pytree_imported:  # optree keeps registrations, and a second one of the same class is an error
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
