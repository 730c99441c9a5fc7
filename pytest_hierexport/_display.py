"""Shows results as tables, in notebooks and in consoles of rich; names from a model or a file are shown literally."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from pytest_hierexport._text import one_line

if TYPE_CHECKING:
    import rich.console

_MOST_ROWS = 100


@dataclass(frozen=True)
class Table:
    """A table of texts with a line above it, bounded in length."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0
    """How many rows are left out."""

    @classmethod
    def of(cls, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
        """Return a table of the first rows; the others are counted."""
        every = iter(rows)
        first = tuple(tuple(one_line(str(cell)) for cell in row) for row in islice(every, _MOST_ROWS))
        return cls(one_line(title), tuple(columns), first, sum(1 for _ in every))

    @property
    def last(self) -> str:
        """The line below the table; empty where it shows every row."""
        return f"… and {self.more} more" if self.more else ""

    def html(self) -> str:
        """Return the table as HTML."""
        head = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p>{html.escape(self.title)}</p>{table}<p>{html.escape(self.last)}</p>"

    def rich(self) -> rich.console.Group:
        """Return the table, with the lines above and below it, for rich."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable()
        for column in self.columns:
            table.add_column(column)
        for row in self.rows:
            table.add_row(*map(Text, row))
        # A title of rich's own is wrapped to the width of the table.
        return Group(Text(self.title), table, *([Text(self.last)] if self.last else []))


class Shown:
    """Something that notebooks and rich show as a table."""

    def _table(self) -> Table:
        """Return the table."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._table().html()

    def __rich__(self) -> rich.console.Group:
        """Return the table for rich's consoles."""
        return self._table().rich()
