"""Anchors the new values inside a fusion: each to its counterpart before, so that fusions stay small.

Example. A quantizer replaces two layers at once, and no value between `x` and `y` has its name any more:

    before                call       after                                anchor    origins
    h = MatMul(x, w)      layer.0    h_q = QLinearMatMul(x_q, w_q)        h         layer.0 fused
    y = MatMul(h, v)      layer.1    y_q = QLinearMatMul(h_q, v_q)        y         layer.1 fused
                                     y = DequantizeLinear(y_q)                      layer.1 fused

A new node replaces at least the nodes up to the first one that depends on all its operands, on each by a path that
avoids the others. What a node converted from one value (`x_q` above) has no counterpart: its consumers take `x`.
The name of a new constant is a hint: tools add something to the name of the one that they convert.

In goes a match; out come the anchors, by :func:`find_anchors`.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from pytest_hierexport._carry.flat import Node, Value
from pytest_hierexport._carry.match import Match
from pytest_hierexport._carry.slices import backward_slice

_REACH = 64
"""How many nodes before are searched for the one in which the operands of a new node come together. It bounds the time
of a search that each new node needs."""


@dataclass(frozen=True)
class Anchors:
    """What the unknown values of a graph after correspond to."""

    match: Match
    anchored: dict[Value, Value] = field(default_factory=dict)
    """Values after, each with its counterpart before."""
    converted_from: dict[Value, Value] = field(default_factory=dict)
    """Values after that one before was converted to (another type, layout or shape), each with that one."""

    def counterpart(self, value: Value) -> Value | None:
        """Return the value before that one after is anchored to or equals, its namesake first; None where it is new.

        The cast of a weight to the type of an activation equals the weight, but depends on the activation.
        """
        if value in self.anchored:
            return self.anchored[value]
        numbering, namesake = self.match.numbering, self.match.before.named.get(value.name)
        if namesake is not None and numbering.old[namesake] == numbering.new[value]:
            return namesake
        return numbering.first_before.get(numbering.new[value])

    def counterpart_or_source(self, value: Value) -> Value | None:
        """Return the value before that one after was converted from, equals or is anchored to."""
        return self.converted_from.get(value) or self.counterpart(value)


def find_anchors(match: Match) -> Anchors:
    """Return the anchors of the values that unmatched nodes compute, and of the constants that they take."""
    anchors = Anchors(match)
    computed = (value for node in match.after.nodes for value in node.outputs)
    for value in chain(match.after.initializers.values(), computed):
        if value.varying or match.is_known(value):
            continue
        found = match.before.named.get(original(value.name, match.before.named))
        # The scale of a value may have the value's name: `mul_5_scale` has nothing to do with a constant `mul`.
        if found is None or found.varying:
            continue
        # A computed constant corresponds to a computed one (BiT's weights); computed from a stored weight, it is only
        # converted from that.
        if value not in match.after.producer or found in match.before.producer:
            anchors.anchored[value] = found
    for node in match.after.nodes:
        if not any(map(match.is_known, node.outputs)):
            _anchor(anchors, node)
    return anchors


def original(name: str, originals: Container[str]) -> str:
    """Return the name, or the longest one to which something was added for it; empty where there is none."""
    # A number may be any longer one: `val_12` is not made of `val_1`.
    cuts = [i for i in range(len(name), 0, -1) if not name[i - 1 : i + 1].isdigit() or i == len(name)]
    parts = chain((name[:i] for i in cuts), (name[i:] for i in reversed(cuts)))
    return max((part for part in parts if part in originals), key=len, default="")


def _anchor(anchors: Anchors, node: Node) -> None:
    """Find the counterparts of the outputs of a node, or the value that they are converted from."""
    before = anchors.match.before
    pairs = [(value, anchors.counterpart_or_source(value)) for value in node.operands]
    operands = list(dict.fromkeys(found for _, found in pairs if found is not None))
    # A size that is a constant now comes together with nothing: CLIP by TorchScript computes the shape of every layer.
    varying = list(dict.fromkeys(found for value, found in pairs if found and found.varying and value.varying))
    if not varying:
        return
    # A constant says nothing about this node if other nodes consume it too, or if the new constant only has equal
    # numbers: its name is not in the new name.
    unrelated = {found for value, found in pairs if found and value.leaf and found.name not in value.name}
    operands = [v for v in operands if v in varying or (len(before.consumers.get(v, ())) == 1 and v not in unrelated)]
    found = _named(anchors, node, [found for _, found in pairs if found is not None])
    if found is None:
        found = _computed(anchors, node, operands) if len(operands) > 1 else _equal_consumer(anchors, node, varying[0])
    if found is not None:
        _anchor_operands(anchors, node, found)
        # Without constants: a quantized one comes with a scale of its name.
        taken = [v for v in map(anchors.counterpart_or_source, node.operands) if v is not None and v.varying]
        found = _last_absorbed(anchors, node, _taking_again(anchors, taken, found))
        anchors.anchored.update(zip(node.outputs, found.outputs, strict=False))
    else:
        last = max(varying, key=lambda value: _position(anchors, value))
        # What was computed in another form may end in its own, with its name: ONNX Runtime's `ReorderOutput`.
        is_end = any(anchors.anchored.get(value) is last for value in node.operands)
        is_end &= original(node.first_name, anchors.match.before.named) == last.name
        (anchors.anchored if is_end else anchors.converted_from).update(dict.fromkeys(node.outputs, last))


def _named(anchors: Anchors, node: Node, taken: list[Value]) -> Node | None:
    """Return the node before that takes what a node takes, and whose output's name is part of that node's."""
    before = anchors.match.before
    # A namesake of another shape: onnxsim computes the activation of CLIP between the Reshapes that it adds to a Gemm.
    found = before.producer_of(original(node.first_name, before.named))
    if found is None or not {*found.operands} <= {*taken}:
        return None
    return found if {value for value in taken if value.varying} <= {*found.operands} else None


def _is_removed(anchors: Anchors, node: Node) -> bool:
    return not anchors.match.survivors.get(node)


def _position(anchors: Anchors, value: Value) -> int:
    before = anchors.match.before
    return before.order[before.producer[value]] if value in before.producer else -1


def _computed(anchors: Anchors, node: Node, operands: list[Value]) -> Node | None:
    """Return the first removed node before that computes from all operands, each by a path that avoids the others."""
    found = [each for each in _meeting(anchors, operands) if _is_removed(anchors, each)]
    chosen = found if len(found) == 1 else [each for each in found if _has_same_op_type(each, node)]
    return chosen[0] if len(chosen) == 1 else None


def _equal_consumer(anchors: Anchors, node: Node, operand: Value) -> Node | None:
    """Return the one removed consumer before that does to a value what a node does.

    What alone consumed the value, and took nothing else, may have been moved behind the node (a `Transpose`, FocalNet),
    or be one node of another name now (an activation, MobileViT).
    """
    consumers = anchors.match.before.consumers.get(operand, [])
    for _ in range(_REACH):
        if any(_has_same_op_type(each, node) for each in consumers) or not _compute_alone(consumers):
            break
        consumers = anchors.match.before.consumers_of(consumers[-1])
    found = [each for each in consumers if _has_same_op_type(each, node) and _is_removed(anchors, each)]
    return found[0] if len(found) == 1 else None


def _compute_alone(consumers: Sequence[Node]) -> bool:
    """Whether the consumers of a value take nothing else but each other's values: of `x`, `x * sigmoid(x)`."""
    outside = {v for node in consumers for v in node.operands} - {v for node in consumers for v in node.outputs}
    return len(outside) == 1


