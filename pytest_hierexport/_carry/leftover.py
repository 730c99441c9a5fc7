"""Places what no other pass gave an origin: constants, initializers (constant folding), and nodes by a neighbour.

:func:`attribute_leftover` is the pass, which places nodes. Initializers get theirs by :func:`initializer_origins`.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_hierexport._calls.attribution import Evidence, Origin
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._carry.flat import Node, Value
from pytest_hierexport._carry.match import Match, OriginsOf, weakened
from pytest_hierexport._carry.regions import origins_of_replaced, with_equal_lost
from pytest_hierexport._carry.slices import backward_slice


def attribute_leftover(match: Match, origins: OriginsOf) -> None:
    """Give the nodes without an origin one: constants, callers of functions, nodes of bodies, nodes around the model.

    Any other node has that of a neighbour (`derived`).
    """
    after = match.after
    for node in reversed(after.nodes):
        if not origins[node] and not node.varying:
            consumers = (consumer for output in node.outputs for consumer in after.own_consumers(output))
            origins[node] += weakened(Evidence.FOLDED, (origin for each in consumers for origin in origins[each]))
    _attribute_callers(match, origins)
    _attribute_bodies(match, origins)
    _attribute_added(match, origins)
    for node in after.nodes:
        if not origins[node]:
            producers = (after.producer[value] for value in node.operands if value in after.producer)
            near = (*producers, *after.consumers_of(node))
            found = next((origins[other] for other in near if origins[other]), [Origin(ROOT, Evidence.DERIVED)])
            origins[node] += weakened(Evidence.DERIVED, found[:1])


def _attribute_callers(match: Match, origins: OriginsOf) -> None:
    """Give a node that calls a function the call that all origins of the function's body have in common."""
    bodies: dict[Node, list[str]] = {}
    # The nodes of a body follow the one that calls it.
    for node in reversed(match.after.nodes):
        if node in bodies and not (origins[node] or node.outputs):
            origins[node].append(Origin(match.attributed.hierarchy.common(bodies[node]), Evidence.FUSED))
        if node.parent is not None and origins[node]:
            bodies.setdefault(node.parent, []).extend(origin.call for origin in origins[node])


def _attribute_bodies(match: Match, origins: OriginsOf) -> None:
    """Give an unmatched node in the body of a loop or branch the calls of the node that holds the body.

    Only where these calls had no node of another call in a body before. torch writes an operation such as
    `nn.EmbeddingBag` as a function with a loop, whose inner names are lost when the function is inlined.
    """
    calls = {node: {origin.call for origin in found} for node, found in match.attributed.nodes.items()}
    held = ((calls[node.parent], calls[node]) for node in match.before.nodes if node.parent and node.parent.outputs)
    mixed = {call for holder, inner in held if inner - holder for call in holder}
    # The nodes of a body follow the one that holds it.
    for node in match.after.nodes:
        holder = node.parent
        if holder and holder.outputs and not origins[node] and mixed.isdisjoint(o.call for o in origins[holder]):
            origins[node] += weakened(Evidence.FUSED, origins[holder])


def _attribute_added(match: Match, origins: OriginsOf) -> None:
    """Give the root what a tool added around the model: in front of its inputs, behind its outputs, or beside it."""
    new = [node for node in match.after.nodes if not origins[node]]
    in_front, behind, beside = (
        _computed_in_front(match, new),
        _computed_behind(match, new),
        _computed_beside(match, new),
    )
    around, leading = in_front | behind | beside, behind | beside
    # Of what is in front, only what leads into the model counts, or into what is behind or beside it.
    for node in reversed(new):
        consumers = match.after.consumers_of(node)
        if any(origins[consumer] or not leading.isdisjoint(consumer.outputs) for consumer in consumers):
            leading.update(node.outputs)
    for node in new:
        if not leading.isdisjoint(node.outputs) and not around.isdisjoint(node.outputs):
            origins[node].append(Origin(ROOT, Evidence.FUSED))


def _computed_in_front(match: Match, new: Iterable[Node]) -> set[Value]:
    """Return what nodes compute from inputs of the graph and constants alone."""
    found: set[Value] = set()
    for node in new:
        if all(value in found or value not in match.after.producer for value in node.operands if value.varying):
            found.update(node.outputs)
    return found


def _computed_behind(match: Match, new: Iterable[Node]) -> set[Value]:
    """Return what nodes compute from outputs of the model; one that is an input, too, is in front and behind."""
    outputs = {match.numbering.old[value] for value in match.before.outputs}
    found: set[Value] = set()
    for node in new:
        varying = [value for value in node.operands if value.varying]
        if varying and all(value in found or match.numbering.new[value] in outputs for value in varying):
            found.update(node.outputs)
    return found


def _computed_beside(match: Match, new: Iterable[Node]) -> set[Value]:
    """Return what nodes compute from new inputs of the graph alone: `onnx.compose.merge_models` joins two graphs.

    Nothing where no node is known: then the graph is another one, with nothing of the model.
    """
    if not match.matched:
        return set()
    inputs = {value for value in match.after.inputs if not match.is_known(value)}
    beside, nodes = set(inputs), set[Node]()
    for node in new:
        varying = [value for value in node.operands if value.varying]
        # The inputs of a body are those of the node that holds it.
        if node.parent in nodes or (node.parent is None and varying and beside.issuperset(varying)):
            nodes.add(node)
            beside.update(node.outputs)
    return beside - inputs


def initializer_origins(match: Match, origins: OriginsOf, name: str, value: Value) -> Iterable[Origin]:
    """Return the origins of an initializer after: those before, or those of the nodes that were folded into it."""
    if name in match.attributed.initializers:
        return match.attributed.initializers[name]
    namesake = match.before.named.get(value.name)
    if namesake is not None and namesake in match.before.producer:
        folded = backward_slice(match.before, with_equal_lost(match, namesake), match.is_alive)
        return weakened(Evidence.FOLDED, origins_of_replaced(match, folded))
    # A tool may rename it (`add_prefix`); small constants are shared freely, so their content says nothing.
    numbering, keys = match.numbering, match.before.initializer_keys
    same = None if numbering.new[value] in numbering.contents else numbering.first_before.get(numbering.new[value])
    for key in (keys.get(each, "") for each in (namesake, same) if each is not None):
        if key in match.attributed.initializers:
            return match.attributed.initializers[key]
    consumers = match.after.own_consumers(value)
    return weakened(Evidence.FOLDED, (origin for consumer in consumers for origin in origins[consumer]))
