"""MUST-007: the nodes of every call turn its inputs into its outputs."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._errors import TagError, UsageError
from pytest_hierexport._proof import prove
from pytest_hierexport._proof.unfollowed import ADVICE, drawn_anew
from pytest_hierexport._proof.verdict import OTHER_OUTPUTS
from pytest_hierexport._rules.base import ExportedCase, Violation, limited


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    example = exported.example
    try:
        attribution = exported.attribution
        proof = prove(example, exported.path, attribution, tolerances=exported.case.tolerances)
    except (TagError, UsageError) as error:
        yield Violation(exported.path.name, error.expected, error.found, error.do)
        return
    inputs = {given.name for given in exported.proto.graph.input}
    is_random = bool(proof.unproven and drawn_anew(example, exported.path))
    for name, verdict in proof.unproven.items():
        is_listed = name in attribution.hierarchy
        tag = attribution.hierarchy.tag(name) if is_listed else "a call that the file does not list"
        found_in = verdict.tag or ("an input of the graph" if verdict.value in inputs else "untagged")
        do = "find what moved the value to another call, and carry origins through it"
        if exported.case.step:
            do += "; if the step is meant to change values, state `tolerances` for it, or else a known failure"
        if verdict.reason == OTHER_OUTPUTS:
            do = "compare the values with `hierexport diverge`; if a step is meant to change them, state `tolerances`"
        if is_random:
            do = ADVICE
        if not is_listed:
            do = f"list this run of the module, {name}, in the hierarchy that the exporter writes: it is missing there"
        yield Violation(
            f"call {name} ({tag})" if name else f"the model's own call ({tag})",
            "a call whose nodes turn its inputs into its outputs",
            f"{verdict.reason}: {verdict.value} ({found_in})",
            do,
        )
