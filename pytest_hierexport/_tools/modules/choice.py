"""Finds the module calls that a user names by path, tag, class or depth."""

from __future__ import annotations

from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._calls.patterns import matching_calls, similar_names
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.requests import check_text


def named_call(hierarchy: Hierarchy, module: str) -> str:
    """Return the name of the call with this name (`encoder.layer.0@1`) or tag (`/Net/Layer.0@1`).

    Raises:
        UsageError: There is no such call.
    """
    check_text(module, "the path or the tag of a module call", "pass it as text, such as encoder.layer.0")
    if module in hierarchy:
        return module
    try:
        return hierarchy.resolve(module).name
    except KeyError:
        raise UsageError(
            "the path or the tag of a module call, with @k from its second run on",
            found=f"{module!r}",
            do=f"try {similar_names(hierarchy, module)}; hierexport analyze lists the modules",
        ) from None


def chosen_calls(hierarchy: Hierarchy, *, depth: int | None = None, pattern: str | None = None) -> list[str]:
    """Return the calls of a depth or a pattern, or else all with a segment, in execution order and without the root's.

    Args:
        hierarchy: The calls.
        depth: The number of segments in the tag, below the root's.
        pattern: Names calls, as in :mod:`pytest_hierexport._calls.patterns`.

    Raises:
        UsageError: Both are given, or no call fits.
    """
    if depth is not None and pattern is not None:
        raise UsageError("a depth or a pattern", found="both", do="leave out one of them")
    if pattern is not None:
        check_text(pattern, "a pattern for modules", "pass it as text, such as encoder.layer.*")
        chosen = [name for name in matching_calls(hierarchy, pattern) if name != ROOT]
        expected, found = "modules below the root", f"{pattern!r}, which is the root"
    else:
        levels = {name: _level(hierarchy, name) for name in hierarchy if name != ROOT and hierarchy.is_kept(name)}
        chosen = [name for name, level in levels.items() if depth in (None, level)]
        expected, found = f"a depth from 1 to {max(levels.values(), default=0)}", str(depth)
    if not chosen and (depth, pattern) != (None, None):
        raise UsageError(expected, found=found, do="see the modules in the table of hierexport analyze")
    return chosen


def _level(hierarchy: Hierarchy, name: str) -> int:
    return sum(1 for call in hierarchy.lineage(name) if call != ROOT and hierarchy.is_kept(call))
