"""What a call gives: functions of the source by what they return, others by what they do to names."""

from __future__ import annotations

from functools import partial

from pytest_hierexport._rules.source.library import Call, from_elsewhere, unknown
from pytest_hierexport._rules.source.methods import call_method
from pytest_hierexport._rules.source.references import Bound, Class, Function, Imported, Instance, Partial, Reference
from pytest_hierexport._rules.source.state import Arguments, Frame, Kind, Store
from pytest_hierexport._rules.source.values import NOTHING, UNSEEN, Value, collection, join, mapping, refers

__all__ = ["apply"]

_DEEPEST_CALL = 8


def apply(frame: Frame, callee: Value, args: Arguments, called: str = "", depth: int = 0) -> Value:
    """Call whatever a value may refer to.

    Args:
        frame: Where the call stands.
        callee: What is called.
        args: With what.
        called: The identifier that is called, for functions that the analysis cannot see into.
        depth: How many calls through functions passed as arguments led here.
    """
    if depth > _DEEPEST_CALL:
        return UNSEEN
    results = [_apply(frame, reference, args, called, depth) for reference in callee.references]
    return join(*results) if results else unknown(args, called)


def _apply(frame: Frame, reference: Reference, args: Arguments, called: str, depth: int) -> Value:
    if isinstance(reference, Function):
        return _function(frame, reference, args)
    if isinstance(reference, Class):
        return _instance(frame, reference, args)
    if isinstance(reference, Bound):
        found = call_method(frame, reference.receiver, reference.method, args)
        return UNSEEN if found is None else found
    again = partial(apply, frame, depth=depth + 1)
    if isinstance(reference, Partial):
        given = Arguments((*reference.args, *args.positional), args.keywords, args.rest)
        return again(refers(reference.target), given)
    if isinstance(reference, Imported):
        return from_elsewhere(reference.dotted, Call(frame, args, again))
    return unknown(args, called)


def _function(frame: Frame, reference: Function, args: Arguments) -> Value:
    info = frame.state.program.functions[reference.number]

    def learn(parameter: str, value: Value) -> None:
        frame.state.learn((Store.PARAMETER, info.number, parameter), value)

    positional = [parameter.arg for parameter in info.parameters][1 if reference.bound else 0 :]
    for position, parameter in enumerate(positional):
        learn(parameter, args.get(position, parameter))
    keyword_only = [parameter.arg for parameter in info.node.args.kwonlyargs]
    for parameter in keyword_only:
        learn(parameter, args.keywords.get(parameter, args.rest))
    if info.node.args.vararg is not None:
        learn(info.node.args.vararg.arg, collection(join(*args.positional[len(positional) :], args.rest)))
    if info.node.args.kwarg is not None:
        others = [value for keyword, value in args.keywords.items() if keyword not in {*positional, *keyword_only}]
        learn(info.node.args.kwarg.arg, mapping(NOTHING, join(*others)))
    return frame.state.get((Store.RETURN, info.number, "")) or NOTHING


def _instance(frame: Frame, reference: Class, args: Arguments) -> Value:
    state = frame.state
    info = state.program.classes[reference.number]
    if info.constants and args.positional:
        # An enumeration finds its member by value.
        members = [state.get((Store.MEMBER, info.number, constant)) or NOTHING for constant in info.constants]
        frame.decide(Kind.EQUAL, args.positional[0].named, join(*members).texts)
    initialisers = state.program.methods.get("__init__", ())
    initialiser = next((n for n in initialisers if state.program.functions[n].owner == info.number), None)
    if initialiser is not None:
        _function(frame, Function(initialiser, bound=True), args)
    for position, attribute in enumerate(info.fields if initialiser is None else ()):
        state.learn_attribute(info.number, attribute, args.get(position, attribute))
    # A class that extends `str` makes texts.
    made = NOTHING if initialiser is not None or info.fields else Value(strings=args.get(0).strings)
    return join(refers(Instance(reference.number)), made)
