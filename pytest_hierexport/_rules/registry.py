"""The built-in rules, and the selection of those that run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from pytest_hierexport._errors import UsageError, proposals, similar
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation


def _check_of(module: str) -> Callable[[ExportedCase], Iterable[Violation]]:
    """Return the check of a module of this package, which is imported when it runs: it may need torch and ONNX."""
    return lambda exported: import_module(f"{__package__}.{module}").check(exported)


BUILT_IN = (
    Rule("MUST-001", "no hardcoded names", _check_of("must_001"), cardinal=True, needs="export"),
    Rule("MUST-002", "no torch.nn class in a tag", _check_of("must_002"), cardinal=True, deployed=True),
    Rule("MUST-003", "universal: every node has an origin", _check_of("must_003"), cardinal=True, deployed=True),
    Rule("MUST-004", "the ONNX checker passes and ONNX Runtime loads the file", _check_of("must_004"), deployed=True),
    Rule("MUST-005", "the graph is untouched", _check_of("must_005"), needs="export"),
    Rule("MUST-006", "the numbers agree", _check_of("must_006"), needs="model"),
    Rule("MUST-007", "the tags are proven", _check_of("must_007"), deployed=True, needs="model"),
    Rule("MUST-008", "exports repeat", _check_of("must_008"), needs="export"),
    Rule("MUST-009", "file and sidecar agree", _check_of("must_009")),
    Rule("MUST-010", "nothing leaks", _check_of("must_010")),
)
"""The built-in rules, by their ids; docs/architecture.md says what a new one needs beside its row here."""


def rules(ids: Iterable[str] | None = None, extra: Iterable[Rule] = ()) -> list[Rule]:
    """Return the rules to run, the project's own after the built-in ones.

    Args:
        ids: Those to run; None for all. The cardinal ones always run.
        extra: The project's own rules.

    Raises:
        UsageError: No rule has one of the ids, or two rules share one.
    """
    known: dict[str, Rule] = {}
    own = tuple(extra)
    for rule in (*BUILT_IN, *own):
        if (other := known.setdefault(rule.id, rule)) is not rule:
            raise UsageError(
                f"one rule of the id {rule.id}",
                found=f"two: {other.promise!r} and {rule.promise!r}",
                do="give the project's own rule another id",
            )
    if ids is None:
        return list(known.values())
    wanted = set(ids)
    if unknown := sorted(wanted - set(known)):
        is_named = own or any(similar(each, known) for each in unknown)
        none_own = "" if is_named else ", and no rule of the project: no hook pytest_hierexport_rules gives one"
        raise UsageError(
            "the id of a rule" if len(unknown) == 1 else "ids of rules",
            found=f"{', '.join(map(repr, unknown))}{none_own}",
            do=proposals((each, known) for each in unknown),
        )
    return [rule for rule in known.values() if rule.cardinal or rule.id in wanted]
