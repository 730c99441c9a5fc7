"""What has no twin: the new nodes that hang together, and the nodes before that they were made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_hierexport._carry.flat import Flat, Node, Value
from pytest_hierexport._carry.numbering import Numbering, passed_on

__all__ = ["Region", "leading_from", "read_by", "read_on", "regions", "walk_back"]


Became = Mapping[Node, Sequence[Node]]


@dataclass(frozen=True)
class Region:
    """New nodes that hang together through values the graph before does not know."""

    nodes: tuple[Node, ...]
    made_of: tuple[Node, ...]
    """The nodes before between what the region reads and what it gives."""


def regions(after: Flat, before: Flat, numbering: Numbering, matched: set[Node], became: Became) -> Iterator[Region]:
    """Yield every region of the nodes that are not matched.

    Args:
        after: The graph after.
        before: The graph before.
        numbering: The values of both.
        matched: The nodes after that are computed like nodes before.
        became: The nodes after that stand for a node before, where that is known.
    """

    def known(value: Value) -> bool:
        return numbering.after[value] in numbering.known

    for component in _components(after, matched, known):
        upstream: set[Value] = set()
        for nodes in _steps(sorted(component, key=after.order.__getitem__), after, known):
            gives = _given(nodes, after, before, numbering, became)
            reads = _read(nodes, after, numbering)
            made_of = _between(before, numbering, gives, reads, upstream)
            upstream.update(output for node in made_of for output in node.outputs)
            yield Region(tuple(nodes), tuple(made_of))


def _steps(component: list[Node], after: Flat, known: Callable[[Value], bool]) -> Iterator[list[Node]]:
    """Cut a component behind every node that gives a known value: such a node ends a fusion of its own.

    Nodes that give none go with the first that needs them.
    """
    taken: set[Node] = set()
    inside = set(component)
    for node in component:
        if not any(known(output) for output in node.outputs):
            continue
        step, members = [node], {node}
        for member in step:
            for value in member.reads:
                maker = None if known(value) else after.maker.get(value)
                if maker is not None and maker in inside and maker not in taken and maker not in members:
                    step.append(maker)
                    members.add(maker)
        taken.update(step)
        yield step
    left = [node for node in component if node not in taken]
    if left:
        yield left


def _given(nodes: list[Node], after: Flat, before: Flat, numbering: Numbering, became: Became) -> list[Value]:
    """Return the values before that the nodes give: all that were computed alike and have no maker of their own."""
    outputs = dict.fromkeys(value for node in nodes for value in node.outputs)
    given: dict[Value, None] = {}
    for value in outputs:
        number = numbering.after[value]
        likes = [like for like in numbering.by_number.get(number, ()) if _heir(like, after) in {None, *outputs}]
        likes = [like for like in likes if like not in numbering.aliases] or likes
        rivals = [other for other in numbering.by_number_after[number] if other not in outputs]
        if rivals and value.name not in before.named:
            own, others = read_by(value, after), {name for rival in rivals for name in read_by(rival, after)}
            likes = _read_alike(likes, own, others, before, became)
        given.update(dict.fromkeys(likes))
    return list(given) or [
        numbering.known[numbering.after[value]] for value in outputs if numbering.after[value] in numbering.known
    ]


def _heir(value: Value, after: Flat) -> Value | None:
    """Return the value after that bears the name of one before and is computed: handing it on is no computing."""
    heir = after.named.get(value.name) if value.name else None
    maker = after.maker.get(heir) if heir is not None else None
    return None if maker is None or passed_on(maker) is not None else heir


def _read_alike(likes: list[Value], own: set[str], others: set[str], before: Flat, became: Became) -> list[Value]:
    """Return those of equal values before whose readers now read one value after, or at least none of its rivals.

    Args:
        likes: The values before.
        own: What the readers of the one value after give.
        others: What those of its rivals give.
        before: The graph before.
        became: The nodes after that stand for a node before.
    """
    readers = {like: read_on(like, before, became) for like in likes}
    kept = [like for like, by in readers.items() if not by.isdisjoint(own) or by.isdisjoint(others)]
    return kept or likes


def read_on(value: Value, before: Flat, became: Became) -> set[str]:
    """Return what the readers of a value before give, or gave, by the names of before and of after."""
    survivors = (node for reader in before.readers.get(value, ()) for node in became.get(reader, ()))
    return read_by(value, before).union(*(_names(node) for node in survivors))


def read_by(value: Value, flat: Flat) -> set[str]:
    """Return what the readers of a value give, by name: a function's nodes keep these where it is written out."""
    return {name for reader in flat.readers.get(value, ()) for name in _names(reader)}


