"""Holds what is known of a failed check beside its message: where, expected and found, and the command to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from inspect import signature
from typing import Any, TypeVar

from pytest_hierexport._snapshot.diff import Change, Difference
from pytest_hierexport._snapshot.renames import Move, Rename
from pytest_hierexport._text import printable

MadeT = TypeVar("MadeT")
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
    difference: Difference = field(default_factory=Difference)
    """What differs from the snapshot."""
    more: int = 0
    """How many findings and changes are left out."""

    @classmethod
    def of(cls, findings: Iterable[Finding], kept: str, repeat: str, difference: Difference | None = None) -> Failure:
        """Return a failure with its first findings and changes; the others are counted."""
        every, whole = tuple(findings), difference or Difference()
        shown = every[:_MOST_FINDINGS]
        part = replace(whole, changes=whole.changes[:_MOST_CHANGES], moves=whole.moves[:_MOST_CHANGES])
        return cls(shown, kept, repeat, part, len(every) - len(shown) + len([*whole]) - len([*part]))


def failure_to_json(failure: Failure) -> dict[str, Any]:
    """Return a failure as JSON can hold it, its texts printable: names from a model may hold any character."""
    stated = asdict(failure)
    difference: dict[str, Any] = stated.pop("difference")
    made: dict[str, Any] = _printable(stated | difference)
    return made


def _printable(value: Any) -> Any:
    """Return a value with its texts printable, without the keys of a mapping that stand for nothing."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(each) for key, each in value.items() if each is not None}
    return [*map(_printable, value)] if isinstance(value, (list, tuple)) else value


def known(cls: type[MadeT], content: Mapping[str, Any]) -> MadeT:
    """Make a dataclass of a JSON object; keys of later releases are left out."""
    return cls(**{name: content[name] for name in signature(cls).parameters if name in content})


def failure_from_json(content: Mapping[str, Any]) -> Failure:
    """Undo :func:`failure_to_json`; older reports tell neither renames nor moves."""
    return Failure(
        findings=tuple(known(Finding, finding) for finding in content["findings"]),
        kept=content["kept"],
        repeat=content["repeat"],
        difference=Difference(
            tuple(known(Rename, {**each, "tags": tuple(each["tags"])}) for each in content.get("renames", ())),
            tuple(Change(each["tag"], each.get("before"), each.get("after")) for each in content["changes"]),
            tuple(known(Move, each) for each in content.get("moves", ())),
        ),
        more=content["more"],
    )
