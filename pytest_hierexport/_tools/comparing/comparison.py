"""Compares two tagged files and collects the differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.names import call_name
from pytest_hierexport._onnx.graph import operators
from pytest_hierexport._tools.comparing.attributes import attribute_change
from pytest_hierexport._tools.comparing.graphs import FlatGraph, FlatNode, FlatValue
from pytest_hierexport._tools.comparing.interface import interface_changes
from pytest_hierexport._tools.comparing.modules import ModuleChanges, Tree, compare_modules
from pytest_hierexport._tools.comparing.pairing import Labels, Pairs, pair
from pytest_hierexport._tools.comparing.tensors import Data, Store
from pytest_hierexport._tools.comparing.texts import NONE, change

if TYPE_CHECKING:
    from pytest_hierexport._tools.tagged_file import TaggedFile


@dataclass(frozen=True)
class NodeChange:
    """A node that is in one file only, or differs between the files."""

    kind: Literal["added", "removed", "changed"]
    node: str
    """The key of the node: in the file after, or, if it was removed, in the file before."""
    operator: str
    tag: str
    """Empty for an untagged node."""
    changes: Sequence[str] = ()
    """The differences: `attribute axis: 1 → -1`."""


@dataclass(frozen=True)
class TensorChange:
    """An initializer that is in one file only, or differs between the files."""

    kind: Literal["added", "removed", "changed"]
    name: str
    change: str = ""


@dataclass(frozen=True)
class Renamed:
    """The two names of a value or a node."""

    before: str
    after: str


@dataclass(frozen=True)
class Comparison:
    """The differences between two files."""

    modules: ModuleChanges
    untagged: tuple[dict[str, int], dict[str, int]]
    """By file: the number of untagged nodes by operator."""
    nodes: Sequence[NodeChange]
    values: Sequence[Renamed]
    """The paired outputs of nodes whose names differ."""
    node_names: Sequence[Renamed]
    initializers: Sequence[TensorChange]
    model: Sequence[str]
    """Differences in the inputs, the outputs and the operator sets, of functions too."""

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        parts = (self.modules.added, self.modules.removed, self.modules.moved, self.modules.renamed)
        more = (self.modules.changed, self.modules.reordered, self.nodes, self.values, self.node_names)
        return not any((*parts, *more, self.initializers, self.model)) and self.untagged[0] == self.untagged[1]


def compare(before: TaggedFile, after: TaggedFile) -> Comparison:
    """Compare the modules, nodes, values, initializers and interfaces of two files.

    Raises:
        UsageError: The data of an initializer is missing or damaged, or the modules have too many levels.
    """
    trees = [Tree(file.attribution, operators(file.proto)) for file in (before, after)]
    modules = compare_modules(*trees)
    graphs = FlatGraph(before.proto), FlatGraph(after.proto)
    data = Data(*(Store(None if file.path is None else file.path.parent, _name(file)) for file in (before, after)))
    sides = _Side(before.attribution, trees[0], modules), _Side(after.attribution, trees[1], None)
    calls = {node: side.owners(node.key)[:1] for graph, side in zip(graphs, sides, strict=True) for node in graph.nodes}
    labels = Labels(_modules(graphs, trees, modules).__getitem__, lambda node: tuple(calls[node]))
    pairs = pair(*graphs, labels, data)
    return Comparison(
        modules=modules,
        untagged=(dict(trees[0].untagged), dict(trees[1].untagged)),
        nodes=list(_node_changes(graphs, pairs, sides, data)),
        values=[Renamed(old.name, new.name) for old, new in _outputs(pairs) if old.name != new.name],
        node_names=[Renamed(old.name, new.name) for old, new in pairs.nodes.items() if old.name != new.name],
        initializers=list(_tensor_changes(graphs, pairs, data)),
        model=list(_model_changes((before, after), graphs, pairs, data)),
    )


def _name(file: TaggedFile) -> str:
    return "standard input" if file.path is None else file.path.name


def _modules(
    graphs: tuple[FlatGraph, FlatGraph], trees: Sequence[Tree], modules: ModuleChanges
) -> dict[FlatNode, str | None]:
    """Return for each node of both graphs the path of its module in the file after.

    None for an untagged node, and for a node of a module that has no counterpart in the other file.
    """
    reached = set(modules.pairs.values())
    owners = ((node, trees[0].owner.get(node.key)) for node in graphs[0].nodes)
    labels = {node: None if owner is None else modules.pairs.get(owner) for node, owner in owners}
    for node in graphs[1].nodes:
        owner = trees[1].owner.get(node.key)
        labels[node] = owner if owner in reached else None
    return labels


@dataclass(frozen=True)
class _Side:
    """Gives the tags and owners of one file's nodes; owners by the paths in the file after."""

    attribution: Attribution
    tree: Tree
    modules: ModuleChanges | None

    def tag(self, key: str) -> str:
        origins = self.attribution.nodes.get(key, ())
        return self.attribution.hierarchy.tag(origins[0].call) if origins else ""

    def owners(self, key: str) -> list[str]:
        """Return the calls of all origins, the primary's first; those of a paired module by its path after."""
        calls = [self.tree.counted(origin.call) for origin in self.attribution.nodes.get(key, ())]
        pairs = {} if self.modules is None else self.modules.pairs
        return list(dict.fromkeys(call_name(pairs.get(call.path, call.path), call.index) for call in calls))


