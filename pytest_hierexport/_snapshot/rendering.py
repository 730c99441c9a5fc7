"""Renders a hierarchy as text: one line per module, with its tag and its operators, runs of equal siblings folded.

    /BertModel/BertEncoder/BertLayer.{0..11} ×12: Add 2, MatMul 6

The text has no name of a node, no version and no element of a weight, so it changes only with the hierarchy, its
operators and, in a detailed snapshot, the modules and shapes of tensors that :mod:`details
<pytest_hierexport._snapshot.details>` lists.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._errors import TagError
from pytest_hierexport._snapshot.folding import Branch, fold
from pytest_hierexport._snapshot.lines import LINE
from pytest_hierexport._text import one_line

UNTAGGED = "(untagged)"
_MARKERS = ("<<<<<<< ", "||||||| ", "=======", ">>>>>>> ")
# A snapshot with the conflict markers of a merge is one still: an update resolves the conflict.
_LINE_STARTS = ("/", UNTAGGED, *_MARKERS)

_DEEPEST = 300
"""Folding is recursive. Modules nest no deeper than this: Python allows 1,000 frames, and each call takes three."""


def is_snapshot(path: Path) -> bool:
    """Whether a file holds a snapshot, perhaps cut or in another encoding, or is empty."""
    lines = _read(path)
    return lines is not None and all(line.startswith(_LINE_STARTS) for line in lines)


def has_conflict(text: str) -> bool:
    """Whether a snapshot's text has the conflict markers of a merge."""
    return any(line.startswith(_MARKERS) for line in text.splitlines())


def is_hierarchy(path: Path) -> bool:
    """Whether a file holds a whole hierarchy: each module below the one that called it, at least one with operators."""
    matches = [match for match in map(LINE.fullmatch, _read(path) or ()) if match]
    tags = {match["tag"] for match in matches} - {UNTAGGED}
    above = {"", *tags}
    connected = all(tag.startswith("/") and tag.rpartition("/")[0] in above for tag in tags)
    return connected and any(match["operators"] for match in matches)


def _read(path: Path) -> list[str] | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    # The shell of Windows redirects output as UTF-16.
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_wide else "utf-8-sig", errors="replace").splitlines()


def text(
    attribution: Attribution, operators: Mapping[str, str], held: Mapping[str, Mapping[str, int]] | None = None
) -> str:
    """Return the hierarchy as text.

    Args:
        attribution: The origins; each node counts for its primary origin alone.
        operators: The operator of every node, by node key.
        held: What else the modules hold, by call name (:func:`details`).

    Raises:
        TagError: The modules nest deeper than a text can show.
    """
    return "".join(
        f"{line}\n" for line in _drawn(attribution, operators, held or {}, lambda branch: _lines(branch, ""))
    )


def tree(attribution: Attribution, operators: Mapping[str, str]) -> str:
    """Return the hierarchy as an indented tree, for people; see :func:`text`.

        BertModel
          BertEncoder
            BertLayer.{0..11} ×12: Add 2, MatMul 6

    Raises:
        TagError: The modules nest deeper than a text can show.
    """
    return "\n".join(_drawn(attribution, operators, {}, lambda branch: _indented(branch, 0)))


def _drawn(
    attribution: Attribution,
    operators: Mapping[str, str],
    held: Mapping[str, Mapping[str, int]],
    draw: Callable[[Branch], Iterator[str]],
) -> list[str]:
    """Count each node for the nearest kept call from its primary upwards, fold the tree, and return its lines."""
    hierarchy = attribution.hierarchy
    counts: dict[str | None, Counter[str]] = {}
    for key, operator in operators.items():
        origins = attribution.nodes.get(key)
        owner = (hierarchy.kept(origins[0].call) or ROOT) if origins else None
        counts.setdefault(owner, Counter())[operator] += 1
    for name, things in held.items():
        counts.setdefault(name, Counter()).update(things)
    lines = list(draw(fold(_tree(hierarchy, counts)))) if hierarchy else []
    if None in counts:
        lines.append(_line(UNTAGGED, 1, tuple(sorted(counts[None].items()))))
    return lines


def _tree(hierarchy: Hierarchy, counts: Mapping[str | None, Mapping[str, int]]) -> Branch:
    """Return the tree of the calls that have a segment."""
    callers = {name: hierarchy.kept_above(name) or ROOT for name in hierarchy if hierarchy.is_kept(name)}
    callers.pop(ROOT, None)
    _check_depth(callers)
    below: dict[str, list[Branch]] = {}
    # From the leaves up: a call comes after its caller.
    for name in (*reversed(callers), ROOT):
        call = hierarchy[name]
        segment = hierarchy.segment(name) if hierarchy.is_kept(name) else ""
        operators = tuple(sorted(counts.get(name, {}).items()))
        branch = Branch(segment, call.index, call.path, operators, tuple(reversed(below.get(name, []))))
        if name != ROOT:
            below.setdefault(callers[name], []).append(branch)
    return branch


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


def _lines(branch: Branch, above: str) -> Iterator[str]:
    tag = f"{above}/{branch.segment}" if branch.name else above
    yield _line(tag or "/", branch.times, branch.operators)
    for child in branch.children:
        yield from _lines(child, tag)


def _indented(branch: Branch, depth: int) -> Iterator[str]:
    yield "  " * depth + _line(branch.segment or "/", branch.times, branch.operators)
    for child in branch.children:
        yield from _indented(child, depth + 1)


def _line(tag: str, times: int, operators: tuple[tuple[str, int], ...]) -> str:
    head = f"{tag} ×{times}" if times > 1 else tag
    listed = ", ".join(f"{operator} {count}" for operator, count in operators)
    return one_line(f"{head}: {listed}" if listed else head)
