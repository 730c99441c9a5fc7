"""Checks the rules that need no PyTorch model on an ONNX file and the sidecar beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pytest_hierexport._files.paths import exists
from pytest_hierexport._onnx.sidecar import sidecar_path
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation
from pytest_hierexport._rules.messages import broken
from pytest_hierexport._rules.registry import BUILT_IN

_NEEDS_SIDECAR = "MUST-009"


@dataclass(frozen=True)
class RuleResult:
    """The result of one rule on a file."""

    rule: Rule
    status: Literal["kept", "broken", "skipped"]
    reason: str = ""
    """Why the rule was skipped."""
    violations: Sequence[Violation] = ()


def validate(
    path: Path, *, allow_derived: int = 0, starting: Callable[[str], None] = lambda _rule: None
) -> Iterator[RuleResult]:
    """Check every rule that needs only the file, which is not changed.

    `allow_derived` nodes may have a `derived` origin. `starting` is called with the id of each rule before its check.

    Raises:
        UsageError: There is no such file, it is not ONNX, or its external data is outside its folder.
    """
    case = ExportedCase.of_file(path, allow_derived)
    _ = case.proto
    for rule in (rule for rule in BUILT_IN if rule.needs == "file"):
        if rule.id == _NEEDS_SIDECAR and not exists(sidecar_path(path)):
            yield RuleResult(rule, "skipped", f"no {sidecar_path(path).name}")
            continue
        starting(rule.id)
        violations = rule.violations(case)
        yield RuleResult(rule, "broken" if violations else "kept", violations=violations)


def as_dict(results: Sequence[RuleResult], name: str) -> dict[str, Any]:
    """Return the results as an object for JSON."""
    rules = [
        {
            "id": result.rule.id,
            "promise": result.rule.promise,
            "status": result.status,
            "reason": result.reason,
            "violations": [asdict(violation) for violation in result.violations],
        }
        for result in results
    ]
    return {"file": name, "valid": all(result.status != "broken" for result in results), "rules": rules}


def as_lines(results: Sequence[RuleResult], name: str) -> Iterator[str]:
    """Yield a line for each rule, the places that break it below, and a summary."""
    for result in results:
        if result.status == "broken":
            yield from ("", *broken(result.rule, name, result.violations).splitlines(), "")
        else:
            reason = f" ({result.reason})" if result.reason else ""
            yield f"{result.rule.id} {result.status}{reason}: {result.rule.promise}"
    count = sum(result.status == "broken" for result in results)
    yield f"{name}: {count} of {len(results)} rules broken" if count else f"{name}: no rule broken"
