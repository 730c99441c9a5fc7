"""Turns the calls of a capture into the origins of the graph before optimization.

node of a known call                      that call                                    traced
                                          the calls of its removed duplicates          merged
node outside bodies, of graph inputs      the root                                     traced
any other node in a body                  the call of the node that holds it           derived, counted by MUST-003
any other node                            the nearest common call of its neighbours    derived, as well
initializer that modules hold             the first call of each module                traced
initializer that none is known to hold    the calls of its consumers                   as for these
initializer without holder or consumer    the root                                     derived

In go a capture and its hierarchy; out comes the graph with its origins, by :func:`attribute_before`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from pytest_hierexport._calls.attribution import Evidence, Origin, Origins, order_origins
from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._calls.names import upwards
from pytest_hierexport._carry import Attributed
from pytest_hierexport._carry.flat import Flat, Node
from pytest_hierexport._export.capture import Capture


def attribute_before(capture: Capture, hierarchy: Hierarchy) -> Attributed:
    """Return the graph before optimization with the origins of its nodes and initializers."""
    flat = capture.before
    nodes: dict[Node, Origins] = {}
    of_inputs: set[Node] = set()
    for node in flat.nodes:
        if own := capture.owners[node]:
            # What was merged into the node that holds a body was merged into each node of the body.
            merged = chain(own[1:], *(capture.owners[each][1:] for each in node.around))
            origins = (Origin(own[0], Evidence.TRACED), *(Origin(call, Evidence.MERGED) for call in merged))
            nodes[node] = order_origins(hierarchy, origins)
        elif node.parent is None and _takes_inputs_alone(node, flat, of_inputs):
            # The root computed it before its first call, for example a size.
            of_inputs.add(node)
            nodes[node] = (Origin(ROOT, Evidence.TRACED),)
    for node in flat.nodes:
        if node not in nodes:
            nodes[node] = (Origin(_call_around(node, flat, nodes, hierarchy), Evidence.DERIVED),)
    return Attributed(hierarchy, flat, nodes, _initializers(capture, hierarchy, nodes))


def _takes_inputs_alone(node: Node, flat: Flat, of_inputs: set[Node]) -> bool:
    """Whether a node has varying operands, each a graph input or the output of a node in `of_inputs`."""
    producers = [flat.producer.get(value) for value in node.operands if value.varying]
    return bool(producers) and all(producer is None or producer in of_inputs for producer in producers)


def _call_around(node: Node, flat: Flat, nodes: Mapping[Node, Origins], hierarchy: Hierarchy) -> str:
    """Return the call of the node that holds a node in a body.

    In the main graph, return the nearest common call of all producers and consumers whose call is known, or was derived
    before.
    """
    if node.parent is not None:
        return nodes[node.parent][0].call
    near = [flat.producer[value] for value in node.operands if value in flat.producer]
    near += flat.consumers_of(node)
    # Constants are shared: the call of a constant's producer says nothing about the calls of its consumers.
    varying = [other for other in near if other.varying] or near
    return hierarchy.common({nodes[other][0].call for other in varying if other in nodes})


def _initializers(capture: Capture, hierarchy: Hierarchy, nodes: Mapping[Node, Origins]) -> dict[str, Origins]:
    called: dict[str, str] = {}
    for call in hierarchy.values():
        called.setdefault(call.path, call.name)
    origins: dict[str, Origins] = {}
    for name, value in capture.before.initializers.items():
        owners = [Origin(_owner(path, called), Evidence.TRACED) for path in capture.declared.get(name, ())]
        if not owners:
            # A tensor that `forward` makes or takes from a list, or any of a ready program, whose modules are gone.
            owners = [nodes[consumer][0] for consumer in capture.before.consumers.get(value, ())]
        origins[name] = order_origins(hierarchy, owners or [Origin(ROOT, Evidence.DERIVED)])
    return origins


def _owner(path: str, called: Mapping[str, str]) -> str:
    """Return the first call of the module at a path, or of the nearest module above it that was called."""
    return next((called[above] for above in upwards(path) if above in called), ROOT)
