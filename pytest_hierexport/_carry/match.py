"""Pairs the nodes of two graphs: twins, and removed duplicates with the nodes that replaced them.

Nodes with equal expressions (see :mod:`numbering <pytest_hierexport._carry.numbering>`) compute the same. Of the
nodes before with an expression that the graph after has, some have a twin there; common subexpression elimination
removed the others. Each of these was merged into the nodes after with its expression; of several, into those whose
inputs have the same producers, and of these into those that its own consumers take now.

In go the graph before with its origins, and the graph after; out comes a :class:`Match`, by :func:`match`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pytest_hierexport._calls.attribution import Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._carry.aliases import number_values
from pytest_hierexport._carry.flat import Flat, Node, Value
from pytest_hierexport._carry.numbering import Numbering
from pytest_hierexport._carry.slices import consumers_through
from pytest_hierexport._grouping import grouped

OriginsOf = dict[Node, list[Origin]]
"""The origins found so far for the nodes of `after`; each pass adds, weakens or removes some."""


@dataclass(frozen=True)
class Attributed:
    """A graph with the origins of its nodes; a function's nodes count apart for every call of the function."""

    hierarchy: Hierarchy
    flat: Flat
    nodes: Mapping[Node, Origins]
    initializers: Mapping[str, Origins]


@dataclass(frozen=True)
class Match:
    """Which nodes of `after` stand for which nodes of `before`."""

    attributed: Attributed
    after: Flat
    numbering: Numbering
    twins: Mapping[Node, Node]
    """Nodes before, each with the one node after that stands for it."""
    merged: Mapping[Node, Sequence[Node]]
    """Nodes before that were removed as duplicates, each with the nodes after that replaced it."""
    namesakes: Mapping[Node, Node]
    """Nodes after that are known by their name alone, each with its node before."""
    unpaired: Sequence[Node]
    """Nodes after that compute the same as nodes before, and are the twin of none."""

    @property
    def before(self) -> Flat:
        """The graph before."""
        return self.attributed.flat

    @cached_property
    def matched(self) -> frozenset[Node]:
        """The nodes after that compute the same as nodes before, or are known by their name."""
        return frozenset((*self.twins.values(), *self.unpaired, *self.namesakes))

    @cached_property
    def survivors(self) -> Mapping[Node, Sequence[Node]]:
        """The nodes after that stand for each node before."""
        return {**{node: (twin,) for node, twin in self.twins.items()}, **self.merged}

    def consumers_now(self, value: Value) -> Iterator[Node]:
        """Yield the nodes after that stand for the consumers of a value before."""
        for node in self.before.consumers.get(value, ()):
            yield from self.survivors.get(node, ())

    def consumer_names(self, value: Value) -> set[str]:
        """Return the output names of the nodes that consume a value before, and of those that replaced them."""
        return self.before.names_of_consumers(value).union(*(node.output_names for node in self.consumers_now(value)))

    def is_known(self, value: Value) -> bool:
        """Whether a value after equals one before."""
        return self.numbering.new[value] in self.numbering.first_before

    def is_alive(self, value: Value) -> bool:
        """Whether a value before is computed, or held, in the graph after."""
        return self.numbering.old[value] in self.numbering.alive


def match(attributed: Attributed, after: Flat) -> Match:
    """Match the nodes of `after` with those of the graph before."""
    return _Matcher(attributed, after).match()


