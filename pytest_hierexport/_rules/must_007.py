"""MUST-007: the nodes of every call turn its inputs into its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, limited

if TYPE_CHECKING:
    from pytest_hierexport._calls.attribution import Attribution


@limited
def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._proof import prove

    example = exported.example
    try:
        attribution = exported.attribution
        proof = prove(example, exported.path, attribution, tolerances=exported.case.tolerances)
    except (TagError, UsageError) as error:
        yield Violation(exported.path.name, error.expected, error.found, error.do)
        return
    for name, verdict in proof.unproven.items():
        yield Violation(
            _call(name, attribution),
            "a call whose nodes turn its inputs into its outputs",
            f"{verdict.reason}: {verdict.value} ({verdict.tag or _untagged(verdict.value, exported)})",
            _to_do(name, attribution),
        )


def _untagged(value: str | None, exported: ExportedCase) -> str:
    """Say of a value that no tagged node makes what it is."""
    if any(given.name == value for given in exported.proto.graph.input):
        return "an input of the graph"
    return "untagged"


def _to_do(name: str, attribution: Attribution) -> str:
    if name not in attribution.hierarchy:
        return f"list this run of the module, {name}, in the hierarchy that the exporter writes: it is missing there"
    return "find what moved the value to another call, and carry origins through it"


def _call(name: str, attribution: Attribution) -> str:
    tag = attribution.hierarchy.tag(name) if name in attribution.hierarchy else "a call that the file does not list"
    return f"call {name} ({tag})" if name else f"the model's own call ({tag})"


RULE = Rule("MUST-007", "the tags are proven", _check, deployed=True, needs="model")
