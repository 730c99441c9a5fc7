"""Finds nodes that are tagged with another call than the one whose value they compute, by running the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.graph import operators

if TYPE_CHECKING:
    from pytest_hierexport._tools.tagged_file import TaggedFile


@dataclass(frozen=True)
class ContaminatedNode:
    """A node whose value only other calls returned than those it is tagged with."""

    key: str
    operator: str
    tag: str
    returned_by: tuple[str, ...]
    """The tags of the calls that returned its value; the names of those that the file does not list."""


def contaminated_nodes(file: TaggedFile, selector: str) -> list[ContaminatedNode]:
    """Run the graph beside its model, and return the contaminated nodes in file order.

    A model of the zoo or of a manifest may have been exported with generic weights or with its own: both are tried.

    Args:
        file: The file.
        selector: Names the model that the file was exported from.

    Raises:
        CollectError: The model cannot be made.
        UsageError: The selector names no one model, or the file holds another one.
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
            ContaminatedNode(
                key,
                operator.get(key, ""),
                file.attribution.tag(key) if file.attribution.nodes.get(key) else "",
                tuple(dict.fromkeys(hierarchy.tag(call) if call in hierarchy else call for call in calls)),
            )
            for key, calls in proof.contaminated.items()
        ]
    raise UsageError(
        f"the model that the file was exported from, with the same weights, as {selector}",
        found="a model of which no call computes what the file computes",
        do="name the model of this file, or export it again",
    )
