"""What goes wrong for a reason that the user can mend, said so that they can."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["CollectError", "ExportError", "HierexportError", "TagError", "UsageError", "nearest"]


class HierexportError(Exception):
    """A failure with what was expected, what was found and what to do next.

    The doors of the package (the pytest plugin, the command line) show the message and no traceback.
    """

    def __init__(self, expected: str, *, found: str, do: str) -> None:
        """Say what was expected, what was found and what to do, each without a full stop."""
        super().__init__(f"expected {expected}; found {found}\nto do: {do}")
        self.expected = expected
        self.found = found
        self.do = do

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes, keyword arguments included."""
        return (_rebuild, (type(self), self.expected, self.found, self.do))


def _rebuild(kind: type[HierexportError], expected: str, found: str, do: str) -> HierexportError:
    return kind(expected, found=found, do=do)


class UsageError(HierexportError):
    """The request itself cannot be served: an unknown model, an option that makes no sense."""


class CollectError(HierexportError):
    """A selector was understood but no case comes of it: a factory that fails, a broken manifest."""


class ExportError(HierexportError):
    """A model could not be exported or its file could not be written."""


class TagError(HierexportError):
    """An ONNX file does not hold the tags that were asked of it, or holds them in a form we do not know."""


def nearest(wanted: str, known: Iterable[str]) -> str:
    """Return the known names most like the wanted one, for a message; all of them where none is."""
    names = sorted(known)
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    shown = close or names[:12]
    return ", ".join(shown) + (", …" if not close and len(names) > len(shown) else "")
