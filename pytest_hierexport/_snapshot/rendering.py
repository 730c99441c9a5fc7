"""A hierarchy as text: one line per module, with its tag and its operators.

Runs of equal siblings are folded: twelve equal layers read `BertLayer.{0..11} ×12`, a layer that runs twelve times
reads `AlbertLayer.0@{0..11} ×12`. Below a folded run, `@k` counts within one of its members. There is no node name,
version, path or number from a weight in the text, so it changes only when the hierarchy or its operators do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy, call_name
from pytest_hierexport._calls.names import encode_operator, one_line
from pytest_hierexport._errors import TagError

if TYPE_CHECKING:
    from pytest_hierexport._export import Export

__all__ = ["is_snapshot", "of", "text"]

UNTAGGED = "(untagged)"
# The marks that a merge leaves are part of a snapshot: an update is how its conflict is resolved.
_LINE_STARTS = ("/", UNTAGGED, "<<<<<<< ", "||||||| ", "=======", ">>>>>>> ")

_DEEPEST = 300
"""Levels of modules that are folded, by recursion: Python itself runs modules no deeper than its limit of 1,000 frames,
three per call, allows."""


def of(data: object) -> str:
    """Return the text of a tagged ONNX file by its path, of an export, or of what has a `path` to such a file.

    Raises:
        TagError: The file holds no tags, or modules that nest deeper than a text can show.
        TypeError: Nothing of the kind.
    """
    if isinstance(data, str):
        return data
    path = data if isinstance(data, Path) else getattr(data, "path", None)
    if isinstance(path, Path):
        return _of_file(path)
    from pytest_hierexport._export import Export

    if isinstance(data, Export):
        return _of_export(data)
    raise TypeError(f"a hierarchy snapshot is of an export, a Path or a text, not {type(data).__name__}")


def is_snapshot(path: Path) -> bool:
    """Whether a file holds a hierarchy as text, whole or cut, or nothing at all."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return False
    return all(line.startswith(_LINE_STARTS) for line in lines)


def _of_export(export: Export) -> str:
    from pytest_hierexport._onnx.graph import walk_ir

    operators = {key: encode_operator(node.domain, node.op_type) for key, node in walk_ir(export.model)}
    return text(export.attribution, operators)


def _of_file(path: Path) -> str:
    from pytest_hierexport._onnx import storage
    from pytest_hierexport._onnx.graph import walk_proto

    operators = {key: encode_operator(node.domain, node.op_type) for key, node in walk_proto(storage.load_proto(path))}
    return text(storage.read(path), operators)


def text(attribution: Attribution, operators: Mapping[str, str]) -> str:
    """Return the hierarchy as text.

    Args:
        attribution: The origins; each node counts for its primary alone.
        operators: The operator of every node, by node key.

    Raises:
        TagError: The modules nest deeper than a text can show.
    """
    hierarchy = attribution.hierarchy
    counts: dict[str | None, Counter[str]] = {}
    for key, operator in operators.items():
        origins = attribution.nodes.get(key)
        owner = (hierarchy.kept(origins[0].call) or ROOT) if origins else None
        counts.setdefault(owner, Counter())[operator] += 1
    lines = list(_lines(_folded(_tree(hierarchy, counts)), "")) if hierarchy else []
    if None in counts:
        lines.append(_line(UNTAGGED, 1, _operators(counts[None])))
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True)
class _Node:
    """A call with a segment, or a run of equal ones."""

    name: str
    """The segment without its `@k`."""
    index: int
    path: str
    """The instance's path, which repeated calls share."""
    operators: tuple[tuple[str, int], ...]
    children: tuple[_Node, ...]
    times: int = 1
    marks: str = ""
    """What stands for the run in its segment, empty for a single call."""

    @property
    def segment(self) -> str:
        return self.marks or call_name(self.name, self.index)


def _operators(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items()))


def _tree(hierarchy: Hierarchy, counts: Mapping[str | None, Mapping[str, int]]) -> _Node:
    """Return the calls that have a segment, each below the nearest one above it."""
    callers = {name: hierarchy.kept_above(name) or ROOT for name in hierarchy if hierarchy.is_kept(name)}
    callers.pop(ROOT, None)
    _check_depth(callers)
    below: dict[str, list[_Node]] = {}
    # From the leaves up: a call comes after its caller.
    for name in reversed(list(callers)):
        below.setdefault(callers[name], []).append(_node(hierarchy, name, counts, below.get(name, [])))
    return _node(hierarchy, ROOT, counts, below.get(ROOT, []))


def _check_depth(callers: Mapping[str, str]) -> None:
    levels = {ROOT: 0}
    for name, caller in callers.items():
        levels[name] = levels[caller] + 1
    deepest = max(levels.values())
    if deepest > _DEEPEST:
        raise TagError(
            f"at most {_DEEPEST} levels of modules in a hierarchy as text",
            found=f"{deepest:,} levels",
            do="look at the file with hierexport analyze, whose table takes any depth",
        )


