"""Notes where the result of an operation depends on a name of the model.

    path.startswith("enc")     False of "renamedaaaa.0"; under the old names, of "encoder.0", True: it decides
    path == other_path         both have old names under the old names, so the result is the same: it does not
    KINDS.get(cls.__name__)    KINDS holds the old name and not the new one: it decides

An operation on texts and sets is computed once more; a table is only asked whether it holds a key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import EnumMeta
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hierexport._rules.decisions.names import Marked, Names, is_a, is_translated, marked
from pytest_hierexport._rules.decisions.source import loaded

OTHER = "renamed"
"""What a name that stays as it is would be if the model had another one."""
_POSITIONS = (str.find, str.rfind, str.index, str.rindex)
_TABLES = (Mapping, AbstractSet, list, tuple, EnumMeta)
_MOST_KEYS = 1000
_SAME = object()
"""What an operation gives under the old names that needs no mark."""


class Decisions:
    """What decides while a model has new names.

    Args:
        names: The model's old names.
        note: Takes the number of a site where a name decides, and the values that meet there.
        configurations: The model's configurations, each with a `model_type`.
    """

    def __init__(
        self, names: Names, note: Callable[[int, Sequence[Any]], None], configurations: Sequence[Any] = ()
    ) -> None:
        """Decide nothing yet."""
        self.names, self._note = names, note
        self.types = frozenset(str(each.model_type) for each in configurations)
        # A class that does not state the type itself, such as a namespace, is of any model.
        classes = (type(each) for each in configurations if getattr(type(each), "model_type", None))
        self._configurations = frozenset(map(id, classes))
        self._old = self._configurations.union(map(id, names.classes.values()))
        self.modules = frozenset(cls.__module__ for cls in names.classes.values())
        """The modules that define classes of the model."""
        homes = [(name.count("."), file) for name, file in loaded() if name in self.modules and "." in name]
        self.files = {file: Path(file).parents[depth - 1] / f"{OTHER}.py" for depth, file in homes}
        """The files of these modules, each with another one in its top-level package."""

    def is_models(self, owner: Any) -> bool:
        """Return whether a value is one of the model's configurations or modules."""
        return str(getattr(owner, "model_type", None)) in self.types or id(type(owner)) in self.names.classes

    def is_configuration(self, cls: Any) -> bool:
        """Return whether a value is the class of one of the model's configurations."""
        return id(cls) in self._configurations

    def compute(self, site: int, operation: Callable[..., Any], /, *operands: Any, **options: Any) -> Any:
        """Compute an operation, which changes nothing, under the old names; note where it gives something else."""
        other = self.write(site, operation, *operands, **options)
        # What is cut out of a marked text is marked in turn, and decides nothing yet.
        is_cut = getattr(operation, "__objclass__", None) is str and isinstance(operands[0], Marked)
        if other is not _SAME and not (is_cut and isinstance(other, (str, list, tuple))):
            self._note(site, (*operands, *options.values()))
        return other

    def write(self, _: int, operation: Callable[..., Any], /, *operands: Any, **options: Any) -> Any:
        """Return what an operation gives under the old names that writes or cuts a text, which decides nothing."""
        values = (*operands, *options.values())
        others = self.names.other(values)
        if others is values or not all(map(is_translated, values)):
            return _SAME
        other_options = dict(zip(options, others[len(operands) :], strict=True))
        result = _comparable(operation, _outcome(partial(operation, *operands, **options)))
        other = _outcome(partial(operation, *others[: len(operands)], **other_options))
        expected, found = _comparable(operation, other), self.names.other(result)
        # What cannot be compared is taken to be the same.
        is_other = is_translated(result) and _outcome(lambda: bool(found == expected)) is False
        return other if is_other else _SAME

    def look_up(self, site: int, _: Any, table: Any = (), key: Any = None, /, *__: Any, **___: Any) -> None:
        """Note where a table holds the old spelling of a name, or names are asked for an old spelling."""
        if table is sys.modules or not is_table(table) or not isinstance(key, (str, type, tuple)):
            return
        other, found = self.names.other(key), None
        if not _holds(table, key):
            spellings = self.names.new(key) if other is key and isinstance(key, str) else (other,)
            found = next((each for each in spellings if _holds(table, each)), None)
        elif isinstance(key, Marked):
            is_constant = _marked_key(table, key, default=key) is None
            found = key if is_constant and not _holds(table, other) else None
        elif isinstance(table, (list, tuple)):
            found = _marked_key(table, key, default=None)
        if found is not None:
            self._note(site, (key, found, other))

    def look_up_class(self, site: int, _: Any, value: Any = None, classes: Any = (), /) -> None:
        """Note where a module, or its class, is of one of some classes, which is a class of the model."""
        known = tuple(cls for cls in (classes if isinstance(classes, tuple) else (classes,)) if id(cls) in self._old)
        own = value if isinstance(value, type) else type(value)
        name = marked(own.__name__, OTHER) if self.is_configuration(own) else own
        if known and (name is not own or id(own) in self.names.classes) and issubclass(own, known):
            self._note(site, (name, known))


def is_table(value: Any) -> bool:
    """Return whether a value can be asked for a key."""
    return is_a(value, *_TABLES)


def _holds(table: Any, key: Any) -> bool:
    return _outcome(lambda: key in (table.__members__ if isinstance(table, EnumMeta) else table)) is True


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
    if isinstance(result, Iterator):
        return [_comparable(operation, each) for each in result]
    if isinstance(result, re.Match):
        return (result[0], *result.groups())
    if isinstance(result, Exception):
        return type(result)
    return result >= 0 if operation in _POSITIONS else result
