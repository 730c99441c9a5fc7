"""Groups the nodes that match none before into fusions, each with the nodes before that it replaced.

Example. The optimizer folds a Pad into the convolution behind it; `y` is known by its name, `Conv` matches no node:

    before                    call     after                          origins
    p = Pad(x)                outer    y = Conv(x, w, pads=...)       outer, inner (both fused)
    y = Conv(p, w)            inner

A region is a set of new nodes that are connected through values unknown to `before`. It replaced the nodes of `before`
on the way from the values that it takes to those that it gives: a backward slice of `before`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from pytest_hierexport._calls.attribution import Evidence, Origin
from pytest_hierexport._carry.anchors import Anchors, find_anchors
from pytest_hierexport._carry.flat import Flat, Node, Value, same_operator
from pytest_hierexport._carry.match import Match, OriginsOf, weakened
from pytest_hierexport._carry.numbering import Numbering
from pytest_hierexport._carry.slices import backward_slice, consumers_through, forward_slice


def attribute_regions(match: Match, origins: OriginsOf) -> None:
    """Give the nodes of every region the origins of all nodes that the region replaced."""
    anchors = find_anchors(match)
    left = {node for node in match.after.nodes if node not in match.matched}
    found: dict[Node, list[list[Origin]]] = defaultdict(list)
    for end in _ends(anchors, left):
        if end in left:
            region = _region(anchors, end, left)
            left.difference_update(region)
            fused = origins_of_replaced(match, _same_work(match, region, _replaced(anchors, region)))
            for node in region:
                found[node].append(fused)
    for node, regions in found.items():
        # MobileViT in ONNX Runtime: a node gives an activation, and the next layer adds that to its result.
        own = [fused for fused in regions if _took(anchors, fused, node)] if len(regions) > 1 else []
        evidence = Evidence.FUSED if node.inputs else Evidence.FOLDED
        origins[node] += weakened(evidence, (origin for fused in own or regions for origin in fused))


def _ends(anchors: Anchors, left: AbstractSet[Node]) -> Iterator[Node]:
    """Yield those of the nodes at which a region may end: those that give known values, then new sizes from the last.

    A new size belongs to the region of the node that takes it. It ends a region of its own only if it is in none,
    because a known node takes it: the initial state of an LSTM is computed from sizes, and equals a constant
    (parakeet_rnnt).
    """
    known = [node for node in anchors.match.after.nodes if node in left and _gives_known(anchors, node)]
    yield from (node for node in known if not _is_new_constant(anchors, node))
    yield from (node for node in reversed(known) if _is_new_size(anchors, node))


def origins_of_replaced(match: Match, replaced: list[Node]) -> list[Origin]:
    """Return the origins of the nodes that a region or an initializer replaced, the last of them first.

    A node that several calls share may be in several regions: a `Not` of a mask that goes into the `Where` of each
    layer (DeBERTa). Each region has the origins of those calls that consume the node in it. TorchScript casts that
    `Not` to the type that it has, once for each layer: such a pass-through is in no region, but its consumers may be.
    """
    hierarchy, found = match.attributed.hierarchy, dict[Node, list[Origin]]()
    for node in sorted(replaced, key=match.before.order.__getitem__, reverse=True):
        own = match.attributed.nodes[node]
        consumers = consumers_through(match.before, node, lambda _, each: _passes_through(each, match.numbering))
        calls = {origin.call for consumer in consumers for origin in found.get(consumer, ())}
        near = [o for o in own if any(hierarchy.within(call, o.call) for call in calls)]
        # A node that serves nothing else is in this region alone: a normalisation in a convolution (MobileNetV2).
        elsewhere = any(each not in found or len(found[each]) < len(match.attributed.nodes[each]) for each in consumers)
        found[node] = near if elsewhere and near else list(own)
    return list(dict.fromkeys(origin for origins in found.values() for origin in origins))


def _region(anchors: Anchors, end: Node, left: AbstractSet[Node]) -> list[Node]:
    """Return a node that gives a known value, and those that compute for it through unknown ones.

    A node that computes for several goes with the first. One that computes from known values alone, or converts one,
    goes with all: quantizers share the quantized input of query, key and value. So does one that gives a known value
    besides: ONNX Runtime makes one `Split` of a `Gather` and a `Slice` of two calls (X-CLIP).
    """
    match = anchors.match
    region = {end: None}
    pending = [end]
    for node in pending:
        for value in _computed_for(match.after, node):
            producer = match.after.producer.get(value)
            if producer is None or (anchors.counterpart(value) and not _is_new_size(anchors, producer)):
                continue
            is_converted = value in anchors.converted_from or all(map(match.is_known, producer.operands))
            is_shared = producer not in match.matched and (is_converted or _gives_known(anchors, producer))
            if (producer in left or is_shared) and producer not in region:
                region[producer] = None
                pending.append(producer)
    return pending


def _computed_for(after: Flat, node: Node) -> Iterator[Value]:
    """Yield the operands of a node, without those of which it takes the shape alone and other nodes the elements.

    A quantizer converts an input of the model for the layer that computes with it, not for all that take its size.
    """
    own = {*node.data_operands}
    for value in node.operands:
        if value in own or not any(value in each.data_operands for each in after.consumers[value]):
            yield value


def _took(anchors: Anchors, calls: list[Origin], node: Node) -> bool:
    """Whether nodes of calls took before what a node takes or was converted from, or a value equal to it."""
    match, own = anchors.match, {origin.call for origin in calls}
    taken = (anchors.counterpart_or_source(value) for value in node.operands)
    varying = (value for value in taken if value is not None and value.varying)
    equal = (each for value in varying for each in match.numbering.by_number[match.numbering.old[value]])
    consumers = (consumer for value in equal for consumer in match.before.consumers.get(value, ()))
    return any(origin.call in own for consumer in consumers for origin in match.attributed.nodes[consumer])


def _is_new_constant(anchors: Anchors, node: Node) -> bool:
    """Whether a node gives constants that their names do not tell: equal constants may come from any call (DETR).

    A size is one where the shape is known: TorchScript computes the initial state of a recurrent layer by the batch.
    """
    told = (output in anchors.anchored or output.name in anchors.match.before.named for output in node.outputs)
    return not any(told) and anchors.match.after.by_elements.isdisjoint(node.outputs)


def _is_new_size(anchors: Anchors, node: Node) -> bool:
    return node.varying and _is_new_constant(anchors, node)


def _gives_known(anchors: Anchors, node: Node) -> bool:
    return any(anchors.counterpart(output) for output in node.outputs)


def _taken(anchors: Anchors, nodes: list[Node]) -> set[int]:
    """Return the numbers of the values before that a region takes."""
    found = (anchors.counterpart(value) for node in nodes for value in node.operands)
    return {anchors.match.numbering.old[value] for value in found if value is not None}


def _given(match: Match, nodes: list[Node]) -> list[Value]:
    """Return the values before that a region gives: all that were equal and have no other producer now."""
    numbering = match.numbering
    outputs = dict.fromkeys(value for node in nodes for value in node.outputs)
    given: dict[Value, None] = {}
    for value in outputs:
        equal = numbering.by_number.get(numbering.new[value], [])
        if not value.varying:
            # Equal constants say nothing about ownership: optimizers share them freely.
            named = (other for other in equal if other.name == value.name)
            equal = [each for other in named for each in with_equal_lost(match, other)] or equal
        equal = [other for other in equal if _namesake_after(other, match.after) in {None, *outputs}]
        rivals = [other for other in numbering.by_number_after[numbering.new[value]] if other not in outputs]
        if rivals:
            equal = _with_consumers_of(match, value, rivals, equal)
        given.update(dict.fromkeys(equal))
    # An Identity gives a value that another node computes (BridgeTower).
    known = (numbering.new[value] for value in outputs)
    return list(given) or [numbering.first_before[number] for number in known if number in numbering.first_before]


def with_equal_lost(match: Match, computed: Value) -> list[Value]:
    """Return a value before with the equal ones that are gone; small constants are shared freely, so only itself."""
    producer = match.before.producer.get(computed)
    if producer is None or match.numbering.old[computed] in match.numbering.contents:
        return [computed]
    equal = match.numbering.by_expression[match.numbering.expressions_before[producer]]
    values = [node.outputs[producer.outputs.index(computed)] for node in equal]
    return [value for value in values if value is computed or value.name not in match.after.named]


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


def _replaced(anchors: Anchors, region: list[Node]) -> list[Node]:
    """Return the nodes before between the values that a region takes and those that it gives.

    The slice ends at values that the region takes, and at values that are still in the graph. If it reaches none of the
    varying values that the region takes, it passes those that are still in the graph: the region computes them once
    more, as ONNX Runtime's float16 converter does.
    """
    match = anchors.match
    before, numbering = match.before, match.numbering
    own = [node for node in region if node is region[0] or not _gives_known(anchors, node)]
    gives, takes = _given(match, own), _taken(anchors, region)
    if not gives:
        gives = [anchors.anchored[value] for node in region for value in node.outputs if value in anchors.anchored]
    numbers, known = numbering.old, numbering.first_before
    found = backward_slice(before, gives, lambda value: numbers[value] in takes or match.is_alive(value))
    varying = {number for number in takes if known[number].varying}
    # Of the nodes that vary, those before what the region takes are not in it. With new names for all values, nothing
    # else ends the slice at the sum that a residual block adds to (13 of 433 wrong owners in 2,000 random graphs).
    behind = {*forward_slice(varying, before, numbering, found)}
    found = [node for node in found if node in behind or not node.varying] if behind else found
    if varying and varying.isdisjoint(numbers[value] for node in found for value in node.operands):
        whole = backward_slice(before, gives, lambda value: numbers[value] in takes)
        kept = {*forward_slice(varying, before, numbering, whole), *found}
        found = [node for node in whole if node in kept]
    # By number: an equal value may have been given besides, through an `Identity` (a dropout of nn.TransformerEncoder).
    operands = (value for node in region for value in node.operands)
    converted = {numbers[anchors.anchored[value]] for value in operands if value in anchors.anchored}
    if converted.issuperset(numbers[value] for value in gives):
        found = backward_slice(before, gives, lambda _: True)
    return _computing(match, found, takes)


def _computing(match: Match, found: list[Node], takes: set[int]) -> list[Node]:
    """Return those of some nodes that compute: no pass-throughs, and no constants beside others.

    Constants are shared freely: the call that made one says nothing about the call that computes with it. Where all are
    constants, those that compute with what the region takes: the others were folded into a new one (DeBERTa). If none
    does, those that compute the new one from small constants: TorchScript shares the bounds of all slices.
    """
    computing = [node for node in found if not _passes_through(node, match.numbering)]
    moving = [node for node in computing if node.varying]
    if moving:
        return moving
    reached = set(forward_slice(takes, match.before, match.numbering, computing))
    own = [node for node in computing if not match.numbering.is_small_constant(node)]
    return [node for node in computing if node in reached] or own or computing or found


def _same_work(match: Match, region: list[Node], replaced: list[Node]) -> list[Node]:
    """Return the counterparts of a region's nodes where each has just one: the other nodes were dropped.

    A node with the operator, attributes and constants that it had took nothing in. ONNX Runtime moves a `Transpose`
    through an `Add`, and drops it with its inverse in the next call: neither is a part of the `Add` (UperNet).
    """
    counterparts: dict[Node, None] = {}
    for node in region:
        found = [each for each in replaced if _is_counterpart(match, each, node)]
        if len(found) != 1:
            return replaced
        counterparts[found[0]] = None
    return list(counterparts) if len(counterparts) == len(region) else replaced


def _is_counterpart(match: Match, before: Node, after: Node) -> bool:
    """Whether two nodes have the same operator, attributes and constants, but for sizes."""
    numbering = match.numbering
    constants = ((a, b) for a, b in zip(before.operands, after.operands, strict=False) if not (a.varying and b.varying))
    return same_operator(before, after) and all(
        numbering.old[a] == numbering.new[b] or _became_constant(match, a) for a, b in constants
    )


def _became_constant(match: Match, before: Value) -> bool:
    """Whether a size that was computed became a constant: torch's optimizer writes -1 for a product of dynamic axes.

    A `Reshape` with such a size did not take in what computed it: nn.MultiheadAttention computes the same product for
    every layer, and torch once.
    """
    return before.varying and before not in match.before.by_elements


def _passes_through(node: Node, numbering: Numbering) -> bool:
    """Whether all that the node gives are values that it takes: it took no part in the fusion."""
    taken = {numbering.old[value] for value in node.operands}
    return all(numbering.old[output] in taken for output in node.outputs)
