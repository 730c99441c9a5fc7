"""Writes a comparison as text, as Markdown, or as an object for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_hierexport._snapshot.diff import changed_counts
from pytest_hierexport._text import inline_code
from pytest_hierexport._tools.comparing.comparison import Comparison
from pytest_hierexport._tools.comparing.modules import Instance

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_MOST_TAGS = 3


@dataclass(frozen=True)
class _Line:
    """A difference: its sign, names from the files, and a text about it."""

    sign: str
    name: str
    text: str = ""


def as_lines(comparison: Comparison, before: str, after: str, limit: int) -> Iterator[str]:
    """Yield the differences as text, at most `limit` in each section."""
    if comparison.same:
        yield f"{before} and {after} are the same"
        return
    yield from (f"--- {before}", f"+++ {after}")
    for title, lines in _sections(comparison):
        yield f"{title} ({len(lines):,})"
        yield from (f"  {line.sign} {line.name}{f': {line.text}' if line.text else ''}" for line in lines[:limit])
        if len(lines) > limit:
            yield f"  … and {len(lines) - limit:,} more"


def as_markdown(comparison: Comparison, before: str, after: str, limit: int) -> Iterator[str]:
    """Yield the differences as Markdown that shows every name literally."""
    yield f"## {inline_code(before)} → {inline_code(after)}"
    if comparison.same:
        yield from ("", "No difference.")
    for title, lines in _sections(comparison):
        yield from ("", f"### {title.capitalize()} ({len(lines):,})", "")
        for line in lines[:limit]:
            yield f"- {inline_code(f'{line.sign} {line.name}')}{f': {inline_code(line.text)}' if line.text else ''}"
        if len(lines) > limit:
            yield f"- … and {len(lines) - limit:,} more"


def _sections(comparison: Comparison) -> Iterator[tuple[str, list[_Line]]]:
    """Yield each section that is not empty, with its title."""
    nodes = [
        _Line(_SIGNS[each.kind], f"{each.node} {each.operator}", "; ".join((each.tag or "untagged", *each.changes)))
        for each in comparison.nodes
    ]
    tensors = [_Line(_SIGNS[each.kind], each.name, each.change) for each in comparison.initializers]
    sections = {
        "modules": list(_modules(comparison)),
        "model": [_Line("~", text) for text in comparison.model],
        "nodes": nodes,
        "initializers": tensors,
        "renamed values": [_Line("=", f"{each.before} → {each.after}") for each in comparison.values],
        "renamed nodes": [_Line("=", f"{each.before} → {each.after}") for each in comparison.node_names],
    }
    yield from ((title, lines) for title, lines in sections.items() if lines)


def _modules(comparison: Comparison) -> Iterator[_Line]:
    modules = comparison.modules
    for sign, instances in (("-", modules.removed), ("+", modules.added)):
        for instance in instances:
            count = sum(1 for _ in instance.below()) - 1
            below = f" with {count:,} modules below" if count else ""
            yield _Line(sign, f"{instance.tag} ({instance.cls}){below}", _counts(instance.all_operators()))
    for old, new in modules.moved:
        yield _Line(">", f"{old.tag} → {new.tag}", f"moved from {old.path or 'the root'} to {new.path or 'the root'}")
    for (cls, other), pairs in _by_class(modules.renamed).items():
        equal = all(old.operators == new.operators for old, new in pairs)
        text = f"{_times(len(pairs))}, operators {'equal' if equal else 'changed'}"
        yield _Line("=", f"renamed {cls} → {other}", f"{text}: {_some([new.tag for _, new in pairs])}")
    for text, tags in _by_text(modules.changed).items():
        yield _Line("~", _some(tags), text)
    for instance, follower in modules.reordered:
        yield _Line(">", instance.tag, f"now before {follower.tag}")
    if comparison.untagged[0] != comparison.untagged[1]:
        yield _Line("~", "(untagged)", changed_counts(*comparison.untagged))


def _by_class(pairs: Sequence[tuple[Instance, Instance]]) -> dict[tuple[str, str], list[tuple[Instance, Instance]]]:
    grouped: dict[tuple[str, str], list[tuple[Instance, Instance]]] = {}
    for old, new in pairs:
        grouped.setdefault((old.cls, new.cls), []).append((old, new))
    return grouped


def _by_text(pairs: Sequence[tuple[Instance, Instance]]) -> dict[str, list[str]]:
    """Return the tags of changed modules by the text of their change, so that equal changes are one line."""
    grouped: dict[str, list[str]] = {}
    for old, new in pairs:
        calls = f"calls {old.calls} → {new.calls}" if old.calls != new.calls else ""
        text = ", ".join(filter(None, (calls, changed_counts(old.operators, new.operators))))
        grouped.setdefault(text, []).append(new.tag)
    return grouped


def _some(tags: Sequence[str]) -> str:
    more = f" and {len(tags) - _MOST_TAGS:,} more" if len(tags) > _MOST_TAGS else ""
    return ", ".join(tags[:_MOST_TAGS]) + more


def _times(count: int) -> str:
    return "1 instance" if count == 1 else f"{count:,} instances"


def _counts(operators: Mapping[str, int]) -> str:
    return ", ".join(f"{operator} {count}" for operator, count in sorted(operators.items()))


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """Return all differences as an object for JSON."""
    modules = comparison.modules
    paired = ("moved", "renamed", "changed")
    return {
        "same": comparison.same,
        "modules": {
            "added": [_instance(each, each.all_operators()) for each in modules.added],
            "removed": [_instance(each, each.all_operators()) for each in modules.removed],
            **{kind: [_pair(*pair) for pair in getattr(modules, kind)] for kind in paired},
            "reordered": [{"tag": each.tag, "before": other.tag} for each, other in modules.reordered],
        },
        "untagged": {"before": comparison.untagged[0], "after": comparison.untagged[1]},
        "model": list(comparison.model),
        "nodes": [asdict(each) for each in comparison.nodes],
        "initializers": [asdict(each) for each in comparison.initializers],
        "renamed_values": [asdict(each) for each in comparison.values],
        "renamed_nodes": [asdict(each) for each in comparison.node_names],
    }


def _pair(old: Instance, new: Instance) -> dict[str, Any]:
    return {"before": _instance(old, old.operators), "after": _instance(new, new.operators)}


def _instance(instance: Instance, operators: Counter[str]) -> dict[str, Any]:
    return {
        "tag": instance.tag,
        "path": instance.path,
        "class": instance.cls,
        "calls": instance.calls,
        "operators": dict(sorted(operators.items())),
    }
