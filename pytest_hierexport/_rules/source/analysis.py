"""From source files to the decisions in them: rounds over the whole program until nothing more is learned."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pytest_hierexport._rules.source.annotations import declared, is_container, may_hold_text
from pytest_hierexport._rules.source.expressions import assign, evaluate
from pytest_hierexport._rules.source.program import FunctionInfo, parse
from pytest_hierexport._rules.source.references import Class, Instance
from pytest_hierexport._rules.source.state import Decision, Frame, State, Store, Unit
from pytest_hierexport._rules.source.statements import execute
from pytest_hierexport._rules.source.subjects import is_other, is_subject
from pytest_hierexport._rules.source.values import (
    NAME,
    NOTHING,
    UNSEEN,
    Certainty,
    Value,
    collection,
    join,
    refers,
    text,
)

__all__ = ["decisions"]

# A guard, never reached: what is known only grows, and is bounded.
_MOST_RUNS = 200


@lru_cache(maxsize=8)
def decisions(files: tuple[Path, ...]) -> Sequence[Decision]:
    """Return every place in the files where constants decide something about a name of a model.

    Which of the constants are names of the model under test is not known here, so that one analysis serves every
    model.

    Raises:
        UsageError: A file that cannot be read, or is no Python.
    """
    state = State(parse(files))
    state.queue.update(dict.fromkeys(state.program.modules))
    _seed(state)
    _settle(state)
    for info in state.program.functions:
        if info.number not in state.decisions:
            _open(state, info)
    _settle(state)
    found = {decision for unit in state.decisions.values() for decision in unit}
    return sorted(found, key=lambda decision: (str(decision.path), decision.line, decision.code))


def _settle(state: State) -> None:
    runs: Counter[Unit] = Counter()
    while state.queue:
        unit = next(iter(state.queue))
        del state.queue[unit]
        runs[unit] += 1
        if runs[unit] > _MOST_RUNS:
            continue
        state.current = unit
        state.decisions[unit] = {}
        if isinstance(unit, str):
            execute(state.program.modules[unit].tree.body, Frame(state, unit, (Store.VARIABLE, unit)))
        else:
            _run(state, state.program.functions[unit])


def _seed(state: State) -> None:
    """Let anybody call what is public, or what nothing in the source calls, with anything."""
    for info in state.program.functions:
        inner = info.outer is not None or isinstance(info.node, ast.Lambda)
        owner = state.program.classes[info.owner].node.name if info.owner is not None else ""
        private = owner.startswith("_") or (info.name.startswith("_") and not info.name.endswith("__"))
        if inner:
            _open_subjects(state, info)
        elif not private or info.name not in state.program.used:
            _open(state, info)
        if not _free(info):
            state.queue[info.number] = None


def _open(state: State, info: FunctionInfo) -> None:
    state.queue[info.number] = None
    for parameter in _free(info):
        state.learn((Store.PARAMETER, info.number, parameter.arg), _anything(parameter))


def _anything(parameter: ast.arg) -> Value:
    """Return what a parameter may be that anybody may call with anything."""
    if not may_hold_text(parameter.annotation) or is_other(parameter.arg):
        return UNSEEN
    held = text(Certainty.YES if is_subject(parameter.arg) else Certainty.TEXT, unseen=True)
    return collection(held) if is_container(parameter.annotation) else held


def _open_subjects(state: State, info: FunctionInfo) -> None:
    for parameter in _free(info):
        if is_subject(parameter.arg) and may_hold_text(parameter.annotation):
            state.learn((Store.PARAMETER, info.number, parameter.arg), NAME)


def _free(info: FunctionInfo) -> list[ast.arg]:
    return [*info.parameters[1 if info.is_bound else 0 :], *info.node.args.kwonlyargs]


def _run(state: State, info: FunctionInfo) -> None:
    frame = _frame(state, info)
    _bind_parameters(state, info, frame)
    if isinstance(info.node, ast.Lambda):
        state.learn((Store.RETURN, info.number, ""), evaluate(info.node.body, frame))
    else:
        execute(info.node.body, frame)


def _frame(state: State, info: FunctionInfo) -> Frame:
    if info.outer is None:
        outer = Frame(state, info.module, (Store.VARIABLE, info.module))
    else:
        outer = _frame(state, state.program.functions[info.outer])
    return Frame(state, info.module, (Store.LOCAL, info.number), outer, info.number)


def _bind_parameters(state: State, info: FunctionInfo, frame: Frame) -> None:
    arguments = info.node.args
    positional = info.parameters
    defaults = dict(zip((p.arg for p in reversed(positional)), reversed(arguments.defaults), strict=False))
    defaults.update(
        (parameter.arg, default)
        for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    )

    def known(parameter: ast.arg) -> Value:
        return state.get((Store.PARAMETER, info.number, parameter.arg)) or NOTHING

    for parameter in _free(info):
        default = defaults.get(parameter.arg)
        value = join(known(parameter), evaluate(default, frame) if default is not None else NOTHING)
        if value.name and is_container(parameter.annotation):
            value = collection(text(value.name, unseen=value.unseen))
        if may_hold_text(parameter.annotation):
            assign(ast.Name(parameter.arg, ast.Store()), value, frame)
        else:
            frame.bind_name(
                parameter.arg, join(declared(parameter.annotation, frame), NOTHING if value.is_name else value)
            )
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            frame.bind_name(rest.arg, known(rest))
    if info.is_bound and positional and info.owner is not None:
        frame.bind_name(
            positional[0].arg, refers(Class(info.owner) if _is_class_method(info) else Instance(info.owner))
        )


def _is_class_method(info: FunctionInfo) -> bool:
    decorators = () if isinstance(info.node, ast.Lambda) else info.node.decorator_list
    return any(isinstance(decorator, ast.Name) and decorator.id == "classmethod" for decorator in decorators)
