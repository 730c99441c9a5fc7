"""Lists the module instances of an exported model with what the graph holds of each, for reports.

    path      class                calls  operators         parameters
    ""        m.Net                1      {"Add": 1}
    layers    torch.nn.ModuleList  0
    layers.0  torch.nn.Linear      1      {"Gemm": 1}       20

A module that a subgraph or a function of the graph belongs to is listed like any other: only paths and calls count.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate, chain
from typing import Any

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._calls.modules import Module, element_count
from pytest_hierexport._grouping import by_key

_KEYS = {"cls": "class"}
_NAMES = {key: name for name, key in _KEYS.items()}


@dataclass(frozen=True)
class ModuleEntry:
    """A module instance and what the graph holds of it alone, without the modules below it."""

    path: str
    """Its encoded dotted path; the root's is empty."""
    cls: str = ""
    """Its qualified class; empty where nothing but the paths below it is known."""
    tag: str = ""
    """The tag of its first call; empty where its class has no segment in tags, or it was not called."""
    calls: int = 0
    operators: Mapping[str, int] = field(default_factory=dict)
    """The nodes whose primary origin is one of its calls, by operator."""
    evidence: Mapping[str, int] = field(default_factory=dict)
    """The same nodes by the evidence of their primary origin."""
    co_owned: Mapping[str, int] = field(default_factory=dict)
    """The nodes that it owns beside a primary origin in another module, by the evidence for it."""
    parameters: int = 0
    """Elements of the trainable tensors that it declares; a shared tensor counts for its first declaration."""
    bytes: int = 0
    """The size in bytes of the initializers in the file whose primary origin it is."""


def module_entries(
    attribution: Attribution, modules: Iterable[Module], operators: Mapping[str, str], sizes: Mapping[str, int]
) -> tuple[ModuleEntry, ...]:
    """Return every module instance before those below it, siblings in the order in which they are first called.

    Args:
        attribution: The origins of nodes and initializers.
        modules: The instances that the model declares, called or not; empty where they are not known.
        operators: The operator of every node, by node key.
        sizes: The bytes of every initializer, by its key.
    """
    hierarchy = attribution.hierarchy
    declared = {module.path: module for module in modules}
    calls = by_key((call.path, name) for name, call in hierarchy.items())
    nodes, co_owned, held = _nodes(attribution, operators), _co_owned(attribution), _bytes(attribution, sizes)
    entries = []
    for path in _in_order([*declared, *calls], {path: hierarchy.position[names[0]] for path, names in calls.items()}):
        called, module = calls.get(path, []), declared.get(path)
        entries.append(
            ModuleEntry(
                path=path,
                cls=hierarchy[called[0]].cls if called else module.cls if module else "",
                tag=hierarchy.tag(called[0]) if called and hierarchy.is_kept(called[0]) else "",
                calls=len(called),
                operators=dict(sorted(Counter(operator for operator, _ in nodes[path]).items())),
                evidence=dict(sorted(Counter(evidence for _, evidence in nodes[path]).items())),
                co_owned=dict(sorted(co_owned[path].items())),
                parameters=trainable_elements(module) if module else 0,
                bytes=held[path],
            )
        )
    return tuple(entries)


def _nodes(attribution: Attribution, operators: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Return the operator and the evidence of each node, by the path of its primary origin."""
    nodes: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key, operator in operators.items():
        for origin in attribution.nodes.get(key, ())[:1]:
            nodes[attribution.hierarchy[origin.call].path].append((operator, origin.evidence.value))
    return nodes


def _co_owned(attribution: Attribution) -> dict[str, Counter[str]]:
    """Count the nodes that a module owns beside the primary of another one, by path and evidence."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for origins in attribution.nodes.values():
        evidence: dict[str, str] = {}
        for origin in origins:
            evidence.setdefault(attribution.hierarchy[origin.call].path, origin.evidence.value)
        for path, kind in list(evidence.items())[1:]:
            counts[path][kind] += 1
    return counts


def _bytes(attribution: Attribution, sizes: Mapping[str, int]) -> Counter[str]:
    """Return the bytes of the initializers, by the path of their primary origin."""
    held: Counter[str] = Counter()
    for key, origins in attribution.initializers.items():
        held[attribution.hierarchy[origins[0].call].path] += sizes.get(key, 0)
    return held


def trainable_elements(module: Module) -> int:
    """Count the elements of the trainable tensors that a module declares; a shared one counts where it is first."""
    return sum(element_count(p.shape) for p in module.parameters if p.trainable and p.shared is None)


def _in_order(paths: Iterable[str], positions: Mapping[str, int]) -> Iterator[str]:
    """Yield the paths and all above them, parents first; siblings by their first call, then as they are declared."""
    below = (accumulate(path.split("."), "{}.{}".format) for path in paths if path != ROOT)
    every = dict.fromkeys((ROOT, *chain.from_iterable(below)))
    children = by_key((path.rpartition(".")[0], path) for path in every if path != ROOT)
    first: dict[str, float] = {}
    for path in reversed(every):
        first[path] = min([positions.get(path, math.inf), *(first[child] for child in children.get(path, ()))])
    pending = [ROOT]
    while pending:
        path = pending.pop()
        yield path
        pending.extend(sorted(children.get(path, ()), key=first.__getitem__)[::-1])


def to_lines(entries: Iterable[ModuleEntry]) -> str:
    """Return entries as JSON, one per line."""
    return "[" + ",\n".join(json.dumps(entry_to_json(entry)) for entry in entries) + "]\n"


def from_lines(text: str) -> tuple[ModuleEntry, ...]:
    """Undo :func:`to_lines`."""
    return tuple(map(entry_from_json, json.loads(text)))


def entry_to_json(entry: ModuleEntry) -> dict[str, Any]:
    """Return an entry as JSON can hold it, without what is empty or zero."""
    stated = {_KEYS.get(each.name, each.name): getattr(entry, each.name) for each in fields(entry)}
    return {"path": entry.path, **{name: value for name, value in stated.items() if value}}


def is_entry(content: object) -> bool:
    """Whether a JSON value is such an entry, as `schema/report.json` describes it; a float is none of its numbers."""
    if not isinstance(content, dict) or not isinstance(content.get("path"), str):
        return False
    return all(fits(content[name]) for name, fits in _FITS.items() if name in content)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _are_counts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


_FITS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("path", "class", "tag"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("calls", "parameters", "bytes"), _is_count),
    **dict.fromkeys(("operators", "evidence", "co_owned"), _are_counts),
}


def entry_from_json(content: Mapping[str, Any]) -> ModuleEntry:
    """Undo :func:`entry_to_json`."""
    return ModuleEntry(**{_NAMES.get(name, name): content[name] for name in _FITS if name in content})
