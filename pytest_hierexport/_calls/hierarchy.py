"""Holds the calls of one forward pass, and gives each a tag that people can read.

Names and classes come in as text. A *path* is the dotted attribute path of a module instance, a *call name* is a path
with `@k` for each further run under that path, and the root's call name is the empty string; see
:mod:`pytest_hierexport._calls.names`.

    call name        class                  tag
    ""               m.Net                  /Net
    layers           torch.nn.ModuleList    /Net
    layers.0         m.Layer                /Net/Layer.0
    layers.0.linear  torch.nn.Linear        /Net/Layer.0
    layers.0@1       m.Layer                /Net/Layer.0@1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_hierexport._calls.keys import Keys
from pytest_hierexport._calls.names import call_name, is_torch_nn
from pytest_hierexport._calls.unknown import unknown_call, unknown_tag
from pytest_hierexport._display import Shown, Table

ROOT = ""
"""The root's path, and the name of its first call."""


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a module instance in one forward pass."""

    path: str
    """The instance's encoded dotted path; the root's is empty."""
    index: int
    """0 for the first run under that path, then 1, 2, …"""
    cls: str
    """The qualified class, as :func:`qualified_class` writes it."""
    parent: str | None
    """The name of the call that made this one; None for the root's first call."""

    @property
    def name(self) -> str:
        """The call name: the path, with `@k` from the second call on."""
        return call_name(self.path, self.index)

    @property
    def class_name(self) -> str:
        """The class's own (encoded) name, without its module."""
        return self.cls.rpartition(".")[2]

    def __repr__(self) -> str:
        """Return the call's name, its class and the call that made it."""
        by = "" if self.parent is None else f", made by {self.parent!r}"
        return f"<call {self.name!r} of {self.cls}{by}>"


class CallTree(Mapping[str, Call]):
    """The calls of one forward pass by name, in execution order.

    Args:
        calls: Every call after its parent, the root's first.

    Raises:
        ValueError: Two calls have one name, a call comes before its parent, or a call other than the first has no
            parent.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        """Order and check the calls."""
        self._calls: dict[str, Call] = {}
        for call in calls:
            name, parent = call.name, call.parent
            if name in self._calls:
                raise ValueError(f"two calls are named {name!r}")
            if (parent is None) != (name == ROOT) or bool(self._calls) == (name == ROOT):
                raise ValueError(f"the first call, and no other, is the root's own; found {name!r} made by {parent!r}")
            if parent is not None and parent not in self._calls:
                raise ValueError(f"call {name!r} comes before its parent {parent!r}")
            self._calls[name] = call

    def __iter__(self) -> Iterator[str]:
        """Iterate over call names in execution order."""
        return iter(self._calls)

    def __len__(self) -> int:
        """Count the calls."""
        return len(self._calls)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The position of every call in execution order."""
        return {name: i for i, name in enumerate(self._calls)}

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """The calls that each call made, in execution order."""
        children: dict[str, list[str]] = {name: [] for name in self._calls}
        for name, call in self._calls.items():
            if call.parent is not None:
                children[call.parent].append(name)
        return {name: tuple(made) for name, made in children.items()}

    @cached_property
    def height(self) -> int:
        """The number of levels of calls below the root."""
        levels: dict[str, int] = {}
        for name, call in self._calls.items():
            levels[name] = 0 if call.parent is None else levels[call.parent] + 1
        return max(levels.values(), default=0)

    def lineage(self, name: str) -> Iterator[str]:
        """Yield the call itself, the call that made it, and so on up to the root.

        Raises:
            KeyError: No call has this name.
        """
        at: str | None = self[name].name
        while at is not None:
            yield at
            at = self._calls[at].parent

    def within(self, name: str, ancestor: str) -> bool:
        """Whether the call `name` is `ancestor` or was made somewhere below it."""
        return ancestor in self.lineage(name)

    def common(self, names: Iterable[str]) -> str:
        """Return the nearest common ancestor of these calls, themselves included; the root for no calls."""
        lineages = [list(self.lineage(name)) for name in names]
        if not lineages:
            return ROOT
        shared = set(lineages[0]).intersection(*lineages[1:])
        return next(call for call in lineages[0] if call in shared)


