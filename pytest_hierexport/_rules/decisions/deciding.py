"""Notes where the result of an operation depends on a name of the model.

    path.startswith("enc")     False of "renamedaaaa.0"; under the old names, of "encoder.0", True: it decides
    path == other_path         both have old names under the old names, so the result is the same: it does not
    KINDS.get(cls.__name__)    KINDS holds the old name and not the new one: it decides

An operation on texts and sets is computed once more; a table is only asked whether it holds a key.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from enum import EnumMeta
from functools import partial
from typing import Any, TypeAlias

from pytest_hierexport._rules.decisions.names import Marked, Names, is_a, is_translated, texts

Note: TypeAlias = Callable[[int, Sequence[Any]], None]
"""Takes the number of a site where a name decides, and the values that meet there."""
WRITING = -1
"""The number of a site where texts are written, which decides nothing."""
_POSITIONS = (str.find, str.rfind, str.index, str.rindex)
_TABLES = (Mapping, AbstractSet, list, tuple, EnumMeta)
_MOST_KEYS = 1000


class Decisions:
    """What decides while a model has new names.

    Args:
        names: The model's old names.
        note: Takes each decision.
        types: What the model's configurations call it.
    """

    def __init__(self, names: Names, note: Note, types: Iterable[str] = ()) -> None:
        """Decide nothing yet."""
        self.names = names
        self.types = frozenset(types)
        self._take = note
        self._old = frozenset(map(id, names.classes.values()))
        self.modules = frozenset(cls.__module__ for cls in names.classes.values())
        """The modules that define classes of the model."""
        self._is_probing = False

    def compute(
        self, site: int, operation: Callable[..., Any], operands: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Compute an operation, which changes nothing, under the old names; note where it gives something else.

        Returns:
            What it gives under the old names, with the alternatives of marked texts; None where no operand is marked.
        """
        values = [*operands, *options.values()]
        others = [self.names.other(value) for value in values]
        is_same = all(map(operator.is_, values, others))
        if is_same or self._is_probing or not all(map(is_translated, values)):
            return None
        other_options = dict(zip(options, others[len(operands) :], strict=True))
        with self._probing():
            result = _outcome(partial(operation, *operands, **options))
            other = _outcome(partial(operation, *others[: len(operands)], **other_options))
            decides = is_translated(result) and not _equal(
                self.names.other(_comparable(operation, result)), _comparable(operation, other)
            )
        if decides and site != WRITING:
            self._take(site, values)
        return other if any(isinstance(text, Marked) for text in texts(values)) else None

    def look_up(self, site: int, key: Any, table: Any) -> None:
        """Note where a table holds the old spelling of a name, or names are asked for an old spelling."""
        if self._is_probing or table is sys.modules or not isinstance(key, (str, type, tuple)):
            return
        with self._probing():
            old, other = self.names.old(key), self.names.other(key)
            named: Any = None
            if old != key:
                named = key if _holds(table, old) and not _holds(table, key) else None
            elif other is not key:
                named = key if _holds_constant(table, key) != _holds(table, other) else None
            elif isinstance(key, str):
                named = self._held_name(key, table)
        if named is not None:
            self._take(site, [named, old, other])

    def look_up_class(self, site: int, value: Any = None, classes: Any = (), /) -> None:
        """Note where a module, or its class, is of one of some classes, which is a class of the model."""
        known = tuple(cls for cls in (classes if isinstance(classes, tuple) else (classes,)) if id(cls) in self._old)
        own = value if isinstance(value, type) else type(value)
        if known and not self._is_probing and id(own) in self.names.classes and issubclass(own, known):
            self._take(site, [own, known])

    def _held_name(self, key: str, table: Any) -> str | None:
        """Return the name in a table that a key is the old spelling of."""
        if _holds(table, key):
            return _marked_key(table, key, default=None) if isinstance(table, (list, tuple)) else None
        return next((new for new in self.names.new(key) if _holds(table, new)), None)

    @contextmanager
    def _probing(self) -> Iterator[None]:
        """Note nothing of instrumented code that runs only for what would be under the old names."""
        before, self._is_probing = self._is_probing, True
        try:
            yield
        finally:
            self._is_probing = before


def is_table(value: Any) -> bool:
    """Return whether a value can be asked for a key."""
    return is_a(value, *_TABLES)


def _holds(table: Any, key: Any) -> bool:
    return _outcome(lambda: key in (table.__members__ if isinstance(table, EnumMeta) else table)) is True


def _holds_constant(table: Any, key: Any) -> bool:
    """Return whether a table holds a name that stays as it is, and did not get it from the model."""
    return _holds(table, key) and not _marked_key(table, key, default=key)


def _marked_key(table: Any, key: Any, default: Any) -> Any:
    """Return the marked text in a table that is equal to a key, or None; a default where that is not to be told."""
    if type(table) not in {list, tuple, set, frozenset, dict} or len(table) > _MOST_KEYS:
        return default
    return next((each for each in table if isinstance(each, Marked) and each == key), None)


def _outcome(compute: Callable[[], Any]) -> Any:
    """Return what a computation gives, or the error that it raises."""
    try:
        return compute()
    except Exception as error:  # noqa: BLE001  # an outcome as any other
        return error


def _comparable(operation: Any, result: Any) -> Any:
    """Return a result that can be compared: of a position in a text, whether there is one."""
    if isinstance(result, re.Match):
        return (result[0], *result.groups())
    if isinstance(result, Exception):
        return type(result)
    return result >= 0 if operation in _POSITIONS else result


def _equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal; True for those that cannot be compared."""
    found = _outcome(lambda: bool(one == other))
    return isinstance(found, Exception) or bool(found)
