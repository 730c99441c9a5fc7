"""What reading an attribute or an item gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from pytest_hierexport._rules.source.comparing import look_up
from pytest_hierexport._rules.source.program import FunctionInfo
from pytest_hierexport._rules.source.references import Bound, Class, Function, Imported, Instance, Reference, Source
from pytest_hierexport._rules.source.state import Frame, Store
from pytest_hierexport._rules.source.subjects import ATTRIBUTES, ENTRY, is_subject
from pytest_hierexport._rules.source.values import NAME, NOTHING, PIECE, UNSEEN, Value, constant, join, refers

__all__ = ["attribute", "identifier", "item"]

_MOST_METHODS = 8
_OF_PATHS = frozenset({"parts", "stem", "parent", "parents"})
"""What a path in the sense of `pathlib` has, when one is made of a name."""
_BUILTIN_METHODS = frozenset(name for kind in (str, list, dict, set, re.Pattern) for name in dir(kind))


def identifier(node: ast.expr) -> str:
    """Return the last identifier of an expression: `c` of `a.b.c`, `a.c()` and `c[0]`."""
    while isinstance(node, (ast.Call, ast.Subscript, ast.Starred, ast.Await)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def attribute(frame: Frame, base: Value, attr: str, of: str = "", *, called: bool = False) -> Value:
    """Return what `base.attr` gives.

    Args:
        frame: Where it stands.
        base: The object.
        attr: The attribute.
        of: The identifier before the dot.
        called: Whether it is called at once, which the methods of builtin types are not read for.
    """
    if base.apart:
        return Value(apart=True)
    found = [value for reference in base.references for value in _of_reference(frame, reference, attr)]
    if found:
        return join(*found)
    if not called and attr in _BUILTIN_METHODS and (base.named or base.texts):
        found.append(refers(Bound(base.shallow(), attr)))
    return join(*found, *_of_object(frame, base, attr, of))


def _of_object(frame: Frame, base: Value, attr: str, of: str) -> Iterator[Value]:
    if attr == "__dict__" and base.module:
        yield ATTRIBUTES["_modules"]
    elif attr in ATTRIBUTES:
        yield ATTRIBUTES[attr]
    elif is_subject(attr):
        if is_subject(attr, of):
            yield NAME
        return
    if base.is_name and attr in _OF_PATHS:
        yield PIECE
    # An enumeration's member is its value here.
    yield Value(strings=base.strings)
    assigned = frame.state.get((Store.ATTRIBUTE, "", attr))
    if assigned is not None and not assigned.is_name:
        # The constants that any object may have there; a name, only where the object is known.
        yield assigned
    if not base.named and not base.references:
        methods = frame.state.program.methods.get(attr, ())
        if len(methods) <= _MOST_METHODS:
            yield from (_method(frame, number) for number in methods)


def _of_reference(frame: Frame, reference: Reference, attr: str) -> Iterator[Value]:
    state = frame.state
    if reference == ENTRY:
        yield NAME if attr == "value" else NOTHING
    elif isinstance(reference, Imported):
        own = attr in _OWN_NAMES
        yield constant(reference.dotted.rpartition(".")[2]) if own else refers(Imported(f"{reference.dotted}.{attr}"))
    elif isinstance(reference, Source):
        yield state.imported(f"{reference.dotted}.{attr}")
    elif isinstance(reference, (Class, Instance)):
        if isinstance(reference, Class) and attr in _OWN_NAMES:
            yield constant(state.program.classes[reference.number].node.name)
        member = state.get((Store.MEMBER, reference.number, attr))
        if member is not None and not any(isinstance(r, Function) for r in member.references):
            yield member
        assigned = state.get((Store.ATTRIBUTE, reference.number, attr))
        if assigned is not None:
            yield assigned
        yield from (_method(frame, number) for number in _methods_of(frame, reference.number, attr))


_OWN_NAMES = frozenset({"__name__", "__qualname__"})


def _methods_of(frame: Frame, owner: int, attr: str) -> list[int]:
    """The methods that an object of a class may have under a name: its own, else any, for bases are not followed."""
    methods = frame.state.program.methods.get(attr, [])
    own = [number for number in methods if frame.state.program.functions[number].owner == owner]
    return own or methods


def _method(frame: Frame, number: int) -> Value:
    info = frame.state.program.functions[number]
    if _is_property(info):
        return frame.state.get((Store.RETURN, number, "")) or NOTHING
    return refers(Function(number, bound=info.is_bound))


def _is_property(info: FunctionInfo) -> bool:
    decorators = () if isinstance(info.node, ast.Lambda) else info.node.decorator_list
    return any(identifier(decorator) in ("property", "cached_property") for decorator in decorators)


def item(frame: Frame, table: Value, key: Value, node: ast.expr) -> Value:
    """Return what `table[key]` gives."""
    if isinstance(node, ast.Slice):
        return PIECE if table.is_name else _slice(table, node)
    if table.is_name:
        return PIECE
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and table.fields:
        return table.fields[node.value] if -len(table.fields) <= node.value < len(table.fields) else UNSEEN
    found = look_up(frame, table, key)
    if any(is_subject(text) for text in key.strings) and not table.named:
        return join(found, NAME)
    return replace(found, unseen=False) if key.strings else found


def _slice(table: Value, node: ast.Slice) -> Value:
    bounds = [_integer(bound) for bound in (node.lower, node.upper, node.step)]
    if table.strings and all(known for known, _ in bounds):
        cut = slice(*(bound for _, bound in bounds))
        if cut.step != 0:
            return replace(table, strings=frozenset(text[cut] for text in table.strings))
    return replace(table, element=table.items, fields=()) if table.fields else table


def _integer(node: ast.expr | None) -> tuple[bool, int | None]:
    if node is None:
        return True, None
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return False, None
    return isinstance(value, int), value if isinstance(value, int) else None
