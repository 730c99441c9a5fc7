"""Aligns rows of text in a table: names on the left, numbers on the right. Widths are counted in terminal columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_hierexport._text import one_line

DEEPEST_INDENT = 40
"""The deepest level that is shown by indentation; deeper ones are shown by a number before the name."""
_WIDEST_NAME = 100
"""The maximal width of the first column, so that one long name does not widen all rows."""


def indented(level: int, name: str) -> str:
    """Return a name on one line, indented by its level in a tree."""
    indent = "  " * level if level <= DEEPEST_INDENT else f"{'  ' * DEEPEST_INDENT}[{level}] "
    return indent + one_line(name)


def table(rows: Iterable[Sequence[str]], width: int | None = None) -> Iterator[str]:
    """Yield a line for each row, the titles first.

    Names that exceed the width of the terminal are cut; none is cut without a width.
    """
    from rich.cells import cell_len, set_cell_size

    rows = list(rows)
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    room = None if width is None else max(len(rows[0][0]), width - sum(size + 2 for size in widths[1:]))
    widths[0] = min(widths[0], room or _WIDEST_NAME)
    for name, *numbers in rows:
        is_whole = room is None and cell_len(name) > widths[0]
        cells = (number.rjust(size) for number, size in zip(numbers, widths[1:], strict=True))
        yield "  ".join([name if is_whole else set_cell_size(name, widths[0]), *cells])
