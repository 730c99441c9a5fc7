"""Notes where the result of an operation depends on a name of the model.

    path.startswith("enc")     False of "renamedaaaa.0"; under the old names, of "encoder.0", True: it decides
    path == other_path         both have old names under the old names, so the result is the same: it does not
    KINDS.get(cls.__name__)    KINDS holds the old name and not the new one: it decides

An operation on texts and sets is computed once more; a table is only asked whether it holds a key.
"""

from __future__ import annotations

import re
import sys
from collections import ChainMap, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import EnumMeta
from functools import partial
from operator import getitem
from pathlib import Path, PurePath
from types import MappingProxyType, UnionType
from typing import Any, Union, get_args, get_origin

from pytest_hierexport._rules.decisions.source import loaded
from pytest_hierexport._rules.decisions.values import Marked, is_a, is_translated, marked, texts, under_old
from pytest_hierexport._rules.new_names import WORD, Names, with_words

OTHER = "renamed"
"""What a name that stays as it is would be if the model had another one."""
_OF_MODELS = frozenset({"model_type", "name_or_path", "_name_or_path", "architectures", "base_model_prefix"})
STAYING = _OF_MODELS | {"name", "stem", "__file__", "__module__", "__name__", "__qualname__"}
"""The attributes that give names which stay as they are while the model has others."""
_POSITIONS = (str.find, str.rfind, str.index, str.rindex)
TABLES: tuple[Any, ...] = (Mapping, AbstractSet, type({}.values()), list, tuple, deque, EnumMeta)


class Decisions:
    """What decides while a model has new names.

    Args:
        names: The model's old names.
        note: Takes the values that meet where a name decides.
        configurations: The model's configurations, each with a `model_type`.
    """

    def __init__(self, names: Names, note: Callable[[Sequence[Any]], None], configurations: Sequence[Any] = ()) -> None:
        """Decide nothing yet."""
        self.names, self._note = names, note
        self.types = frozenset(str(each.model_type) for each in configurations)
        # A class that does not state the type itself, such as a namespace, is of any model.
        self._configurations = {id(type(each)) for each in configurations if getattr(type(each), "model_type", None)}
        self.modules = frozenset(cls.__module__ for cls in names.classes.values())
        """The modules that define classes of the model."""
        bases = {base for cls in names.classes.values() for base in cls.__mro__ if base.__module__ in self.modules}
        # A base that is no module itself, such as a protocol, says nothing about the model.
        self._old = self._configurations.union(id(base) for base in bases if hasattr(base, "named_modules"))
        """The classes that keep their names: the configurations', the model's own and their bases."""
        homes = [(name.count("."), _other_module(name), file) for name, file in loaded() if name in self.modules]
        self.files = {file: Path(file).parents[n] / f"{other.replace('.', '/')}.py" for n, other, file in homes if n}
        """The files of these modules, each with another one in its top-level package."""

    def compute(self, operation: Callable[..., Any], /, *operands: Any, **options: Any) -> Any:
        """Compute an operation, which changes nothing, under the old names; note where it gives something else."""
        other = self.write(operation, *operands, **options)
        # What is cut out of a marked text is marked in turn, and decides nothing yet.
        is_cut = getattr(operation, "__objclass__", None) is str and isinstance(operands[0], Marked)
        if other is not NotImplemented and not (is_cut and isinstance(other, (str, list, tuple))):
            self._note((*operands, *options.values()))
        return other

    def write(self, operation: Callable[..., Any], /, *operands: Any, **options: Any) -> Any:
        """Return what an operation gives under the old names, `NotImplemented` if it is the same; note nothing."""
        values = (operands, tuple(options.items()))
        others = under_old(self.names, values)
        if others is values or not all(map(is_translated, (*operands, *options.values()))):
            return NotImplemented
        result = _comparable(operation, outcome(partial(operation, *operands, **options)))
        other = outcome(lambda: operation(*others[0], **dict(others[1])))
        expected, found = _comparable(operation, other), under_old(self.names, result)
        # What cannot be compared is taken to be the same, and what is cut between words, as by the length of a prefix.
        is_same = outcome(lambda: bool(found == expected or (operation is getitem and found in others[0][0])))
        return other if is_translated(result) and is_same is False else NotImplemented

    def look_up(self, _: Any, table: Any = (), key: Any = None, /, *__: Any, **___: Any) -> None:
        """Note a lookup in a table that gives something else under the old names."""
        if table is sys.modules or not is_a(table, *TABLES) or not isinstance(key, (str, type, tuple)):
            return
        keys = table.keys() if is_a(table, dict, ChainMap, MappingProxyType) else table
        other, held, found = under_old(self.names, key), keys if is_translated(keys) else (), None
        if not _holds(table, key):
            spellings = self.names.new(key) if other is key and isinstance(key, str) else (other,)
            found = next((each for each in spellings if _holds(table, each)), None)
        elif isinstance(table, (list, tuple)) or Marked in map(type, held if other is key else texts(key)):
            is_other = held is keys and not _holds(under_old(self.names, keys), other)
            # The old class stays among the bases of the new one: its name alone would not be there.
            is_other |= not isinstance(key, Marked) and not _holds([k for k in keys if not isinstance(k, Marked)], key)
            found = [each for each in keys if _holds([each], key)] if is_other else None
        if found is not None:
            self._note((key, found))

    def look_up_class(self, _: Any, value: Any = None, classes: Any = (), /) -> None:
        """Note a test of a module's or a configuration's class that a class of the model passes."""
        if id(classes) in self.names.classes:  # `Block is type(module)`
            value, classes = classes, value
        known = tuple(cls for cls in _classes_in(classes) if id(cls) in self._old)
        own = value if isinstance(value, type) else type(value)
        name = marked(own.__name__, OTHER) if id(own) in self._configurations else own
        if known and (name is not own or id(own) in self.names.classes) and issubclass(own, known):
            self._note((name, known))

    def staying(self, value: Any, owner: Any = None, name: str = "__file__", /, *_: Any) -> Any:
        """Return what a name that stays as it is would be if the model had another one; None for another value."""
        if name in _OF_MODELS:
            of_model = str(attribute_of(owner, "model_type")) in self.types or id(type(owner)) in self.names.classes
            return None if not of_model else [OTHER] * len(value) if type(value) is list else OTHER
        if not isinstance(value, str):
            return None
        if name in {"__name__", "__qualname__"} and id(owner) in self._old:
            # The words that classes of no model have, such as `Config`, say nothing about the model.
            shared = {w.lower() for c in owner.__mro__ if id(c) not in self._old for w in WORD.findall(c.__name__)}
            return with_words(value, WORD, lambda word: None if word in shared else OTHER)
        if name == "name" and type(value) is str and attribute_of(owner, "op_type") and self.names.old(value) is value:
            # One with words of the model is known by these, and one without a number is its operator's. A number in a
            # word, as in `_int8`, tells no node from others.
            return re.sub(r"(?<![^\W_])\d+(?![^\W_])", lambda number: f"0{number[0]}", value)
        if name in {"__module__", "__name__"} and value in self.modules:
            return _other_module(value)
        other = self.files.get(str(owner) if isinstance(owner, PurePath) else value)
        return None if other is None else getattr(other, name, str(other))