class _Matcher:
    def __init__(self, attributed: Attributed, after: Flat) -> None:
        self.attributed, self.before, self.after = attributed, attributed.flat, after
        self.numbering = number_values(self.before, after)
        self.twins: dict[Node, Node] = {}
        self.merged: dict[Node, list[Node]] = {}
        self.unpaired: list[Node] = []

    def match(self) -> Match:
        before = self.numbering.by_expression
        for expression, nodes in grouped(self.after.nodes, self.numbering.expressions_after.__getitem__).items():
            # Any Identity of a value computes the same as every other: that pairs none of them.
            if nodes[0].identity_input is None and expression in before:
                self._pair(before[expression], nodes)
        # An Identity that kept its name and its input: a graph that did not change keeps its origins.
        for node in (node for node in self.after.nodes if node.identity_input is not None):
            same = self.before.producer_of(node.first_name)
            if same is not None and self.numbering.expressions_before[same] == self.numbering.expressions_after[node]:
                self.twins[same] = node
        self._narrow()
        self._merge_identities()
        return Match(
            self.attributed, self.after, self.numbering, self.twins, self.merged, self._by_name(), tuple(self.unpaired)
        )

    def _pair(self, duplicates: list[Node], candidates: list[Node]) -> None:
        """Pair nodes of one expression: twins by name, then in order; the other nodes before were merged.

        Those that were never used were dropped, not merged. A candidate may have the name of a node before that has
        another expression: an operation above that node was dropped, and the candidate stands for it. Such a candidate
        is left unpaired, if others remain. One of 1,000 random architectures needs it, with transpositions that cancel
        out in one place alone.
        """
        own = {None, *duplicates}
        standing = [node for node in candidates if self.before.namesake(node) in own]
        is_small = self.numbering.is_small_constant(duplicates[0])
        pairs = _paired(duplicates, standing or candidates, are_constants=is_small)
        self.twins.update(pairs)
        lost = [node for node in duplicates if node not in pairs and node not in self.before.never_used]
        if lost and not is_small:
            by_producers = grouped(candidates, lambda node: tuple(map(self.after.producer.get, node.operands)))
            groups = list(by_producers.values())
            self.merged.update((node, self._replacements(node, groups)) for node in lost)
        taken = set(pairs.values())
        self.unpaired += [node for node in candidates if node not in taken]

    def _replacements(self, lost: Node, groups: Sequence[list[Node]]) -> list[Node]:
        """Return the candidates, grouped by the producers of their inputs, that replaced a removed node.

        Those with the same producers of inputs; where none has them, all (bart, t5, fsmt).
        """
        found = [nodes for nodes in groups if self._has_same_producers(lost, nodes[0])]
        return [node for nodes in found or groups for node in nodes]

    def _has_same_producers(self, lost: Node, candidate: Node) -> bool:
        """Whether a candidate's inputs come from what the producers of a removed node's inputs became."""
        pairs = zip(lost.operands, candidate.operands, strict=True)
        producers = ((self.before.producer.get(a), self.after.producer.get(b)) for a, b in pairs)
        became = ((self._became(old), new) for old, new in producers if old is not None)
        return all(new in replacements for replacements, new in became if replacements)

    def _became(self, node: Node) -> Sequence[Node]:
        return (self.twins[node],) if node in self.twins else self.merged.get(node, ())

    def _narrow(self) -> None:
        """Of several nodes that may have replaced a removed one, keep those that its consumers' survivors consume.

        jetmoe needs it: its experts compute equal indices, each for itself.

        A removed constant of which the survivors consume none was folded instead: torchvision's detectors compute some
        of their sizes once more in the branches of their NMS. So was one whose consumer was folded, as the shape that
        TorchScript gives the weight of a `torch.tensordot` (e3nn).
        """
        for node in sorted(self.merged, key=self.before.order.__getitem__, reverse=True):
            consumers = self._consumers(node)
            survivors = {new for consumer in consumers for new in self._became(consumer)}
            taken = {value for new in survivors for value in new.operands}
            consumed = [each for each in self.merged[node] if not taken.isdisjoint(each.outputs)]
            folded = any(not (consumer.varying or self._became(consumer)) for consumer in consumers)
            if not node.varying and not consumed and (survivors or folded):
                del self.merged[node]
            else:
                self.merged[node] = consumed or self.merged[node]

    def _merge_identities(self) -> None:
        """Find the identities that were merged: the survivors of their consumers take what an equal one gives.

        TorchScript casts the mask of DeBERTa to its own type, once for each layer; onnxoptimizer makes one of these.
        """
        identities = (new for new in self.twins.values() if new.identity_input is not None)
        kept = grouped(identities, self.numbering.expressions_after.__getitem__)
        for node in reversed(self.before.nodes):
            if node.identity_input is not None and node not in self.twins:
                survivors = {new for consumer in self.before.consumers_of(node) for new in self._became(consumer)}
                equal = kept.get(self.numbering.expressions_before[node], ())
                taken = [new for new in equal if not survivors.isdisjoint(self.after.consumers_of(new))]
                if found := [new for new in taken if self._has_same_producers(node, new)]:
                    self.merged[node] = found

    def _consumers(self, node: Node) -> list[Node]:
        """Return the nodes before that take an output of a node, also as an equal value that a dropped operation gives.

        `Softplus` needs it, which is exported with a division by one.
        """
        numbers = self.numbering.old

        def is_dropped(value: Value, consumer: Node) -> bool:
            return any(numbers[each] == numbers[value] for each in consumer.outputs) and not self._became(consumer)

        return consumers_through(self.before, node, is_dropped)

    def _by_name(self) -> dict[Node, Node]:
        """Return the nodes after that have the operator, and the first output's name or the key, of a node before.

        A node that is not pure (random numbers, subgraphs) has no expression to compare, and a constant says nothing by
        its value. A node that calls a function is known by its key, also where it takes other weights.
        """
        matched = {*self.twins.values(), *self.unpaired}
        found: dict[Node, Node] = {}
        for node in self.after.nodes:
            if node in matched or (node.pure and node.varying):
                continue
            if (namesake := self.before.namesake(node)) is not None:
                found[node] = namesake
        return found


def attribute_matched(match: Match, origins: OriginsOf) -> None:
    """Give every matched node the origins of its twin, and of the duplicates that were merged into it."""
    for old, new in match.twins.items():
        origins[new] += match.attributed.nodes[old]
    for node, replacements in match.merged.items():
        for replacement in replacements:
            origins[replacement] += weakened(Evidence.MERGED, match.attributed.nodes[node])
    for new, old in match.namesakes.items():
        origins[new] += match.attributed.nodes[old]
    # A tool may compute a value once for each consumer; the values around such a copy are known, so it is in no region.
    for node in match.unpaired:
        if node.varying:
            namesake, expression = match.before.namesake(node), match.numbering.expressions_after[node]
            copied = [namesake] if namesake is not None else match.numbering.by_expression[expression]
            origins[node] += weakened(Evidence.FUSED, (o for each in copied for o in match.attributed.nodes[each]))


def weakened(evidence: Evidence, origins: Iterable[Origin]) -> list[Origin]:
    """Return each origin with its own evidence or the given one, whichever is weaker."""
    return [Origin(o.call, max(evidence, o.evidence, key=lambda e: e.rank)) for o in origins]


def _paired(duplicates: list[Node], candidates: list[Node], *, are_constants: bool) -> dict[Node, Node]:
    """Pair nodes before with nodes after: by name, and in order where a name was lost or means nothing.

    Of small constants of several calls, the order does not tell those that were folded away.
    """
    named = {name: node for node in candidates if (name := _name(node))}
    pairs = {node: named[name] for node in duplicates if (name := _name(node)) in named}
    taken = set(pairs.values())
    left = [node for node in duplicates if node not in pairs]
    free = [node for node in candidates if node not in taken]
    if not are_constants or len(left) == len(free):
        pairs.update(zip(left, free, strict=False))
    return pairs


def _name(node: Node) -> str:
    """Return the name of the first output; the key of a node that calls a function, which has no outputs here."""
    return node.first_name if node.outputs else node.key
