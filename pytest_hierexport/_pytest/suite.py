"""Tells which case a test item of ours belongs to."""

from __future__ import annotations

from typing import ClassVar

from pytest_hierexport._cases import Case


class Suite:
    """The tests of one model; subclasses have its case."""

    case: ClassVar[Case]


def case_of(item: object) -> Case | None:
    """Return the case of an item of ours, None for an item of the project's, whose class may have a `case` too."""
    cls = getattr(item, "cls", None)
    return cls.case if isinstance(cls, type) and issubclass(cls, Suite) else None