def _other_module(name: str) -> str:
    """Return the name of a module of another model: other from the last part on, and where that repeats a part."""
    top, *between, last = name.split(".") if "." in name else (name, name)
    of_model = "|".join(part for part in between if part in last) or last
    return ".".join([top, *(OTHER if part in last else part for part in between), re.sub(of_model, OTHER, last)])


def _classes_in(classes: Any) -> Iterator[Any]:
    """Yield the classes that `isinstance` is asked for: `A`, `(A, (B, C))`, `A | B`."""
    is_union = get_origin(classes) in {Union, UnionType}
    if is_union or isinstance(classes, tuple):
        for each in get_args(classes) if is_union else classes:
            yield from _classes_in(each)
    else:
        yield classes


def _holds(table: Any, key: Any) -> bool:
    return outcome(lambda: key in (table.__members__ if isinstance(table, EnumMeta) else table)) is True


def attribute_of(owner: Any, name: str) -> Any:
    """Return an attribute; None where asking raises any error, as a dictionary whose keys are attributes does."""
    return outcome(partial(getattr, owner, name, None), lambda _: None)


def outcome(compute: Callable[[], Any], failed: Callable[[Exception], Any] = type) -> Any:
    """Return what a computation gives, or what `failed` makes of the error that it raises: the error's class."""
    try:
        return compute()
    except Exception as error:  # noqa: BLE001  # an outcome as any other
        return failed(error)


def _comparable(operation: Any, result: Any) -> Any:
    """Return a result that can be compared: of a position in a text, whether there is one."""
    if isinstance(result, Iterator):
        return [_comparable(operation, each) for each in result]
    if isinstance(result, re.Match):
        return (result[0], *result.groups())
    return isinstance(result, int) and result >= 0 if operation in _POSITIONS else result
