"""Resolves the old names of a renamed model, and records the lines of an exporter that ask for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, order=True)
class Asked:
    """A line of an exporter that asked for an old name."""

    path: Path
    line: int
    name: str


class Watch:
    """Notes each line of some files that asks for an old name.

    Lines of the model's own code, and of code that it calls, are ignored, even in a file of the exporter.

    Args:
        files: The exporter's files.
        model: The model that is renamed.
    """

    def __init__(self, files: Iterable[Path], model: torch.nn.Module) -> None:
        """Watch nothing yet: the renamed model calls `note`."""
        from torch import nn

        from pytest_hierexport._calls.names import is_torch_nn
        from pytest_hierexport._export.modules import class_of

        self.asked: set[Asked] = set()
        self._files = frozenset(files)
        of_torch = [vars(module) for module in model.modules() if is_torch_nn(class_of(module))]
        self._of_torch = {name for held in of_torch for name in (*held["_parameters"], *held["_buffers"])}
        classes = {cls for module in model.modules() for cls in type(module).__mro__}
        own = [cls for cls in classes if cls.__module__.partition(".")[0] not in {"torch", "builtins"}]
        self._own = frozenset(code for cls in own for code in _codes(vars(cls).values()))
        self._through = nn.Module.__call__.__code__.co_filename

    def note(self, name: str) -> None:
        """Note that the code which runs now asks for an old name, if it is an exporter's."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in {__file__, self._through}:
            frame = frame.f_back
        if frame is None or name in self._of_torch:
            return
        path = _resolved(frame.f_code.co_filename)
        if path in self._files and not self._is_models(frame):
            self.asked.add(Asked(path, frame.f_lineno, name))

    def _is_models(self, frame: FrameType | None) -> bool:
        """Return whether a frame is of the model's code, or of what that calls; a hook is called by torch."""
        while frame is not None and frame.f_code.co_filename != self._through:
            if frame.f_code in self._own:
                return True
            frame = frame.f_back
        return False


@cache
def _resolved(filename: str) -> Path:
    return Path(filename).resolve()


def _codes(values: Iterable[Any]) -> Iterator[CodeType]:
    """Yield the code of functions, with that of what they wrap and define."""
    pending, seen = list(values), set[int]()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, CodeType):
            yield value
            pending += value.co_consts
        else:
            pending += (getattr(value, name, None) for name in ("__code__", "__func__", "__wrapped__", "fget", "func"))
            pending += _enclosed(value)


def _enclosed(function: Any) -> Iterator[Any]:
    """Yield the functions that a decorated function holds in its closure."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held = cell.cell_contents
        except ValueError:
            continue
        if hasattr(held, "__code__"):
            yield held


class OldName:
    """A descriptor for an attribute's old name: it looks up the new name on the module.

    torch's tracers follow paths by the names of attribute accesses. An entry of the module's own `__dict__` goes
    first.
    """

    def __init__(self, old: str, new: str, note: Callable[[str], None] | None) -> None:
        """Answer to `old` with what is held as `new`."""
        self._old, self._new, self._note = old, new, note

    def __get__(self, module: torch.nn.Module | None, owner: type) -> Any:
        """Return what the module holds under the new name."""
        if module is None:
            raise AttributeError(f"{owner.__name__} has this attribute in its modules alone")
        _tell(self._note, self._old)
        return getattr(module, self._new)


class Registry(dict[str, Any]):
    """A module's registry under new names that answers to the old ones as well."""

    def __init__(self, entries: Mapping[str, Any], new: Mapping[str, str], note: Callable[[str], None] | None) -> None:
        """Hold entries under their new names; `new` gives these by the old."""
        super().__init__(entries)
        self._new, self._note = new, note

    def __contains__(self, name: object) -> bool:
        """Return whether there is an entry of an old or new name."""
        return super().__contains__(self._of(name))

    def __getitem__(self, name: str) -> Any:
        """Return the entry of an old or new name."""
        return super().__getitem__(self._of(name))

    def __setitem__(self, name: str, value: Any) -> None:
        """Replace the entry of an old or new name."""
        super().__setitem__(self._of(name), value)

    def __delitem__(self, name: str) -> None:
        """Remove the entry of an old or new name."""
        super().__delitem__(self._of(name))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry of an old or new name, or a default."""
        return super().get(self._of(name), default)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove and return the entry of an old or new name."""
        return super().pop(self._of(name), *default)

    def _of(self, name: Any) -> Any:
        new = self._new.get(name, name)
        if new != name and super().__contains__(new):
            _tell(self._note, name)
        return new


def _tell(note: Callable[[str], None] | None, old: str) -> None:
    from torch.compiler import is_dynamo_compiling

    # What dynamo runs symbolically is the model's own code, and looking at frames would break its graph.
    if note is not None and not is_dynamo_compiling():
        note(old)
