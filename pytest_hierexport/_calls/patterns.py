"""Finds the calls that a pattern names: by path, tag or class, with wildcards and the index of a call.

A pattern is compared segment by segment, so `layer.1` never names `layer.10`.

    pattern                    names the calls of
    encoder.layer.0            the module of that path
    encoder.layer.*.attention  modules of such a path; `*`, `?` and `[0-3]` stay within a segment
    **.dense                   modules of such a path; `**` stands for any number of segments
    /Net/Layer.0               the module of that tag; wildcards as in paths
    class:Layer                modules of that class, by its own name or with its module (`class:m.Layer`)
    Layer                      the same, if no path matches
    layers.0@1                 the same, but only its second call; `@0` is the first
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice

from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._errors import UsageError, proposal

_CLASS = "class:"
_ANY_DEPTH = "**"
_INDEX = re.compile("[0-9]{1,18}")
_MOST_NAMED = 20_000
"""Calls whose names may be offered in place of a wrong one: the tags of a deep file take quadratic memory."""

_State = frozenset[int]
"""The positions in a pattern up to which it may have matched."""


def matching_calls(hierarchy: Hierarchy, pattern: str, modules: Sequence[Module] = ()) -> list[str]:
    """Return the names of the calls that a pattern names, in execution order.

    With the modules, a module that is held in several places is found by each of its paths.

    Raises:
        UsageError: It names none; the message has similar names.
    """
    if pattern.startswith("/"):
        found = _by_tag(hierarchy, pattern)
    elif pattern.startswith(_CLASS):
        found = _by_class(hierarchy, pattern.removeprefix(_CLASS))
    else:
        found = _by_path(hierarchy, pattern, modules) or _by_class(hierarchy, pattern)
    return _checked(hierarchy, pattern, found)


def calls_of_class(hierarchy: Hierarchy, name: str) -> list[str]:
    """Return the names of the calls of a class, by its own name or with its module, in execution order.

    Raises:
        UsageError: There are none; the message has similar names.
    """
    return _checked(hierarchy, name, _by_class(hierarchy, name))


def _checked(hierarchy: Hierarchy, pattern: str, found: list[str]) -> list[str]:
    if not found:
        raise UsageError(
            "a path, a tag or a class of a module that runs",
            found=f"{pattern!r}, which matches none",
            do=f"{proposal(pattern, sorted(_names(hierarchy, pattern)))}; hierexport analyze lists the modules",
        )
    return found


def _names(hierarchy: Hierarchy, pattern: str) -> set[str]:
    """Return names of calls in the form of a pattern."""
    names = [*islice(hierarchy, _MOST_NAMED)]
    if pattern.startswith("/"):
        return {hierarchy.tag(name) for name in names}
    if pattern.startswith(_CLASS):
        return {_CLASS + hierarchy[name].class_name for name in names}
    return {name for name in names if name} | {hierarchy[name].class_name for name in names}


def calls_below(hierarchy: Hierarchy, calls: Iterable[str]) -> set[str]:
    """Return these calls and all that were made below them."""
    inside = set(calls)
    for name, call in hierarchy.items():
        if call.parent in inside:
            inside.add(name)
    return inside


def _by_path(hierarchy: Hierarchy, pattern: str, modules: Sequence[Module]) -> list[str]:
    """Return the calls whose path matches, and those of modules with another path that does and names no call."""
    path, index = _split_index(pattern)
    wanted = path.split(".") if path else []

    def fits(own: str) -> bool:
        state = _at(wanted, [0])
        for segment in own.split(".") if own else ():
            state = _step(wanted, state, partial(_fits, text=segment))
        return bool(wanted) and len(wanted) in state

    paths = {name: call.path for name, call in hierarchy.items() if _fits_index(index, call.index)}
    first = {module.path: module.shared or module.path for module in modules}
    called = set(paths.values())
    instances = {instance for known, instance in first.items() if known not in called and fits(known)}
    return [name for name, own in paths.items() if first.get(own) in instances or fits(own)]


def _by_class(hierarchy: Hierarchy, pattern: str) -> list[str]:
    wanted, index = _split_index(pattern)
    return [
        name
        for name, call in hierarchy.items()
        if _fits_index(index, call.index) and (_fits(wanted, call.class_name) or _fits(wanted, call.cls))
    ]


def _by_tag(hierarchy: Hierarchy, pattern: str) -> list[str]:
    if pattern == "/":
        return [name for name in islice(hierarchy, 1) if hierarchy.tag(name) == "/"]
    wanted = pattern.split("/")[1:]
    # Each tag continues that of the call above it: matching them one after the other takes linear time.
    states: dict[str | None, _State] = {None: _at(wanted, [0])}
    found = []
    for name, call in hierarchy.items():
        if hierarchy.is_kept(name):
            fits = partial(_fits_call, segment=hierarchy.segment(name), index=call.index)
            states[name] = _step(wanted, states[hierarchy.kept_above(name)], fits)
            found += [name] if len(wanted) in states[name] else []
    return found


def _fits_call(wanted: str, segment: str, index: int) -> bool:
    text, wanted_index = _split_index(wanted)
    return _fits_index(wanted_index, index) and _fits(text, segment)


def _fits(wanted: str, text: str) -> bool:
    return wanted == text or fnmatchcase(text, wanted)


def _fits_index(wanted: int | None, index: int) -> bool:
    return wanted is None or wanted == index


def _split_index(text: str) -> tuple[str, int | None]:
    before, mark, digits = text.rpartition("@")
    return (before, int(digits)) if mark and _INDEX.fullmatch(digits) else (text, None)


def _step(wanted: Sequence[str], state: _State, fits: Callable[[str], bool]) -> _State:
    """Return the positions after one more segment; `**` takes it and stays."""
    inside = [i for i in state if i < len(wanted)]
    stayed = [i for i in inside if wanted[i] == _ANY_DEPTH]
    return _at(wanted, stayed + [i + 1 for i in inside if wanted[i] != _ANY_DEPTH and fits(wanted[i])])


def _at(wanted: Sequence[str], positions: Iterable[int]) -> _State:
    """Return the positions, and those behind each `**` there, which may stand for no segment."""
    reached = set(positions)
    for i, segment in enumerate(wanted):
        if segment == _ANY_DEPTH and i in reached:
            reached.add(i + 1)
    return frozenset(reached)
