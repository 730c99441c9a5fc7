"""Finds the module calls that a user names by path, tag, class or depth."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._calls.patterns import matching_calls
from pytest_hierexport._errors import UsageError

_MOST_NAMED = 5


def named_call(hierarchy: Hierarchy, module: str, modules: Sequence[Module] = ()) -> str:
    """Return the name of the one call that a pattern names, of a module that runs several times the first.

    A name or a tag that exists is never a pattern with wildcards.

    Raises:
        UsageError: It names none, or several.
    """
    if module in hierarchy:
        return module
    with suppress(KeyError):
        return hierarchy.resolve(module).name
    found = matching_calls(hierarchy, module, modules)
    if len({hierarchy[name].path for name in found}) > 1:
        first = found if len(found) <= _MOST_NAMED else [*found[:_MOST_NAMED], "…"]
        listed = f"{module!r}, which names {len(found):,} calls: {', '.join(first)}"
        raise UsageError("one module", found=listed, do="name one of them")
    return found[0]


def chosen_calls(
    hierarchy: Hierarchy, modules: Sequence[Module] = (), *, depth: int | None = None, pattern: str | None = None
) -> list[str]:
    """Return the calls of a depth or a pattern in execution order; without either, all calls with a segment.

    The root is never among them. The depth is the number of segments in the tag, below the root's.

    Raises:
        UsageError: Both are given, or no call matches.
    """
    if depth is not None and pattern is not None:
        raise UsageError("a depth or a pattern", found="both", do="leave out one of them")
    if pattern is not None:
        chosen = [name for name in matching_calls(hierarchy, pattern, modules) if name != ROOT]
        expected, found = "modules below the root", f"{pattern!r}, which is the root"
    else:
        levels: dict[str, int] = {}
        for name in hierarchy:
            if name != ROOT and hierarchy.is_kept(name):
                levels[name] = levels.get(hierarchy.kept_above(name) or ROOT, 0) + 1
        chosen = [name for name, level in levels.items() if depth in (None, level)]
        if levels:
            expected, found = f"a depth from 1 to {max(levels.values())}", str(depth)
        else:
            expected, found = "modules with a segment in tags below the root", "none, such as those of torch.nn alone"
    if not chosen and (depth, pattern) != (None, None):
        raise UsageError(expected, found=found, do="see the modules in the table of hierexport analyze")
    return chosen
