"""Finds nodes with a wrong tag by running the model: their value was returned by other calls only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.graph import operators
from pytest_hierexport._tools.tagged_file import TaggedFile


def contaminated_nodes(file: TaggedFile, selector: str) -> list[dict[str, Any]]:
    """Run the graph and its model on the same inputs, and return the contaminated nodes in file order.

    `selector` names the model that the file was exported from. A model of the zoo or of a manifest may have been
    exported with random weights or with its own: both are tried.

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
        if not proof.counts()["proven"]:
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
