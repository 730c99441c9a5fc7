"""What is known of a graph as it was captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Evidence, Origin, Origins, order_origins
from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._carry import Known

if TYPE_CHECKING:
    from pytest_hierexport._carry.flat import Flat, Node
    from pytest_hierexport._export.capture import Capture

__all__ = ["known"]


def known(capture: Capture, hierarchy: Hierarchy) -> Known:
    """Turn the calls of a capture into origins; what has no call is placed by its neighbours and says so."""
    flat = capture.before
    nodes: dict[Node, Origins] = {}
    of_inputs: set[Node] = set()
    for node in flat.nodes:
        call = capture.nodes[node]
        if call is not None:
            also = (Origin(other, Evidence.MERGED) for other in _also(node, capture))
            nodes[node] = order_origins(hierarchy, (Origin(call, Evidence.TRACED), *also))
        elif _reads_inputs_alone(node, flat, of_inputs):
            # Nothing but the model's own inputs went into it: it ran before the root made any call.
            of_inputs.add(node)
            nodes[node] = (Origin(ROOT, Evidence.TRACED),)
    for node in flat.nodes:
        if node not in nodes:
            nodes[node] = (Origin(_place(node, flat, nodes, hierarchy), Evidence.DERIVED),)
    return Known(hierarchy, flat, nodes, _initializers(capture, hierarchy, nodes))


def _also(node: Node, capture: Capture) -> Iterator[str]:
    """Yield the calls that own a node, or the function or body in which it stands, beside the one that traced it."""
    holder: Node | None = node
    while holder is not None:
        yield from capture.also.get(holder, ())
        holder = holder.holder


def _reads_inputs_alone(node: Node, flat: Flat, of_inputs: set[Node]) -> bool:
    """Whether all that varies of what the node reads is an input, or was made of inputs alone like this one."""
    makers = [flat.maker.get(value) for value in node.reads if value.varying]
    return bool(makers) and all(maker is None or maker in of_inputs for maker in makers)


def _place(node: Node, flat: Flat, nodes: Mapping[Node, Origins], hierarchy: Hierarchy) -> str:
    """Return the nearest call that holds all known neighbours: makers and readers."""
    near = [flat.maker[value] for value in node.reads if value in flat.maker]
    near += [reader for output in node.outputs for reader in flat.readers.get(output, ())]
    # Constants are shared: who made one says nothing about who reads it.
    telling = [other for other in near if any(output.varying for output in other.outputs)] or near
    return hierarchy.common({nodes[other][0].call for other in telling if other in nodes})


def _initializers(capture: Capture, hierarchy: Hierarchy, nodes: Mapping[Node, Origins]) -> dict[str, Origins]:
    called = _first_calls(hierarchy)
    origins: dict[str, Origins] = {}
    for name, value in capture.before.initializers.items():
        owners = [_owner(path, called) for path in capture.owners.get(name, ())]
        if not owners:
            owners = [nodes[reader][0].call for reader in capture.before.readers.get(value, ())]
        origins[name] = order_origins(hierarchy, (Origin(call, Evidence.TRACED) for call in owners or [ROOT]))
    return origins


def _first_calls(hierarchy: Hierarchy) -> dict[str, str]:
    first: dict[str, str] = {}
    for name, call in hierarchy.items():
        first.setdefault(call.path, name)
    return first


def _owner(path: str, called: Mapping[str, str]) -> str:
    """Return the first call of the owning module, or of the nearest module above it that was called at all."""
    while path not in called and path != ROOT:
        path = path.rpartition(".")[0]
    return called.get(path, ROOT)