def _node_changes(
    graphs: tuple[FlatGraph, FlatGraph], pairs: Pairs, sides: tuple[_Side, _Side], data: Data
) -> Iterator[NodeChange]:
    for node in graphs[0].nodes:
        if node not in pairs.nodes:
            yield NodeChange("removed", node.key, node.operator, sides[0].tag(node.key))
    partner = {new: old for old, new in pairs.nodes.items()}
    for node in graphs[1].nodes:
        tag = sides[1].tag(node.key)
        if node not in partner:
            yield NodeChange("added", node.key, node.operator, tag)
            continue
        old = partner[node]
        changes = [*_in_fields(old, node, pairs, data), *_in_tags(old, node, sides)]
        if changes:
            yield NodeChange("changed", node.key, node.operator, tag, changes)


def _in_fields(old: FlatNode, new: FlatNode, pairs: Pairs, data: Data) -> Iterator[str]:
    if old.overload != new.overload:
        yield change("overload", old.overload or NONE, new.overload or NONE)
    for name in dict.fromkeys((*old.attributes, *new.attributes)):
        text = attribute_change(old.attributes.get(name), new.attributes.get(name), data)
        if text:
            yield f"attribute {name}: {text}"
    for place in dict.fromkeys((*old.inputs, *new.inputs)):
        a, b = old.inputs.get(place), new.inputs.get(place)
        if a is None or b is None or pairs.values.get(a) is not b:
            where = f"input {place}" if isinstance(place, int) else "output {1} of subgraph {0}".format(*place)  # type: ignore[misc]
            yield change(where, NONE if a is None else a.name, NONE if b is None else b.name)
    if len(old.outputs) != len(new.outputs):
        yield f"outputs: {len(old.outputs)} → {len(new.outputs)}"


def _in_tags(old: FlatNode, new: FlatNode, sides: tuple[_Side, _Side]) -> Iterator[str]:
    a, b = sides[0].owners(old.key), sides[1].owners(new.key)
    if a[:1] != b[:1]:
        yield f"tag: {sides[0].tag(old.key) or NONE} → {sides[1].tag(new.key) or NONE}"
    elif set(a) != set(b):
        yield f"owners: {', '.join(sorted(set(a) - set(b))) or NONE} → {', '.join(sorted(set(b) - set(a))) or NONE}"


def _outputs(pairs: Pairs) -> Iterator[tuple[FlatValue, FlatValue]]:
    return ((old, new) for old, new in pairs.values.items() if old.tensor is None and old.name and new.name)


def _tensor_changes(graphs: tuple[FlatGraph, FlatGraph], pairs: Pairs, data: Data) -> Iterator[TensorChange]:
    before, after = ([v for each in graph.leaves.values() for v in each if v.tensor is not None] for graph in graphs)
    for old in before:
        new = pairs.values.get(old)
        if new is None or new.tensor is None or old.tensor is None:
            yield TensorChange("removed", old.name)
            continue
        renamed = f"renamed from {old.name}" if old.name != new.name else ""
        text = ", ".join(filter(None, (renamed, data.change(old.tensor, new.tensor))))
        if text:
            yield TensorChange("changed", new.name, text)
    for new in after:
        if new not in pairs.taken:
            yield TensorChange("added", new.name)


def _model_changes(
    files: tuple[TaggedFile, TaggedFile], graphs: tuple[FlatGraph, FlatGraph], pairs: Pairs, data: Data
) -> Iterator[str]:
    yield from interface_changes(files[0].proto, files[1].proto, data)
    for place, value in graphs[0].results.items():
        other = graphs[1].results.get(place)
        if other is not None and pairs.values.get(value) is not other:
            yield f"output {place[-1]} is another value"
