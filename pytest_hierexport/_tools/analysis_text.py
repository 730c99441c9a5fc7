"""An analysis for people and for programs: lines of text, or an object for JSON.

Neither grows with the depth of the hierarchy other than by a row per module: a file may hold any number of calls,
one within another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.names import one_line
from pytest_hierexport._errors import UsageError

if TYPE_CHECKING:
    from pytest_hierexport._tools.analysis import Analysis, ModuleFigures

__all__ = ["as_dict", "as_lines", "coverage_line"]

_DEEPEST_NESTING = 200
"""Levels of modules in JSON. Each is an object in a list; Python's own parser stops at 490 of them, others earlier."""
_DEEPEST_INDENT = 40
"""Levels that are shown by indentation; below them the level is a number before the name."""
_WIDEST_NAME = 100
"""How far a long name moves the figures of all other rows to the right."""


def as_dict(analysis: Analysis, depth: int | None = None) -> dict[str, object]:
    """Return the analysis for JSON, its modules one within another.

    Args:
        analysis: The analysis.
        depth: How many levels of modules below the root are given; all where it is None.

    Raises:
        UsageError: The modules nest deeper than parsers of JSON read.
    """
    return {**_attributes(analysis), "modules": _nested(analysis.modules, depth)}


def _attributes(data: Any) -> dict[str, object]:
    return {field.name: getattr(data, field.name) for field in fields(data)}


def _nested(root: ModuleFigures, depth: int | None) -> dict[str, object]:
    deepest = max(level for level, _ in root.rows(depth))
    if deepest > _DEEPEST_NESTING:
        raise UsageError(
            f"at most {_DEEPEST_NESTING} levels of modules in JSON, which its parsers can read",
            found=f"{deepest:,} levels",
            do=f"add --depth {_DEEPEST_NESTING} or less, or leave out --json",
        )
    document: list[dict[str, object]] = []
    children = [document]
    for level, figures in root.rows(depth):
        below: list[dict[str, object]] = []
        children[level].append({**_attributes(figures), "children": below})
        children[level + 1 :] = [below]
    return document[0]


def as_lines(analysis: Analysis, name: str, depth: int | None = None, width: int | None = None) -> Iterator[str]:
    """Yield the table of modules, then what the file holds as a whole.

    Args:
        analysis: The analysis.
        name: The file's name.
        depth: How many levels of modules below the root are shown; all where it is None.
        width: Columns of the terminal, to which names are cut; None keeps them whole.
    """
    yield from _table(analysis, depth, width)
    operators = ", ".join(f"{operator} {count:,}" for operator, count in analysis.operators.items())
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in analysis.opsets.items())
    yield ""
    yield coverage_line(analysis.nodes, analysis.coverage)
    yield f"operators: {operators}"
    yield f"opsets: {opsets}"
    yield f"sidecar of {name}: {analysis.sidecar}"
    if not analysis.declared:
        yield "numbers held: in the file's tensors, after folds and merges; no sidecar tells the parameters"


def coverage_line(nodes: int, coverage: Mapping[str, int]) -> str:
    """Return how many nodes there are and by which evidence they are known."""
    shown = ", ".join(f"{kind} {count:,}" for kind, count in coverage.items() if count)
    return f"{nodes:,} nodes: {shown}" if shown else f"{nodes:,} nodes"


def _table(analysis: Analysis, depth: int | None, width: int | None) -> Iterator[str]:
    """Yield the heading and a line per module; the modules are walked twice rather than kept as text."""
    from rich.cells import cell_len, set_cell_size

    titles = ("module", "calls", "nodes", "own nodes", "parameters" if analysis.declared else "numbers held")
    widths = [len(title) for title in titles]
    for row in _rows(analysis.modules, depth):
        widths = [max(size, cell_len(cell)) for size, cell in zip(widths, row, strict=True)]
    room = None if width is None else max(len(titles[0]), width - sum(size + 2 for size in widths[1:]))
    widths[0] = min(widths[0], room or _WIDEST_NAME)
    for name, *numbers in chain([titles], _rows(analysis.modules, depth)):
        is_whole = room is None and cell_len(name) > widths[0]
        cells = (number.rjust(size) for number, size in zip(numbers, widths[1:], strict=True))
        yield "  ".join([name if is_whole else set_cell_size(name, widths[0]), *cells])


def _rows(root: ModuleFigures, depth: int | None) -> Iterator[tuple[str, ...]]:
    for level, figures in root.rows(depth):
        indent = "  " * level if level <= _DEEPEST_INDENT else f"{'  ' * _DEEPEST_INDENT}[{level}] "
        numbers = (figures.calls, figures.all_nodes, figures.nodes, figures.all_parameters)
        yield (indent + one_line(figures.segment), *(f"{number:,}" for number in numbers))