def _node(
    hierarchy: Hierarchy, name: str, counts: Mapping[str | None, Mapping[str, int]], reversed_children: list[_Node]
) -> _Node:
    call = hierarchy[name]
    segment = hierarchy.segment(name) if hierarchy.is_kept(name) else ""
    return _Node(segment, call.index, call.path, _operators(counts.get(name, {})), tuple(reversed(reversed_children)))


def _folded(node: _Node) -> _Node:
    """Fold the runs of equal siblings below a node, the innermost first."""
    children = [_folded(child) for child in node.children]
    folded: list[_Node] = []
    while children:
        run = _run(children)
        folded.append(_as_one(run) if len(run) > 1 else run[0])
        del children[: len(run)]
    return replace(node, children=tuple(folded))


def _run(siblings: list[_Node]) -> list[_Node]:
    """Return the first sibling and those after it that are equal to it but for a number that goes up by one."""
    run = siblings[:1]
    first: tuple[object, ...] | None = None
    for sibling in siblings[1:]:
        follows = _next_in_list(run[-1], sibling) if len(run) == 1 else _same_step(run, sibling)
        if not (follows or _repeats(run, sibling)):
            break
        first = first or _content(run[0])
        if _content(sibling) != first:
            break
        run.append(sibling)
    return run


def _same_step(run: list[_Node], sibling: _Node) -> bool:
    return not _repeats(run[:1], run[1]) and _next_in_list(run[-1], sibling)


def _repeats(run: list[_Node], sibling: _Node) -> bool:
    """Whether a sibling is the next call under the very name that every call of the run has."""
    last = run[-1]
    return run[0].name == last.name == sibling.name and sibling.index == last.index + 1


def _next_in_list(last: _Node, sibling: _Node) -> bool:
    before, after = _numbered(last), _numbered(sibling)
    return (
        before is not None and after is not None and last.index == sibling.index and after == (before[0], before[1] + 1)
    )


def _numbered(node: _Node) -> tuple[str, int] | None:
    """Split the number of a list's item off its segment."""
    stem, dot, number = node.name.rpartition(".")
    return (stem, int(number)) if dot and number.isdecimal() and number.isascii() else None


def _as_one(run: list[_Node]) -> _Node:
    first, last = run[0], run[-1]
    if first.name == last.name:
        marks = f"{first.name}@{{{first.index}..{last.index}}}"
    else:
        stem, number = first.name.rpartition(".")[0], last.name.rpartition(".")[2]
        marks = call_name(f"{stem}.{{{first.name.rpartition('.')[2]}..{number}}}", first.index)
    children = tuple(_relative(child, _lowest(first)) for child in first.children)
    return replace(first, times=len(run), marks=marks, children=children)


def _content(node: _Node) -> tuple[object, ...]:
    """What makes siblings equal: operators and all that is below, call indices counted from the first."""
    lowest = _lowest(node)
    return (node.operators, tuple(_shape(_relative(child, lowest)) for child in node.children))


def _shape(node: _Node) -> tuple[object, ...]:
    return (node.segment, node.times, node.operators, tuple(_shape(child) for child in node.children))


def _lowest(node: _Node) -> dict[str, int]:
    """Return the lowest call index under every path below a node."""
    lowest: dict[str, int] = {}
    for below in _below(node):
        lowest[below.path] = min(below.index, lowest.get(below.path, below.index))
    return lowest


def _below(node: _Node) -> Iterator[_Node]:
    for child in node.children:
        yield child
        yield from _below(child)


def _relative(node: _Node, lowest: Mapping[str, int]) -> _Node:
    """Count the call indices of a node and of all below it from the lowest of their paths."""
    moved = replace(
        node,
        index=node.index - lowest.get(node.path, 0),
        children=tuple(_relative(child, lowest) for child in node.children),
    )
    return replace(moved, marks=_moved_marks(node, moved.index)) if node.marks else moved


def _moved_marks(node: _Node, index: int) -> str:
    """Return the marks of a run whose first call index has moved."""
    name, at, rest = node.marks.partition("@")
    if not at:
        return node.marks
    if "{" in rest:
        return f"{name}@{{{index}..{index + node.times - 1}}}"
    return call_name(name, index)


def _lines(node: _Node, above: str) -> Iterable[str]:
    tag = f"{above}/{node.segment}" if node.name else above
    yield _line(tag or "/", node.times, node.operators)
    for child in node.children:
        yield from _lines(child, tag)


def _line(tag: str, times: int, operators: tuple[tuple[str, int], ...]) -> str:
    head = f"{tag} ×{times}" if times > 1 else tag
    listed = ", ".join(f"{operator} {count}" for operator, count in operators)
    return one_line(f"{head}: {listed}" if listed else head)
