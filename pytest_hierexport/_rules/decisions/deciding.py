"""Notes where the result of an operation depends on a name of the model.

    path.startswith("enc")     False of "renamedaaaa.0"; under other names, of "encoder.0", True: it decides
    path == other_path         both have other names under other names, so the result is the same: it does not
    KINDS.get(cls.__name__)    KINDS holds the old name and not the new one: it decides

Under other names an operation is computed once more; a table is only asked whether it holds the key.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from enum import EnumMeta
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, MethodWrapperType
from typing import Any, TypeAlias

from pytest_hierexport._rules.decisions.names import Marked, Names, marked, texts

Note: TypeAlias = Callable[[int, Sequence[Any]], None]
"""Takes the number of a place where a name decides, and the values that meet there."""
WRITING = -1
"""The number of a place where texts are written, which decides nothing."""
FUNCTIONS = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, FunctionType, MethodType, partial)
_POSITIONS = (str.find, str.rfind, str.index, str.rindex)
_MOST_KEYS = 1000


class Decisions:
    """What decides while a model has other names.

    Args:
        names: The model's other names.
        note: Takes each decision.
    """

    def __init__(self, names: Names, note: Note) -> None:
        """Decide nothing yet."""
        self.names, self.note = names, note
        self._old = frozenset(map(id, names.classes.values()))
        self.homes = frozenset(cls.__module__ for cls in names.classes)
        """The modules that define classes of the model."""
        self._is_asking = False

    def compute(self, site: int, operation: Callable[..., Any], *operands: Any, **options: Any) -> Any:
        """Return what an operation gives, and note where it gives something else under other names.

        Args:
            site: The number of the place.
            operation: A function that changes nothing, for it is called twice.
            operands: Its positional arguments, which may hold names.
            options: Its keyword arguments.
        """
        others = [self.names.other(operand) for operand in operands]
        if all(map(operator.is_, operands, others)) or any(isinstance(each, FUNCTIONS) for each in operands):
            return operation(*operands, **options)
        result = _outcome(partial(operation, *operands, **options))
        with self._asking():
            expected = _outcome(partial(operation, *others, **options))
            is_same = _is_same(self.names.other(_plain(operation, result)), _plain(operation, expected))
        if not is_same:
            self._note(site, *operands)
        if isinstance(result, Exception):
            raise result
        return marked(result, expected) if any(isinstance(text, Marked) for text in texts(operands)) else result

    def ask(self, site: int, key: Any, table: Iterable[Any]) -> None:
        """Note where a table holds the old spelling of a name, or names are asked for an old spelling."""
        if self._is_asking or not isinstance(key, (str, type, tuple)):
            return
        own, other = self.names.own(key), self.names.other(key)
        with self._asking():
            if other is not key:
                held = _holds(table, own) and not _holds(table, key if own == other else other) and own
            else:
                held = isinstance(key, str) and self._spelled(key, table)
        if held:
            self._note(site, key, held)

    def ask_class(self, site: int, value: Any, classes: Iterable[Any]) -> None:
        """Note where a module, or its class, is of a class of the model that it is asked for."""
        known = tuple(cls for cls in classes if id(cls) in self._old)
        own = value if isinstance(value, type) else type(value)
        if known and own in self.names.classes and issubclass(own, known):
            self._note(site, own, known)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Note nothing of instrumented code that only runs for what would be under other names."""
        before, self._is_asking = self._is_asking, True
        try:
            yield
        finally:
            self._is_asking = before

    def _note(self, site: int, *values: Any) -> None:
        if not self._is_asking:
            self.note(site, values)

    def _spelled(self, key: str, table: Iterable[Any]) -> str:
        """Return the name in a table that a key is the old spelling of; the empty text where there is none."""
        is_held = _holds(table, key)
        if is_held and len(_keys(table)) > _MOST_KEYS:
            return ""
        names = (each for each in _keys(table) if isinstance(each, str) and isinstance(each, Marked) == is_held)
        return next((each for each in names if self.names.other(each) is not each and self.names.own(each) == key), "")


def is_table(value: Any) -> bool:
    """Return whether a value can be asked for a key, any number of times."""
    return isinstance(value, (Mapping, AbstractSet, list, tuple, EnumMeta))


def _keys(table: Any) -> list[Any]:
    return list(table.__members__ if isinstance(table, EnumMeta) else table)


def _holds(table: Any, key: Any) -> bool:
    try:
        return key in (table.__members__ if isinstance(table, EnumMeta) else table)
    except Exception:  # noqa: BLE001  # what cannot be compared, or hashed, is not held
        return False


def _outcome(compute: Callable[[], Any]) -> Any:
    """Return what a computation gives, or the error that it raises."""
    try:
        return compute()
    except Exception as error:  # noqa: BLE001  # an outcome as any other
        return error


def _plain(operation: Any, result: Any) -> Any:
    """Return a result that can be compared: of a position in a text, whether there is one."""
    if isinstance(result, re.Match):
        return (result[0], *result.groups())
    if isinstance(result, Exception):
        return type(result)
    return result >= 0 if operation in _POSITIONS else result


def _is_same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001  # of the values' own comparison, which says nothing here
        return True