def _has_same_op_type(one: Node, other: Node) -> bool:
    """Whether two operators have one name: a tool may put its own domain's in, as for another layout in memory."""
    return one.source.op_type == other.source.op_type


def _anchor_operands(anchors: Anchors, node: Node, found: Node) -> None:
    """Anchor what a node takes to what its counterpart before took, or the one node of its operator that went into it.

    A `Transpose` in front of a convolution became the `ReorderInput` in front of ONNX Runtime's own (ConvNeXt); an
    activation of two nodes became one, of which no name is left, also in front of a convolution that adds (MobileViT).
    Where none has its operator, the one with its weight is meant: onnxsim puts a projection into a `Gemm` (a ViT).
    A stored constant was computed from nothing: a size that onnxscript's optimizer computes in place of one is new (a
    Llama with dynamic axes).
    """
    same = [found]
    if not _has_same_op_type(node, found):
        taken = [anchors.counterpart_or_source(value) for value in node.operands]
        computing = _nodes_from_taken(anchors, taken, found)
        same = [each for each in computing if _has_same_op_type(node, each)]
        same = same or [each for each in computing if _take_one_constant(anchors.match, node, each)]
    if len(same) != 1:
        return
    for new, old in zip(node.inputs, same[0].inputs, strict=False):
        if new in anchors.converted_from and old and old.varying and anchors.converted_from[new] is not old:
            del anchors.converted_from[new]
            anchors.anchored[new] = old
            if old in anchors.match.before.producer:
                _anchor_operands(anchors, anchors.match.after.producer[new], anchors.match.before.producer[old])


