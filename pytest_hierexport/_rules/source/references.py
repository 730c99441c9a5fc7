"""What a value may refer to: functions, classes and modules, of the analysed source or from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_hierexport._rules.source.values import Value

__all__ = ["Bound", "Class", "Function", "Imported", "Instance", "Partial", "Reference", "Source"]


@dataclass(frozen=True)
class Function:
    """A function or lambda of the analysed source, by its number; bound where its first argument is taken."""

    number: int
    bound: bool = False


@dataclass(frozen=True)
class Class:
    """A class of the analysed source, by its number."""

    number: int


@dataclass(frozen=True)
class Instance:
    """An object of a class of the analysed source."""

    number: int


@dataclass(frozen=True)
class Source:
    """A module of the analysed source, by its dotted name."""

    dotted: str


@dataclass(frozen=True)
class Imported:
    """Anything from elsewhere, builtins included, by its dotted name."""

    dotted: str


@dataclass(frozen=True)
class Bound:
    """A method of a value."""

    receiver: Value
    method: str


@dataclass(frozen=True)
class Partial:
    """A callable with its first arguments given."""

    target: Reference
    args: tuple[Value, ...]


Reference = Function | Class | Instance | Source | Imported | Bound | Partial
