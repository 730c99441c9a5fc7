"""What answers to the old names of a renamed module, and notes who asks."""

from __future__ import annotations

import copy
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import FrameType
from typing import Any, TypeAlias

from torch import nn
from torch.compiler import is_dynamo_compiling

from pytest_hierexport._rules.decisions import operations

OnOldName: TypeAlias = Callable[[str, FrameType | None], None]
"""Takes an old name that is looked up in the model, with the frame that asks for it."""
_HELD = re.compile(r"register_(?:buffer|parameter)\(\s*\"(\w+)\"|self\.(\w+) = \w*(?:Parameter|Buffer)\(")
"""How a class of torch.nn names a parameter or buffer."""


class OldName:
    """A descriptor for an attribute's old name: it looks up the new name on the module.

    torch's tracers follow paths by the names of attribute accesses. An entry of the module's own `__dict__` goes
    first.
    """

    def __init__(self, old: str, new: str, note: OnOldName | None) -> None:
        """Answer to `old` with what is held as `new`."""
        self._old, self._new, self._note = old, new, note

    def __get__(self, module: nn.Module | None, owner: type) -> Any:
        """Return what the module holds under the new name."""
        if module is None:
            raise AttributeError(f"{owner.__name__} has this attribute in its modules alone")
        _tell(self._note, self._old)
        return getattr(module, self._new)


class Registry(dict[str, Any]):
    """A module's registry under new names that answers to the old ones as well."""

    def __init__(self, entries: Mapping[str, Any], new: Mapping[str, str], note: OnOldName | None) -> None:
        """Hold entries under their new names; `new` gives these by the old."""
        super().__init__(entries)
        self._new, self._note = new, note

    def __deepcopy__(self, memo: dict[int, Any]) -> Registry:
        """Return a registry of copied entries that tells the same: what keeps the notes is no part of the model."""
        return Registry(copy.deepcopy(dict(self), memo), self._new, self._note)

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

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the entry of an old or new name; add a default where there is none."""
        return super().setdefault(self._of(name), default)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove and return the entry of an old or new name."""
        return super().pop(self._of(name), *default)

    def _of(self, name: Any) -> Any:
        new = self._new.get(name, name)
        if new != name and super().__contains__(new):
            _tell(self._note, name)
        return new


def _tell(note: OnOldName | None, old: str) -> None:
    # What dynamo runs symbolically is the model's own code, and looking at frames would break its graph.
    if note is not None and not is_dynamo_compiling() and old not in _names_of_torch_nn():
        # The code that asks is above torch's lookup of attributes.
        frame: FrameType | None = sys._getframe(1)
        through = {__file__, operations.__file__, nn.Module.__call__.__code__.co_filename}
        while frame is not None and frame.f_code.co_filename in through:
            frame = frame.f_back
        note(old, frame)


@cache
def _names_of_torch_nn() -> frozenset[str]:
    """Return the names of the parameters and buffers of torch.nn's own classes, such as `running_var`.

    They tell no model from others: a class of the model may have them as well (DETR's frozen normalisation).
    """
    homes = [module for name, module in list(sys.modules.items()) if name.startswith("torch.nn.modules.")]
    found = (_HELD.finditer(inspect.getsource(home)) for home in homes)
    return frozenset(held[1] or held[2] for each in found for held in each)
