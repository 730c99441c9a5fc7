"""Finds the module calls that a user names by path, tag, class or depth."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._errors import UsageError, nearest

__all__ = ["chosen_calls", "named_call"]


def named_call(hierarchy: Hierarchy, module: str) -> str:
    """Return the name of the call with this name (`encoder.layer.0@1`) or tag (`/Net/Layer.0@1`).

    Raises:
        UsageError: There is no such call.
    """
    if module in hierarchy:
        return module
    try:
        return hierarchy.resolve(module).name
    except KeyError:
        known = (name if not module.startswith("/") else hierarchy.tag(name) for name in hierarchy)
        raise UsageError(
            "the path or the tag of a module call, with @k from its second run on",
            found=f"{module!r}",
            do=f"try {nearest(module, set(known))}; hierexport analyze lists the modules",
        ) from None


def chosen_calls(hierarchy: Hierarchy, *, depth: int | None = None, pattern: str | None = None) -> list[str]:
    """Return the calls of a depth or a pattern, or else all with a segment, in execution order and without the root's.

    Args:
        hierarchy: The calls.
        depth: The number of segments in the tag, below the root's.
        pattern: A class, qualified or not, a path or a tag, with or without `@k`; `*` stands for any text.

    Raises:
        UsageError: Both are given, or no call fits.
    """
    if depth is not None and pattern is not None:
        raise UsageError("a depth or a pattern", found="both", do="leave out one of them")
    calls = [name for name in hierarchy if name != ROOT]
    if pattern is not None:
        chosen = [name for name in calls if any(fnmatchcase(alias, pattern) for alias in _aliases(hierarchy, name))]
        expected, found = "a class, path or tag of some module call", repr(pattern)
        known = nearest(pattern, {hierarchy[name].class_name for name in calls})
    else:
        levels = {name: _level(hierarchy, name) for name in calls if hierarchy.is_kept(name)}
        chosen = [name for name, level in levels.items() if depth in (None, level)]
        expected, found = f"a depth from 1 to {max(levels.values(), default=0)}", str(depth)
        known = "a depth at which modules have a segment in their tags"
    if not chosen and (depth, pattern) != (None, None):
        raise UsageError(expected, found=found, do=f"try {known}; hierexport analyze lists the modules")
    return chosen


def _aliases(hierarchy: Hierarchy, name: str) -> Iterator[str]:
    call = hierarchy[name]
    yield from (name, call.path, call.cls, call.class_name)
    if hierarchy.is_kept(name):
        tag = hierarchy.tag(name)
        yield from (tag, tag.removesuffix(f"@{call.index}"))


def _level(hierarchy: Hierarchy, name: str) -> int:
    return sum(1 for call in hierarchy.lineage(name) if call != ROOT and hierarchy.is_kept(call))
