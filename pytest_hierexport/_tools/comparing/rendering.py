"""Writes a comparison as text, as Markdown, or as an object for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from pytest_hierexport._grouping import grouped
from pytest_hierexport._snapshot.diff import changed_counts
from pytest_hierexport._text import counted, inline_code
from pytest_hierexport._tools.comparing.comparison import Comparison, Renamed
from pytest_hierexport._tools.comparing.folding import ShownChange, fold, some
from pytest_hierexport._tools.comparing.modules import Instance, ModuleChanges

_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def as_lines(comparison: Comparison, before: str, after: str, limit: int) -> Iterator[str]:
    """Yield the differences as text, at most `limit` in each section."""
    if comparison.same:
        yield f"{before} and {after} are the same"
        return
    yield from (f"--- {before}", f"+++ {after}")
    for title, lines in _sections(comparison):
        yield f"{title} ({_count(lines):,})"
        yield from (f"  {line.sign} {line.name}{f': {line.text}' if line.text else ''}" for line in lines[:limit])
        if len(lines) > limit:
            yield f"  … and {_count(lines[limit:]):,} more"


def as_markdown(comparison: Comparison, before: str, after: str, limit: int) -> Iterator[str]:
    """Yield the differences as Markdown that shows every name literally."""
    yield f"## {inline_code(before)} → {inline_code(after)}"
    if comparison.same:
        yield from ("", "No difference.")
    for title, lines in _sections(comparison):
        yield from ("", f"### {title.capitalize()} ({_count(lines):,})", "")
        for line in lines[:limit]:
            yield f"- {inline_code(f'{line.sign} {line.name}')}{f': {inline_code(line.text)}' if line.text else ''}"
        if len(lines) > limit:
            yield f"- … and {_count(lines[limit:]):,} more"


def _count(lines: Sequence[ShownChange]) -> int:
    return sum(line.count for line in lines)


def _sections(comparison: Comparison) -> Iterator[tuple[str, list[ShownChange]]]:
    """Yield each section that is not empty, with its title."""
    sections: dict[str, Iterable[ShownChange]] = {
        "modules": _modules(comparison),
        "model": (ShownChange("~", text) for text in comparison.model),
        "nodes": (
            ShownChange(_SIGNS[each.kind], each.node, each.operator, each.tag or "untagged", "; ".join(each.changes))
            for each in comparison.nodes
        ),
        "initializers": (
            ShownChange(_SIGNS[each.kind], each.name, text=each.change) for each in comparison.initializers
        ),
        "renamed values": map(_of_name, comparison.values),
        "renamed nodes": map(_of_name, comparison.node_names),
    }
    yield from ((title, lines) for title, changes in sections.items() if (lines := fold(changes)))


def _of_name(renamed: Renamed) -> ShownChange:
    return ShownChange("=", f"{renamed.before} → {renamed.after}")


def _modules(comparison: Comparison) -> Iterator[ShownChange]:
    modules = comparison.modules
    for sign, instances in (("-", modules.removed), ("+", modules.added)):
        for instance in instances:
            count = sum(1 for _ in instance.below()) - 1
            below = f" with {counted(count, 'module')} below" if count else ""
            operators = ", ".join(f"{name} {number}" for name, number in sorted(instance.all_operators().items()))
            yield ShownChange(sign, f"{instance.tag} ({instance.cls}){below}", text=operators)
    for old, new in modules.moved:
        text = f"moved from {old.path or 'the root'} to {new.path or 'the root'}"
        yield ShownChange(">", f"{old.tag} → {new.tag}", text=text)
    for (cls, other), pairs in grouped(modules.renamed, lambda pair: (pair[0].cls, pair[1].cls)).items():
        equal = all(old.operators == new.operators for old, new in pairs)
        operators = f"operators {'equal' if equal else 'changed'}"
        text = f"{counted(len(pairs), 'instance')}, {operators}: {some([new.tag for _, new in pairs])}"
        yield ShownChange("=", f"renamed {cls} → {other}", text=text)
    for text, pairs in grouped(modules.changed, partial(_changed, modules)).items():
        yield ShownChange("~", some([new.tag for _, new in pairs]), text=text)
    for instance, follower in modules.reordered:
        yield ShownChange(">", f"{instance.tag} now before {follower.tag}")
    if comparison.untagged[0] != comparison.untagged[1]:
        yield ShownChange("~", "(untagged)", text=changed_counts(*comparison.untagged))


def _changed(modules: ModuleChanges, pair: tuple[Instance, Instance]) -> str:
    """Return the text of a changed module, which modules with equal changes share."""
    old, new = pair
    calls = f"calls {old.calls} → {new.calls}" if old.calls != new.calls else ""
    callers = modules.callers.get(new.path, ())
    called = f"called by {' → '.join(callers)}" if callers else ""
    return ", ".join(filter(None, (calls, called, changed_counts(old.operators, new.operators))))


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
        "callers": list(dict.fromkeys(caller.path for caller in instance.callers)),
        "operators": dict(sorted(operators.items())),
    }
