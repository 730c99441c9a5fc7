"""Compares two tagged files and collects the differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pytest_hierexport._calls.names import call_name
from pytest_hierexport._onnx.graph import operators
from pytest_hierexport._tools.comparing.contents import Data, Store, attribute_changes
from pytest_hierexport._tools.comparing.graphs import FlatGraph, FlatNode
from pytest_hierexport._tools.comparing.interface import function_title, interface_changes
from pytest_hierexport._tools.comparing.modules import ModuleChanges, Tree, compare_modules
from pytest_hierexport._tools.comparing.pairing import Pairs, pair
from pytest_hierexport._tools.comparing.texts import NONE, change
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
    sides = (before, trees[0], modules.pairs), (after, trees[1], {path: path for path in modules.pairs.values()})
    graphs = _labelled(*sides[0]), _labelled(*sides[1])
    data = Data(Store(before.path), Store(after.path))
    pairs = pair(*graphs, data)
    return Comparison(
        modules=modules,
        untagged=(dict(trees[0].untagged), dict(trees[1].untagged)),
        nodes=list(_node_changes(graphs, pairs, data)),
        values=[
            Renamed(old.name, new.name)
            for old, new in pairs.values.items()
            if old.tensor is None and old.name != new.name and old.name and new.name
        ],
        node_names=[Renamed(old.name, new.name) for old, new in pairs.nodes.items() if old.name != new.name],
        initializers=list(_tensor_changes(graphs, pairs, data)),
        model=list(_model_changes((before, after), graphs, pairs, data)),
    )


def _labelled(file: TaggedFile, tree: Tree, paths: Mapping[str, str]) -> FlatGraph:
    """Flatten a file with the module, the owners and the tag of each node, and the modules of its initializers.

    `paths` gives the path after of each paired module.
    """
    tag = cache(tree.hierarchy.tag)

    def path_after(call: str) -> str:
        counted, own = tree.counted(call).path, tree.hierarchy[call].path
        return paths.get(counted, counted) + own.removeprefix(counted)

    stored = file.attribution.initializers.items()
    graph = FlatGraph(file.proto, {key: path_after(origins[0].call) for key, origins in stored if origins})
    for node in graph.nodes:
        if origins := file.attribution.nodes.get(node.key):
            calls = [tree.counted(origin.call) for origin in origins]
            names = (call_name(paths.get(call.path, call.path), call.index) for call in calls)
            node.module = paths.get(calls[0].path)
            node.owners = tuple(dict.fromkeys(names))
            node.tag = tag(calls[0].name)
    return graph


def _node_changes(graphs: tuple[FlatGraph, FlatGraph], pairs: Pairs, data: Data) -> Iterator[NodeChange]:
    for node in graphs[0].nodes:
        if node not in pairs.nodes:
            yield NodeChange("removed", node.key, node.operator, node.tag)
    partner = {new: old for old, new in pairs.nodes.items()}
    for node in graphs[1].nodes:
        if node not in partner:
            yield NodeChange("added", node.key, node.operator, node.tag)
        elif changes := [*_in_fields(partner[node], node, pairs, data), *_in_tags(partner[node], node)]:
            yield NodeChange("changed", node.key, node.operator, node.tag, changes)


def _in_fields(old: FlatNode, new: FlatNode, pairs: Pairs, data: Data) -> Iterator[str]:
    if old.overload != new.overload:
        yield change("overload", old.overload or NONE, new.overload or NONE)
    for name, text in attribute_changes(old.attributes, new.attributes, data):
        yield f"attribute {name}: {text}"
    for place in dict.fromkeys((*old.inputs, *new.inputs)):
        a, b = old.inputs.get(place), new.inputs.get(place)
        if a is None or b is None or pairs.values.get(a) is not b:
            where = f"input {place}" if isinstance(place, int) else f"output {place[1]} of subgraph {place[0]}"
            names = [NONE if value is None else value.name for value in (a, b)]
            yield f"{where}: {names[0]} is another value" if names[0] == names[1] else change(where, *names)
    if len(old.outputs) != len(new.outputs):
        yield f"outputs: {len(old.outputs)} → {len(new.outputs)}"


def _in_tags(old: FlatNode, new: FlatNode) -> Iterator[str]:
    a, b = set(old.owners), set(new.owners)
    if old.owners[:1] != new.owners[:1]:
        yield f"tag: {old.tag or NONE} → {new.tag or NONE}"
    elif a != b:
        yield f"owners: {', '.join(sorted(a - b)) or NONE} → {', '.join(sorted(b - a)) or NONE}"


def _tensor_changes(graphs: tuple[FlatGraph, FlatGraph], pairs: Pairs, data: Data) -> Iterator[TensorChange]:
    for old in graphs[0].initializers():
        new = pairs.values.get(old)
        if new is None or new.tensor is None or old.tensor is None:
            yield TensorChange("removed", old.name)
            continue
        renamed = f"renamed from {old.name}" if old.name != new.name else ""
        text = ", ".join(filter(None, (renamed, data.change(old.tensor, new.tensor))))
        if text:
            yield TensorChange("changed", new.name, text)
    for new in graphs[1].initializers():
        if new not in pairs.taken:
            yield TensorChange("added", new.name)


def _model_changes(
    files: tuple[TaggedFile, TaggedFile], graphs: tuple[FlatGraph, FlatGraph], pairs: Pairs, data: Data
) -> Iterator[str]:
    yield from interface_changes(files[0].proto, files[1].proto, data)
    for place, value in graphs[0].results.items():
        other = graphs[1].results.get(place)
        if other is not None and pairs.values.get(value) is not other:
            of_function = f"{function_title(*map(str, place[1:-1]))}: " if len(place) > 2 else ""
            yield f"{of_function}output {place[-1]} is another value"
