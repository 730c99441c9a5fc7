"""Takes the casts between floating types out of both graphs, where a tool changed the precision, and places them later.

Example. A runtime computes float16 in float32; the casts and the names of the values are its own:

    before (float16)      after                                  compared as
    h = MatMul(x, w)      x32 = Cast(x)   w32 = Cast(w)          h = MatMul(x, w)
    y = Relu(h)           h32 = MatMul(x32, w32)                 y = Relu(h)
                          y32 = Relu(h32)   y = Cast(y32)

A value and its casts are one value, under the name by which the other graph knows it. A cast of the graph before keeps
its origins where it stays. Any other belongs to the calls of the node whose value it converts; where no node computes
that value, to the calls that read its elements, or, where all read its shape alone, to their common caller.

In goes a match; out come both graphs without casts, by :func:`contracted`. When carry has compared these,
:func:`attribute_casts` adds the casts to the attribution of the graph after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Primary, order_origins
from pytest_hierexport._carry.flat import Flat, Node, Value, names_inside
from pytest_hierexport._carry.match import Attributed, Match, weakened
from pytest_hierexport._grouping import by_key
from pytest_hierexport._onnx.operators import definition


@dataclass(frozen=True)
class Contracted:
    """A graph without its casts between floating types."""

    flat: Flat
    whole: Flat
    casts: Mapping[Node, Value]
    """Each cast of the whole graph with the value that it converts, casts of casts with the first one."""
    nodes: Mapping[Node, Node]
    """Each other node of the whole graph with its copy."""

    def attributed(self, whole: Attributed) -> Attributed:
        """Return the graph without casts with the origins of the whole one."""
        nodes = {copy: whole.nodes[node] for node, copy in self.nodes.items()}
        return replace(whole, flat=self.flat, nodes=nodes)


def contracted(found: Match) -> tuple[Contracted, Contracted] | None:
    """Return both graphs without casts between floating types; None where a tool changed no precision.

    Then all casts after were there before, by their names or, where the tool gave others, by what they compute.
    """
    before, after = found.attributed.flat, found.after
    old, new = _floating_casts(before, before), _floating_casts(after, before)
    if all(_kept(before, cast) is not None for cast in new) or found.matched.issuperset(new):
        return None
    return _without(before, old, after), _without(after, new, before)


def _kept(before: Flat, cast: Node) -> Node | None:
    """Return the cast before that gave a value of the same name and type."""
    found = before.namesake(cast)
    return found if found is not None and found.attributes == cast.attributes else None


def _floating_casts(flat: Flat, typed: Flat) -> dict[Node, Value]:
    """Return the casts from one floating type to another, each with the value that it converts.

    A value without a type has that of its namesake in the typed graph, else that of what its node takes.
    """
    floating: dict[Value, bool] = {}
    casts: dict[Node, Value] = {}

    def is_floating(value: Value) -> bool:
        if value not in floating:
            dtype = typed.named.get(value.name, value).dtype if value.dtype is None else value.dtype
            floating[value] = dtype is not None and dtype.is_floating_point()
        return floating[value]

    for node in flat.nodes:
        for i, output in enumerate(node.outputs):
            if output.dtype is None:
                floating[output] = any(map(is_floating, _of_same_type(node, i, flat.opsets)))
        if node.operator == ("", "Cast", ""):
            source, stated = next(node.operands), node.stated["to"]
            dtype = node.outputs[0].dtype if stated.is_ref() else ir.DataType(stated.as_int())
            to = dtype is not None and dtype.is_floating_point()
            floating[node.outputs[0]] = to
            if to and is_floating(source):
                casts[node] = casts.get(flat.producer.get(source), source)  # type: ignore[arg-type]
    return casts


def _of_same_type(node: Node, output: int, opsets: Mapping[str, int]) -> Iterator[Value]:
    """Yield the inputs that have the type of an output by the operator's definition; all where there is none.

    A comparison of floating numbers gives a mask, whose cast stays.
    """
    schema = definition(node.source.op_type, opsets.get(node.source.domain, 1), node.source.domain)
    if schema is None or not schema.outputs:
        yield from node.operands
        return
    wanted = schema.outputs[min(output, len(schema.outputs) - 1)].type_str
    for i, value in enumerate(node.inputs):
        if value is not None and schema.inputs[min(i, len(schema.inputs) - 1)].type_str == wanted:
            yield value


def _without(flat: Flat, casts: Mapping[Node, Value], other: Flat) -> Contracted:
    """Return a graph without its casts; a value has the name by which the other graph knows it or a cast of it."""
    sources = {cast.outputs[0]: source for cast, source in casts.items()}
    names = _names(flat, sources, other)
    values: dict[Value, Value] = {}

    def copied(value: Value) -> Value:
        value = sources.get(value, value)
        if value not in values:
            is_floating = value.dtype is not None and value.dtype.is_floating_point()
            dtype = ir.DataType.FLOAT if is_floating else value.dtype
            values[value] = replace(value, name=names.get(value, value.name), dtype=dtype)
        return values[value]

    nodes: dict[Node, Node] = {}
    for node in flat.nodes:
        if node not in casts:
            nodes[node] = replace(
                node,
                inputs=tuple(None if value is None else copied(value) for value in node.inputs),
                outputs=tuple(map(copied, node.outputs)),
                outer=tuple(map(copied, node.outer)),
                parent=None if node.parent is None else nodes[node.parent],
                body_inputs=tuple(map(copied, node.body_inputs)),
                body_outputs=tuple(map(copied, node.body_outputs)),
            )
    found = Flat(
        nodes=list(nodes.values()),
        named={known: copied(value) for name, value in flat.named.items() for known in (names.get(value, name), name)},
        initializers={name: copied(value) for name, value in flat.initializers.items()},
        leaves=list(map(copied, flat.leaves)),
        inputs=list(map(copied, flat.inputs)),
        outputs=list(map(copied, flat.outputs)),
        opsets=flat.opsets,
    )
    return Contracted(found, flat, casts, nodes)


def _names(flat: Flat, sources: Mapping[Value, Value], other: Flat) -> dict[Value, str]:
    """Return the values that the other graph knows by the name of a cast of theirs, or without what a tool adds to it.

    What it adds is seen where it casts: a runtime that names `linear` in float32 `Inserted_linear` casts the one to the
    other in some places, and nowhere in others.
    """
    names: dict[Value, str] = {}
    added: dict[tuple[str, str], None] = {}
    for copy, source in sources.items():
        short, long = sorted((copy.name, source.name), key=len)
        if short in long and short in other.named:
            added[long[: long.index(short)], long[long.index(short) + len(short) :]] = None
    for name, value in flat.named.items():
        if name not in other.named:
            fits = (name.removeprefix(start).removesuffix(end) for start, end in added)
            names.update((value, each) for each in fits if each in other.named and each not in flat.named)
    unknown = ((copy, source) for copy, source in sources.items() if source.name not in other.named)
    names.update((source, copy.name) for copy, source in unknown if copy.name in other.named)
    return {**names_inside(flat, names), **names}


def attribute_casts(attribution: Attribution, before: Attributed, after: Contracted, primary: Primary) -> Attribution:
    """Return the attribution with the casts, which had been taken out, in it."""
    hierarchy, flat, found = attribution.hierarchy, after.whole, dict[Node, list[Origin]]()

    for cast, source in after.casts.items():
        kept, producer = _kept(before.flat, cast), flat.producer.get(source) or cast.parent
        if kept is not None:
            found[cast] = list(before.nodes[kept])
        elif producer is not None:
            found[cast] = weakened(Evidence.FUSED, attribution.nodes[producer.key])
    # No node computes an input or a constant: its cast belongs to the calls that take it.
    for cast, source in reversed(list(after.casts.items())):
        if cast not in found:
            consumers = flat.consumers_of(cast)
            taking = {node: found.get(node) or attribution.nodes.get(node.key, ()) for node in consumers}
            reading = (node for node in consumers if not set(cast.outputs).isdisjoint(node.data_operands))
            read = [origin for node in reading for origin in taking[node]]
            evidence = Evidence.FUSED if source.varying else Evidence.FOLDED
            # Calls that read the shape alone own no elements for it: layers share the size of an input of the model.
            sized = (origin.call for origins in taking.values() for origin in origins)
            found[cast] = weakened(evidence, read or [Origin(hierarchy.common(sized), evidence)])
    # The calls of a function share the keys of its nodes.
    shared = by_key((cast.key, origin) for cast, origins in found.items() for origin in origins)
    nodes = {**attribution.nodes, **{key: order_origins(hierarchy, each, primary) for key, each in shared.items()}}
    return replace(attribution, nodes={node.key: nodes[node.key] for node in flat.nodes})