def _take_one_constant(match: Match, node: Node, found: Node) -> bool:
    """Whether a node takes a constant at the place where one before took it: a `Gemm` the weight of a `MatMul`."""
    pairs = zip(node.inputs, found.inputs, strict=False)
    return any(a and b and not b.varying and match.numbering.new[a] == match.numbering.old[b] for a, b in pairs)


def _nodes_from_taken(anchors: Anchors, taken: Sequence[Value | None], found: Node) -> list[Node]:
    """Return the nodes before that compute what `found` gives from the values that a new node takes."""
    return backward_slice(anchors.match.before, found.outputs, lambda value: value in taken)


def _taking_again(anchors: Anchors, taken: list[Value], found: Node) -> Node:
    """Return the removed node behind `found` that takes a value once more, as the new node takes it.

    ONNX Runtime puts `conv(x) + x` into one convolution that takes `x` twice.
    """
    needed = _nodes_from_taken(anchors, taken, found)
    for value in dict.fromkeys(taken):
        uses = sum(operand is value for node in needed for operand in node.operands)
        if taken.count(value) > uses > 0:
            behind = _meeting(anchors, [*found.outputs, value])
            return next((each for each in behind if _is_removed(anchors, each)), found)
    return found


def _last_absorbed(anchors: Anchors, node: Node, found: Node) -> Node:
    """Return the last node behind `found` whose operator a new node names in an attribute.

    ONNX Runtime states the `Relu` that it put into a convolution so; without other names, it is the only sign of it.
    """
    named = [each.value for each in node.stated.values()]
    while len(found.outputs) == 1:
        behind = anchors.match.before.consumers.get(found.outputs[0], ())
        if len(behind) != 1 or behind[0].source.op_type not in named:
            break
        found = behind[0]
        named.remove(found.source.op_type)
    return found


def _meeting(anchors: Anchors, operands: list[Value]) -> Iterator[Node]:
    """Yield the first nodes before in which all operands come together, in topological order."""
    before = anchors.match.before
    reached = {value: frozenset((i,)) for i, value in enumerate(operands)}
    first = chain.from_iterable(before.consumers.get(value, ()) for value in operands)
    queue = list({before.order[node] for node in first})
    heapq.heapify(queue)
    seen: set[int] = set()
    while queue and len(seen) < _REACH:
        position = heapq.heappop(queue)
        if position in seen:
            continue
        seen.add(position)
        node = before.nodes[position]
        taken = frozenset[int]().union(*(reached[value] for value in node.operands if value in reached))
        if len(taken) == len(operands):
            yield node
            continue
        for output in node.outputs:
            if output not in reached:
                reached[output] = taken
                for consumer in before.consumers.get(output, ()):
                    heapq.heappush(queue, before.order[consumer])
