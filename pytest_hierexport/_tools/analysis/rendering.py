"""Renders an analysis as text, CSV, or an object for JSON. Nothing recurses, so the modules may have any depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_hierexport._text import counted, one_line
from pytest_hierexport._tools.analysis.figures import Analysis, ModuleFigures
from pytest_hierexport._tools.analysis.listing import DEEPEST, check_height
from pytest_hierexport._tools.table import DEEPEST_INDENT, indented, table

_COLUMNS = ("level", "tag", "path", "class", "calls", "nodes", "own_nodes", "parameters")

_UNTAGGED = "(untagged)"
_MOST_PATHS = 8


def as_dict(analysis: Analysis, depth: int | None = None) -> dict[str, object]:
    """Return the analysis as an object for JSON, with nested modules down to `depth` levels below the root.

    Raises:
        UsageError: The modules have more levels than JSON parsers can read.
    """
    return {**vars(analysis), "modules": _nested(analysis.modules, depth)}


def _nested(root: ModuleFigures, depth: int | None) -> dict[str, object]:
    deepest = max(level for level, _ in root.rows(depth))
    do = f"add --depth {DEEPEST} or less, or choose another format"
    check_height(deepest, "in JSON, which its parsers can read", do)
    document: list[dict[str, object]] = []
    children = [document]
    for level, figures in root.rows(depth):
        below: list[dict[str, object]] = []
        children[level].append({**vars(figures), "children": below})
        children[level + 1 :] = [below]
    return document[0]


def as_lines(analysis: Analysis, name: str, depth: int | None = None, width: int | None = None) -> Iterator[str]:
    """Yield the table of modules, down to `depth` levels below the root, then the totals of the file.

    See :func:`table` for the width.
    """
    yield from table(_rows(analysis, depth), width)
    yield from _totals(analysis, name)


def as_tree(analysis: Analysis, name: str, depth: int | None = None) -> Iterator[str]:
    """Yield the modules as a drawn tree, then the totals of the file; see :func:`as_lines`."""
    unit = "parameter" if analysis.declared else "number"
    pending = [(analysis.modules, "", "", 0)]
    while pending:
        figures, branch, trunk, level = pending.pop()
        calls = f", {figures.calls:,} calls" if figures.calls > 1 else ""
        count = f"{counted(figures.all_nodes, 'node')}, {counted(figures.all_parameters, unit)}{calls}"
        yield f"{branch}{one_line(figures.segment)} ({count})"
        children = figures.children if depth is None or level < depth else []
        for child in reversed(children):
            marks = ("└─ ", "   ") if child is children[-1] else ("├─ ", "│  ")
            at, below = marks if level < DEEPEST_INDENT else (f"[{level + 1}] ", "")
            pending.append((child, trunk + at, trunk + below, level + 1))
    if untagged := analysis.coverage["untagged"]:
        yield f"{_UNTAGGED} ({counted(untagged, 'node')})"
    yield from _totals(analysis, name)


def as_csv(analysis: Analysis, depth: int | None = None) -> Iterator[tuple[str, ...]]:
    """Yield the modules as rows with their tags, the heading first.

    Raises:
        UsageError: The modules nest too deep.
    """
    yield _COLUMNS
    check_height(max(level for level, _ in analysis.modules.rows(depth)))
    tags: list[str] = []
    for level, figures in analysis.modules.rows(depth):
        above = tags[level - 1] if level else ""
        tags[level:] = [figures.segment if figures.segment == "/" else f"{above.rstrip('/')}/{figures.segment}"]
        numbers = (figures.calls, figures.all_nodes, figures.nodes, figures.all_parameters)
        yield (str(level), tags[level], figures.path, figures.cls, *map(str, numbers))
    if untagged := analysis.coverage["untagged"]:
        yield ("", _UNTAGGED, "", "", "", str(untagged), str(untagged), "")


def _totals(analysis: Analysis, name: str) -> Iterator[str]:
    operators = ", ".join(f"{operator} {count:,}" for operator, count in analysis.operators.items())
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in analysis.opsets.items())
    yield ""
    yield coverage_line(analysis.coverage, analysis.nodes)
    yield f"operators: {operators}"
    yield f"opsets: {opsets}"
    if analysis.other_paths:
        pairs = [f"{one_line(path)} is {one_line(first)}" for path, first in analysis.other_paths.items()]
        more = f" and {len(pairs) - _MOST_PATHS} more" if len(pairs) > _MOST_PATHS else ""
        yield f"modules of several paths: {', '.join(pairs[:_MOST_PATHS])}{more}"
    yield f"sidecar of {name}: {analysis.sidecar}"
    if not analysis.declared:
        yield "numbers held: in the file's tensors, after folds and merges; parameters are unknown without a sidecar"


def coverage_line(coverage: Mapping[str, int], nodes: int | None = None) -> str:
    """Return the counts of nodes by evidence as text, and their sum: `2 of 4 nodes: …` where there are more nodes."""
    shown = ", ".join(f"{kind} {count:,}" for kind, count in coverage.items() if count)
    total = sum(coverage.values())
    title = counted(total, "node") if nodes is None or nodes == total else f"{total:,} of {counted(nodes, 'node')}"
    return f"{title}: {shown}" if shown else title


def _rows(analysis: Analysis, depth: int | None) -> Iterator[tuple[str, ...]]:
    yield ("module", "calls", "nodes", "own nodes", "parameters" if analysis.declared else "numbers held")
    for level, figures in analysis.modules.rows(depth):
        numbers = (figures.calls, figures.all_nodes, figures.nodes, figures.all_parameters)
        yield (indented(level, figures.segment), *(f"{number:,}" for number in numbers))
    if untagged := analysis.coverage["untagged"]:
        yield (_UNTAGGED, "", f"{untagged:,}", f"{untagged:,}", "")
