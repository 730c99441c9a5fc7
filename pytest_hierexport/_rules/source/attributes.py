"""What an attribute of a value may be."""

from __future__ import annotations

from dataclasses import replace

from pytest_hierexport._rules.source.evidence import ATTRIBUTES, FILE_ATTRIBUTES, NODE_ATTRIBUTES, from_identifier
from pytest_hierexport._rules.source.methods import has_method
from pytest_hierexport._rules.source.program import ClassInfo, FunctionInfo, Scope
from pytest_hierexport._rules.source.values import NOTHING, Dotted, Instance, Kind, Method, Value, join, of_kind, texts

__all__ = ["attribute"]


def attribute(base: Value, attr: str, scope: Scope, of: str = "") -> Value:
    """Return what `base.attr` may be; `of` is the identifier before the dot."""
    if attr in {"__name__", "__qualname__"}:
        return _own_name(base, of)
    found = join(*(_of_ref(ref, attr, scope) for ref in base.refs))
    if found is NOTHING and attr in ATTRIBUTES:
        return ATTRIBUTES[attr]
    return _of_object(base, attr, scope) if found is NOTHING else found


def _of_object(base: Value, attr: str, scope: Scope) -> Value:
    if Kind.NODE in base.kinds and attr in NODE_ATTRIBUTES:
        return NODE_ATTRIBUTES[attr]
    if Kind.ENTRY in base.kinds:
        return of_kind(Kind.NAME) if attr == "value" else NOTHING
    if has_method(base, attr):
        return Value(refs=frozenset({Method(replace(base, refs=frozenset()), attr)}))
    if base.refs or (base.is_name and base.kinds != {Kind.UNKNOWN}):
        return NOTHING if attr in FILE_ATTRIBUTES else base.cut()
    if base.texts and attr in {"value", "name"}:
        return base
    methods = scope.program.methods.get(attr, ())
    one = Value(refs=frozenset(methods)) if len(methods) == 1 else NOTHING
    return join(one, from_identifier(attr))


def _own_name(base: Value, of: str) -> Value:
    """`x.__name__`: a class's where that is known, and no function's."""
    names = [ref.node.name if isinstance(ref, ClassInfo) else "" for ref in base.refs]
    names += [ref.name.rpartition(".")[2] for ref in base.refs if isinstance(ref, Dotted)]
    if any(names):
        return texts(*(name for name in names if name))
    is_class = Kind.CLASS in base.kinds or Kind.CLASS in from_identifier(of, loose=True).kinds
    return of_kind(Kind.CLASS_NAME) if is_class else NOTHING


def _of_ref(ref: object, attr: str, scope: Scope) -> Value:
    if isinstance(ref, Dotted):
        module = scope.program.modules.get(ref.name)
        if module is not None:
            return module.names.get(attr, NOTHING)
        return Value(refs=frozenset({Dotted(f"{ref.name}.{attr}")}))
    if not isinstance(ref, (ClassInfo, Instance)):
        return NOTHING
    if attr == "__class__":
        return Value(refs=frozenset({ref.cls})) if isinstance(ref, Instance) else NOTHING
    member = (ref.cls if isinstance(ref, Instance) else ref).member(attr)
    properties = [r for r in member.refs if isinstance(r, FunctionInfo) and r.decorated("property", "cached_property")]
    return join(*(r.returns.get("", NOTHING) for r in properties)) if properties else member