class Hierarchy(Shown, CallTree):
    """The calls of one forward pass, with their tags.

    Args:
        calls: Every call after its parent, the root's first.
        keep: Qualified `torch.nn` classes that appear in tags nevertheless.

    Raises:
        ValueError: The calls are no tree (:class:`CallTree`).
    """

    def __init__(self, calls: Iterable[Call], keep: Iterable[str] = ()) -> None:
        """Order and check the calls."""
        super().__init__(calls)
        self.keep = frozenset(keep)

    def __eq__(self, other: object) -> bool:
        """Whether the calls, their order and the kept classes are equal."""
        if not isinstance(other, Hierarchy):
            return NotImplemented
        return self.keep == other.keep and list(self._calls.items()) == list(other._calls.items())

    __hash__ = None  # type: ignore[assignment]  # a mapping; equality is by content

    def __getitem__(self, name: str) -> Call:
        """Return the call of that name.

        Raises:
            KeyError: No call has this name; the message tells the nearest ones.
        """
        try:
            return self._calls[name]
        except KeyError:
            raise unknown_call(name, self, self.tag) from None

    def __repr__(self) -> str:
        """Return the root's class, the number of calls and the number of levels."""
        if not self:
            return "<hierarchy without calls>"
        return f"<hierarchy of {self[ROOT].cls}: {len(self)} calls on {self.height + 1} levels>"

    def _table(self) -> Table:
        return Table.of(repr(self), ("tag", "call", "class"), ((self.tag(name), name, self[name].cls) for name in self))

    def is_kept(self, name: str) -> bool:
        """Whether the call has a segment in tags: its class is kept, or not from `torch.nn`."""
        return self._kept[name] == name

    def kept(self, name: str) -> str | None:
        """Return the nearest call, from `name` upwards, that has a segment in tags; None where none has."""
        return self._kept[name]

    def segment(self, name: str) -> str:
        """Return the last segment of the tag of a kept call, without the call's index.

        It is the same for all calls of an instance by one caller.

        Raises:
            KeyError: No kept call has this name.
        """
        return self._segments[name].removesuffix(call_name("", self._calls[name].index))

    def tag(self, name: str) -> str:
        """Return the tag of a call: that of its nearest kept call, `/` where there is none.

        Tags are not stored: those of calls within calls take memory that is quadratic in the depth.

        Raises:
            KeyError: No call has this name.
        """
        segments, kept = [], self._kept[self[name].name]
        while kept is not None:
            segments.append(self._segments[kept])
            kept = self.kept_above(kept)
        return "/" + "/".join(reversed(segments))

    def kept_above(self, name: str) -> str | None:
        """Return the nearest call above `name` that has a segment in tags; None where none has."""
        parent = self._calls[name].parent
        return None if parent is None else self._kept[parent]

    def resolve(self, tag: str) -> Call:
        """Return the one call of a tag.

        Raises:
            KeyError: No call has this tag.
        """
        if tag == "/" and not self.is_kept(ROOT):
            return self._calls[ROOT]
        before, *segments = tag.split("/")
        at: str | None = None
        for segment in segments:
            if (at := self._by_segment.get((at, segment))) is None:
                break
        if before or at is None:
            raise unknown_tag(tag, self, self.tag)
        return self._calls[at]

    @cached_property
    def _kept(self) -> Mapping[str, str | None]:
        kept: dict[str, str | None] = {}
        for name, call in self._calls.items():
            above = None if call.parent is None else kept[call.parent]
            kept[name] = name if call.cls in self.keep or not is_torch_nn(call.cls) else above
        return kept

    @cached_property
    def _by_segment(self) -> Mapping[tuple[str | None, str], str]:
        """Every kept call by the nearest kept call above it and its segment."""
        return {(self.kept_above(name), segment): name for name, segment in self._segments.items()}

    @cached_property
    def _segments(self) -> Mapping[str, str]:
        """The last segment of the tag of every kept call."""
        kept = [call for name, call in self._calls.items() if self.is_kept(name)]
        keys = Keys((call.path, call.class_name) for call in kept)
        segments: dict[str, str] = {}
        for call in kept:
            above = self.kept_above(call.name)
            key = keys.key(call.path, call.class_name, None if above is None else self._calls[above].path)
            segments[call.name] = call_name(f"{call.class_name}.{key}" if key else call.class_name, call.index)
        return segments