def _names(node: Node) -> list[str]:
    return [output.name or node.key for output in node.outputs]


def _read(nodes: list[Node], after: Flat, numbering: Numbering) -> set[int]:
    inside = set(nodes)
    return {
        numbering.after[value]
        for node in nodes
        for value in node.reads
        if after.maker.get(value) not in inside or numbering.after[value] in numbering.known
    }


def _between(
    before: Flat, numbering: Numbering, gives: list[Value], reads: set[int], upstream: set[Value]
) -> list[Node]:
    """Return the nodes before between the values read and the values given.

    The walk back ends at a value that is read, and at one that a fusion further up computes. A value that lives on
    elsewhere ends it too, unless values that are read lie behind it: then the new nodes compute it once more.
    """
    numbers, known = numbering.before, numbering.known
    wanted = {n for n in reads if n in known and known[n].varying}

    def reached(value: Value) -> bool:
        return value in upstream or numbers[value] in reads

    near = walk_back(before, gives, lambda value: reached(value) or numbers[value] in numbering.alive)
    if not wanted <= {numbers[value] for node in near for value in node.reads}:
        whole = walk_back(before, gives, reached)
        made_of = leading_from(wanted, before, numbering, whole) | set(near)
        near = [node for node in whole if node in made_of]
    computing = [node for node in near if not _hands_on(node, numbering)]
    # Constants are shared freely: whoever made one first says nothing about who computes with it.
    return [node for node in computing if any(output.varying for output in node.outputs)] or computing or near


def _hands_on(node: Node, numbering: Numbering) -> bool:
    """Whether all that the node gives are values that it reads: it took no part in what was fused."""
    read = {numbering.before[value] for value in node.reads}
    return all(numbering.before[output] in read for output in node.outputs)


def leading_from(wanted: set[int], before: Flat, numbering: Numbering, nodes: list[Node]) -> set[Node]:
    """The nodes that compute something from the elements of a wanted value."""
    reached: set[Value] = set()
    leading: set[Node] = set()
    for node in sorted(nodes, key=before.order.__getitem__):
        if any(value in reached or numbering.before[value] in wanted for value in node.elements):
            leading.add(node)
            reached.update(node.outputs)
    return leading


def _components(after: Flat, matched: set[Node], known: Callable[[Value], bool]) -> Iterator[list[Node]]:
    """Group the unmatched nodes that hang together through values that are not known.

    A node that only hands a known value on was made of nothing.
    """
    left = {
        node: None
        for node in after.nodes
        if node not in matched and (passed_on(node) is None or not known(node.outputs[0]))
    }
    while left:
        start = next(iter(left))
        del left[start]
        component, at = [start], [start]
        while at:
            node = at.pop()
            near = [after.maker.get(value) for value in node.reads if not known(value)]
            near += [r for output in node.outputs if not known(output) for r in after.readers.get(output, ())]
            for other in near:
                if other is not None and other in left:
                    del left[other]
                    component.append(other)
                    at.append(other)
        yield component


def walk_back(flat: Flat, start: Iterable[Value], stop: Callable[[Value], bool]) -> list[Node]:
    """Return the nodes that compute the elements of the values, up to other values at which to stop."""
    found: dict[Node, None] = {}
    begin = list(start)
    through, at = set(begin), list(begin)
    while at:
        value = at.pop()
        maker = flat.maker.get(value)
        if maker is None or maker in found or (value not in through and stop(value)):
            continue
        found[maker] = None
        at.extend(maker.elements)
    return list(found)
