"""Selects module instances by tag and class.

    /Net/Encoder/Layer.*   by the whole tag, segment by segment
    Layer.[02]             by the last segment
    m.Layer, Layer         by class, with or without its module

What is below an instance that fits is selected too; with both patterns, what both select.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from pytest_hierexport._errors import UsageError
from pytest_hierexport._tools.analysis.figures import ModuleFigures

__all__ = ["Selection"]


@dataclass(frozen=True)
class Selection:
    """Patterns for module instances, as in file names; None takes any."""

    tag: str | None = None
    cls: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether every instance is selected."""
        return self.tag is None and self.cls is None

    def choose(self, root: ModuleFigures) -> set[ModuleFigures]:
        """Return the selected instances, those below them included.

        Raises:
            UsageError: There are none.
        """
        # A root of torch.nn has no segment: tags begin with those below it.
        pending = [(root, -1 if root.segment == "/" else 0, True, self.tag is None, self.cls is None)]
        chosen = set()
        while pending:
            figures, level, above, of_tag, of_class = pending.pop()
            above, matches = self._matches_tag(figures, level, above=above)
            of_tag, of_class = of_tag or matches, of_class or self._matches_class(figures)
            if of_tag and of_class:
                chosen.add(figures)
            pending += [(child, level + 1, above, of_tag, of_class) for child in figures.children]
        if not chosen:
            patterns = [f"{name} {text!r}" for name, text in (("--tag", self.tag), ("--class", self.cls)) if text]
            raise UsageError(
                f"a module that matches {' and '.join(patterns)}",
                found="none in the file",
                do="take a tag or class from the table of hierexport analyze; * stands for any characters of a segment",
            )
        return chosen

    def prune(self, root: ModuleFigures) -> None:
        """Remove the instances that are neither selected nor above a selected one; figures stay."""
        kept = self.choose(root)
        for _, figures in reversed(list(root.rows())):
            figures.children = [child for child in figures.children if child in kept]
            if figures.children:
                kept.add(figures)

    def _matches_class(self, figures: ModuleFigures) -> bool:
        names = (figures.cls, figures.cls.rpartition(".")[2])
        return self.cls is not None and any(fnmatchcase(name, self.cls) for name in names)

    def _matches_tag(self, figures: ModuleFigures, level: int, *, above: bool) -> tuple[bool, bool]:
        """Return whether the tag so far fits the pattern's beginning, and whether it fits the whole pattern."""
        if self.tag is None:
            return True, False
        if not self.tag.startswith("/"):
            return True, fnmatchcase(figures.segment, self.tag)
        if self.tag == "/" or level < 0:
            return True, self.tag == figures.segment
        segments = self.tag.split("/")[1:]
        fits = above and level < len(segments) and fnmatchcase(figures.segment, segments[level])
        return fits, fits and level == len(segments) - 1
