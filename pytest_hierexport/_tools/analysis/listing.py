"""Lists nodes and initializers with their origins, untagged nodes, and those with a wrong tag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

from pytest_hierexport._calls.names import encode_operator
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.graph import inventory_proto, operators
from pytest_hierexport._tools.analysis.figures import ModuleFilter, instances
from pytest_hierexport._tools.tagged_file import TaggedFile

DEEPEST = 200
"""The most levels of modules if each row has its whole tag: the memory for tags grows with the square of the levels.

In JSON a level is an object in a list: Python's parser fails at 490 levels, others earlier."""

LISTED = {
    "origins": ("kind", "key", "operator", "origins"),
    "untagged": ("key", "operator"),
    "contamination": ("key", "operator", "tag", "returned_by"),
}
"""The keys of the rows of each list of nodes; the schema describes them (`schema/analyze.json`)."""


def untagged_nodes(file: TaggedFile) -> Iterator[dict[str, Any]]:
    """Yield the nodes without an origin, in file order."""
    for key, operator in operators(file.proto).items():
        if not file.attribution.nodes.get(key):
            yield {"key": key, "operator": operator}


def listed_parts(file: TaggedFile, wanted: ModuleFilter) -> Iterator[dict[str, Any]]:
    """Yield every tagged node and initializer whose primary call is selected, in file order, with all its origins.

    Raises:
        UsageError: The modules nest too deep, or none is selected.
    """
    attribution, hierarchy = file.attribution, file.attribution.hierarchy
    check_height(hierarchy.height)
    of_call = instances(hierarchy)
    chosen = wanted.choose(file, of_call)
    tag = cache(hierarchy.tag)
    parts = inventory_proto(file.proto)
    nodes = (("node", key, encode_operator(node.domain, node.op_type)) for key, node in parts.nodes)
    tensors = (("initializer", key, "") for key, _ in parts.initializers)
    for kind, key, operator in chain(nodes, tensors):
        origins = (attribution.nodes if kind == "node" else attribution.initializers).get(key)
        if origins and of_call[hierarchy.kept(origins[0].call)] in chosen:
            listed = [{"call": o.call, "tag": tag(o.call), "evidence": o.evidence.value} for o in origins]
            yield {"kind": kind, "key": key, "operator": operator, "origins": listed}


def contaminated_nodes(file: TaggedFile, selector: str) -> list[dict[str, Any]]:
    """Run the graph and its model on the same inputs, and return the contaminated nodes in file order.

    Their value was returned by other calls only. `selector` names the model that the file was exported from. A model of
    the zoo or of a manifest may have been exported with random weights or with its own: both are tried.

    Raises:
        CollectError: The model cannot be built.
        UsageError: The selector does not name exactly one model, or the file was exported from another one.
    """
    from pytest_hierexport._cases import select_one
    from pytest_hierexport._proof import prove

    case = select_one(selector)
    model = file.proto if file.path is None else file.path
    hierarchy = file.attribution.hierarchy
    for randomise in (case.randomise, not case.randomise):
        proof = prove(replace(case, randomise=randomise).load(), model, file.attribution)
        counts = proof.counts()
        # A model that returns its input, a stored constant or constant values has no call to prove, and breaks none.
        if counts["unproven"] and not counts["proven"]:
            continue
        operator = operators(file.proto)
        return [
            {
                "key": key,
                "operator": operator.get(key, ""),
                "tag": file.attribution.tag(key) if file.attribution.nodes.get(key) else "",
                # A call that the file does not list is named.
                "returned_by": [*dict.fromkeys(hierarchy.tag(call) if call in hierarchy else call for call in calls)],
            }
            for key, calls in proof.contaminated.items()
        ]
    raise UsageError(
        f"the model that the file was exported from, with the same weights, as {selector}",
        found="a model of which no call computes what the file computes",
        do="name the model of this file, or export it again",
    )


def check_height(
    height: int,
    where: str = "where each row has its tag",
    do: str = "look at the table or the tree, which take any depth",
) -> None:
    """Check that the modules have few enough levels for rows with whole tags, or for JSON.

    Raises:
        UsageError: They have more than `DEEPEST`.
    """
    if height > DEEPEST:
        raise UsageError(f"at most {DEEPEST} levels of modules {where}", found=f"{height:,} levels", do=do)
