"""Holds what is known of a failed check beside its message: where, expected and found, and the command to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_hierexport._snapshot.diff import Change
from pytest_hierexport._text import printable

__all__ = ["Failure", "Finding", "failure_from_json", "failure_to_json"]

_MOST_FINDINGS = 100
_MOST_CHANGES = 2000


@dataclass(frozen=True)
class Finding:
    """One place where a check failed."""

    expected: str
    found: str
    do: str
    where: str = ""
    """The node with its tag, the line of source, the file; empty for the model as a whole."""


@dataclass(frozen=True)
class Failure:
    """The parts of a failed check's message."""

    findings: tuple[Finding, ...]
    kept: str = ""
    """The paths of the files that were kept, or why there are none."""
    repeat: str = ""
    """The command that repeats the check."""
    changes: tuple[Change, ...] = ()
    """The modules that differ from the snapshot."""
    more: int = 0
    """How many findings and changes are left out."""

    @classmethod
    def of(cls, findings: Iterable[Finding], kept: str, repeat: str, changes: Iterable[Change] = ()) -> Failure:
        """Return a failure with its first findings and changes; the others are counted."""
        every, changed = tuple(findings), tuple(changes)
        shown, kept_changes = every[:_MOST_FINDINGS], changed[:_MOST_CHANGES]
        more = len(every) - len(shown) + len(changed) - len(kept_changes)
        return cls(shown, kept, repeat, kept_changes, more)


def failure_to_json(failure: Failure) -> dict[str, Any]:
    """Return a failure as JSON can hold it, its texts printable: names from a model may hold any character."""
    return {
        "findings": [{name: printable(text) for name, text in asdict(finding).items()} for finding in failure.findings],
        "kept": printable(failure.kept),
        "repeat": printable(failure.repeat),
        "changes": [
            {"tag": printable(change.tag)}
            | ({} if change.before is None else {"before": dict(change.before)})
            | ({} if change.after is None else {"after": dict(change.after)})
            for change in failure.changes
        ],
        "more": failure.more,
    }


def failure_from_json(content: Mapping[str, Any]) -> Failure:
    """Undo :func:`failure_to_json`."""
    return Failure(
        findings=tuple(Finding(**finding) for finding in content["findings"]),
        kept=content["kept"],
        repeat=content["repeat"],
        changes=tuple(Change(each["tag"], each.get("before"), each.get("after")) for each in content["changes"]),
        more=content["more"],
    )
