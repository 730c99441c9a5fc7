"""Runs the passes that give each node and initializer of a transformed graph its origins.

In go the graph before with its origins, and the graph after: two models to :func:`carry`, two flat copies to
:func:`carry_flat`. Out comes the attribution of the graph after.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from pytest_hierexport._calls.attribution import Attribution, Origin, Origins, Primary, order_origins
from pytest_hierexport._carry.cancelled import attribute_cancelled
from pytest_hierexport._carry.casts import attribute_casts, contracted
from pytest_hierexport._carry.copies import attribute_copies
from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._carry.flat import Flat, Node, drop_prefix
from pytest_hierexport._carry.leftover import attribute_leftover, initializer_origins
from pytest_hierexport._carry.match import Attributed, Match, OriginsOf, attribute_matched, match
from pytest_hierexport._carry.regions import attribute_regions
from pytest_hierexport._errors import UsageError, gist
from pytest_hierexport._onnx.models import Model, as_ir

# In this order: a pass reads the origins that those before it gave.
_PASSES = (attribute_matched, attribute_regions, attribute_copies, attribute_cancelled, attribute_leftover)


def carry(before: Model, attribution: Attribution, after: Model, *, primary: Primary = "first") -> Attribution:
    """Compute the attribution of a transformed model from that of the model before it.

    Args:
        before: The model before the transformation: a path, a protobuf message or an onnx_ir model.
        attribution: The origins of each of its nodes and initializers, as :func:`pytest_hierexport.read` gives them.
        after: The model after, in any of the same forms; it shares no nodes with the one before.
        primary: How the first of several origins is chosen: `first` in execution order, their nearest common
            `ancestor`, or a function of the hierarchy and the origins.

    Returns:
        The origins of each node and initializer of `after`.

    Raises:
        UsageError: A path leads to no ONNX file, a model is invalid, an argument is something else, or `primary` is
            none of these; or external data cannot be read, as that of a message that does not tell its folder.
    """
    try:
        return _carried(as_ir(before), attribution, as_ir(after), primary)
    except OSError as error:
        raise UsageError(
            "both models with all their data",
            found=gist(error),
            do="keep external data beside its model, and give the model by its path",
        ) from error


def _carried(before: ir.Model, attribution: Attribution, after: ir.Model, primary: Primary) -> Attribution:
    flat = flat_copy(_with_shapes(before))
    nodes = _origins_where_called(flat, attribution, before.functions)
    attributed = Attributed(attribution.hierarchy, flat, nodes, attribution.initializers)
    flat_after = flat_copy(after)
    drop_prefix(flat, flat_after)
    matched = match(attributed, flat_after)
    both = contracted(matched)
    if both is None:
        return _attribution(matched, primary)
    old, new = both
    return attribute_casts(carry_flat(old.attributed(attributed), new.flat, primary), attributed, new, primary)


def _with_shapes(model: ir.Model) -> ir.Model:
    """Return a model with the shapes of its values, as ONNX infers them where the model states none.

    TorchScript's exporter states none. Without them, a `Reshape` that an optimizer drops in front of another one would
    count for one that gives back what it takes (GPT-2).
    """
    if all(value.shape is not None for node in model.graph for value in node.outputs if value.name):
        return model
    copied = model.clone()
    for node in copied.graph.all_nodes():
        copied.opset_imports.setdefault(node.domain, 1)  # a domain without a version would stop the inference
    return ShapeInferencePass(check_type=False, strict_mode=False)(copied).model


def _origins_where_called(
    flat: Flat, attribution: Attribution, functions: Container[ir.OperatorIdentifier]
) -> dict[Node, Origins]:
    """Return the origins of each node; in a function's body, those at or below the call's, where there are any."""
    found: dict[Node, Origins] = {}
    for node in flat.nodes:
        found[node] = attribution.nodes.get(node.key, ())
        calling = next((each for each in node.around if each.source.op_identifier() in functions), None)
        if calling is not None:
            callers = {origin.call for origin in found[calling]}
            own = (o for o in found[node] if not callers.isdisjoint(attribution.hierarchy.lineage(o.call)))
            found[node] = tuple(own) or found[node]
    return found


def carry_flat(attributed: Attributed, after: Flat, primary: Primary = "first") -> Attribution:
    """Compute the attribution of `after`, as :func:`carry` does, from flat copies of both graphs."""
    return _attribution(match(attributed, after), primary)


def _attribution(matched: Match, primary: Primary) -> Attribution:
    attributed, after = matched.attributed, matched.after
    origins: OriginsOf = {node: [] for node in after.nodes}
    for attribute in _PASSES:
        attribute(matched, origins)
    nodes: dict[str, list[Origin]] = {}
    for node in after.nodes:
        nodes.setdefault(node.key, []).extend(origins[node])

    def ordered(found: Mapping[str, Iterable[Origin]]) -> dict[str, Origins]:
        return {key: order_origins(attributed.hierarchy, each, primary) for key, each in found.items()}

    initializers = {
        name: initializer_origins(matched, origins, name, value) for name, value in after.initializers.items()
    }
    return Attribution(attributed.hierarchy, ordered(nodes), ordered(initializers))
