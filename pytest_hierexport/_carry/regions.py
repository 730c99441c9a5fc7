"""Groups the nodes without a twin into fusions, each with the nodes before that it replaced.

Example. The optimizer folds a Pad into the convolution behind it; `y` is known by its name, `Conv` has no twin:

    before                    call     after                          origins
    p = Pad(x)                outer    y = Conv(x, w, pads=...)       outer, inner (both fused)
    y = Conv(p, w)            inner

A region is a set of new nodes that are connected through values unknown to `before`. It replaced the nodes of `before`
on the way from the values that it takes to those that it gives: a backward slice of `before`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pytest_hierexport._calls.attribution import Evidence
from pytest_hierexport._carry.flat import Flat, Node, Value
from pytest_hierexport._carry.match import Match, OriginsOf, weakened
from pytest_hierexport._carry.numbering import Numbering
from pytest_hierexport._carry.slices import backward_slice, forward_slice

__all__ = ["Region", "attribute_regions", "regions"]


@dataclass(frozen=True)
class Region:
    """New nodes that are connected through values that the graph before does not know."""

    nodes: tuple[Node, ...]
    replaced: tuple[Node, ...]
    """The nodes before between what the region takes and what it gives."""


def attribute_regions(match: Match, origins: OriginsOf) -> None:
    """Give the nodes of every region the origins of all nodes that the region replaced."""
    for region in regions(match):
        fused = [origin for node in region.replaced for origin in match.known.nodes[node]]
        for node in region.nodes:
            origins[node] += weakened(Evidence.FUSED, fused)


def regions(match: Match) -> Iterator[Region]:
    """Yield every region of the nodes after that have no match."""
    numbering, after = match.numbering, match.after

    def is_known(value: Value) -> bool:
        return numbering.after[value] in numbering.known

    for component in _components(match, is_known):
        for nodes in _steps(sorted(component, key=after.order.__getitem__), after, is_known):
            replaced = _replaced(match, _given(match, nodes), _taken(nodes, after, numbering))
            yield Region(tuple(nodes), tuple(replaced))


def _components(match: Match, is_known: Callable[[Value], bool]) -> Iterator[list[Node]]:
    """Group the unmatched nodes that are connected through unknown values."""
    after = match.after
    left = {node: None for node in after.nodes if node not in match.matched}
    while left:
        start = next(iter(left))
        del left[start]
        component, pending = [start], [start]
        while pending:
            for other in _connected(pending.pop(), after, is_known):
                if other in left:
                    del left[other]
                    component.append(other)
                    pending.append(other)
        yield component


def _connected(node: Node, after: Flat, is_known: Callable[[Value], bool]) -> Iterator[Node]:
    """Yield the producers and consumers that a node shares an unknown value with."""
    for value in node.operands:
        if not is_known(value) and value in after.producer:
            yield after.producer[value]
    for output in node.outputs:
        if not is_known(output):
            yield from after.consumers.get(output, ())


def _steps(component: list[Node], after: Flat, is_known: Callable[[Value], bool]) -> Iterator[list[Node]]:
    """Cut a component behind every node that gives a known value: such a node ends a fusion of its own.

    A node that gives no known value goes with the first node that needs it.
    """
    inside, taken = set(component), set[Node]()
    for node in component:
        if not any(is_known(output) for output in node.outputs):
            continue
        step = {node: None}
        pending = [node]
        for member in pending:
            for value in member.operands:
                producer = None if is_known(value) else after.producer.get(value)
                if producer in inside and producer not in taken and producer not in step:
                    step[producer] = None
                    pending.append(producer)
        taken.update(step)
        yield list(step)
    left = [node for node in component if node not in taken]
    if left:
        yield left


def _taken(nodes: list[Node], after: Flat, numbering: Numbering) -> set[int]:
    """Return the numbers of the values that a region takes from outside."""
    inside = set(nodes)
    return {
        numbering.after[value]
        for node in nodes
        for value in node.operands
        if after.producer.get(value) not in inside or numbering.after[value] in numbering.known
    }


def _given(match: Match, nodes: list[Node]) -> list[Value]:
    """Return the values before that a region gives: all that were equal and have no other producer now."""
    numbering = match.numbering
    outputs = dict.fromkeys(value for node in nodes for value in node.outputs)
    given: dict[Value, None] = {}
    for value in outputs:
        equal = numbering.by_number.get(numbering.after[value], [])
        equal = [other for other in equal if _namesake_after(other, match.after) in {None, *outputs}]
        rivals = [other for other in numbering.by_number_after[numbering.after[value]] if other not in outputs]
        if rivals:
            equal = _with_consumers_of(match, value, rivals, equal)
        given.update(dict.fromkeys(equal))
    known = (numbering.after[value] for value in outputs)
    return list(given) or [numbering.known[number] for number in known if number in numbering.known]


def _namesake_after(value: Value, after: Flat) -> Value | None:
    """Return the value after that has the name of one before and is computed, not passed through."""
    namesake = after.named.get(value.name) if value.name else None
    producer = after.producer.get(namesake) if namesake is not None else None
    return None if producer is None or producer.identity_input is not None else namesake


def _with_consumers_of(match: Match, value: Value, rivals: list[Value], equal: list[Value]) -> list[Value]:
    """Return those of equal values before whose consumers now consume one value after, or at least none of its rivals.

    Two layers may compute equal values, each by a fusion of its own.
    """
    own = match.after.names_of_consumers(value)
    others = {name for rival in rivals for name in match.after.names_of_consumers(rival)}
    consumers = {each: match.consumer_names(each) for each in equal}
    kept = [each for each, names in consumers.items() if not names.isdisjoint(own) or names.isdisjoint(others)]
    return kept or equal


def _replaced(match: Match, gives: list[Value], takes: set[int]) -> list[Node]:
    """Return the nodes before between the values that a region takes and those that it gives.

    The slice ends at a value that the region takes. A value that lives on elsewhere ends it too, unless values that the
    region takes lie behind it: then the region computes it once more, as ONNX Runtime's float16 converter does.
    """
    before, numbering = match.before, match.numbering
    numbers, known = numbering.before, numbering.known
    varying = {number for number in takes if number in known and known[number].varying}

    found = backward_slice(before, gives, lambda value: numbers[value] in takes or match.is_alive(value))
    if not varying <= {numbers[value] for node in found for value in node.operands}:
        whole = backward_slice(before, gives, lambda value: numbers[value] in takes)
        kept = forward_slice(varying, before, numbering, whole) | set(found)
        found = [node for node in whole if node in kept]
    computing = [node for node in found if not _passes_through(node, numbering)]
    # Constants are shared freely: the call that made one says nothing about the call that computes with it.
    return [node for node in computing if any(output.varying for output in node.outputs)] or computing or found


def _passes_through(node: Node, numbering: Numbering) -> bool:
    """Whether all that the node gives are values that it takes: it took no part in the fusion."""
    taken = {numbering.before[value] for value in node.operands}
    return all(numbering.before[output] in taken for output in node.outputs)
