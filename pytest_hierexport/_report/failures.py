"""Holds what is known of a failed check beside its message: where, expected and found, and the command to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from inspect import signature
from typing import Any

from pytest_hierexport._rules.base import Violation
from pytest_hierexport._snapshot.diff import Change, Difference
from pytest_hierexport._snapshot.renames import Move, Rename
from pytest_hierexport._text import printable

_MOST_FINDINGS = 100
_MOST_CHANGES = 2000


Failure = Mapping[str, Any]
"""The parts of a failed check's message, as `schema/report.json` describes them: all processes pass them on so."""
_KINDS = {"findings": Violation, "renames": Rename, "changes": Change, "moves": Move}
"""The lists of a failure, with what they hold."""


def failure_of(
    findings: Iterable[Violation], kept: str = "", repeat: str = "", difference: Difference | None = None
) -> Failure:
    """Return a failure with its first findings and changes, its texts printable; the others are counted."""
    every, whole = list(findings), difference or Difference()
    shown = every[:_MOST_FINDINGS]
    part = replace(whole, changes=whole.changes[:_MOST_CHANGES], moves=whole.moves[:_MOST_CHANGES])
    more = len(every) - len(shown) + len([*whole]) - len([*part])
    stated = {"findings": list(map(asdict, shown)), "kept": kept, "repeat": repeat, "more": more, **asdict(part)}
    failure: Failure = _printable(stated)
    return failure


def _printable(value: Any) -> Any:
    """Return a value with its texts printable, and its mappings without keys whose value is None.

    Names from a model may hold any character.
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(each) for key, each in value.items() if each is not None}
    return [*map(_printable, value)] if isinstance(value, (list, tuple)) else value


def known(cls: type, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a JSON object states of a dataclass; keys of later releases are left out."""
    return {name: content[name] for name in signature(cls).parameters if name in content}


def read_failure(content: Mapping[str, Any]) -> Failure:
    """Return a failure of a report as this release has it; older reports tell neither renames nor moves."""
    lists = {kind: [known(cls, each) for each in content.get(kind, ())] for kind, cls in _KINDS.items()}
    stated = {name: content[name] for name in ("kept", "repeat", "more")}
    # In the order of `failure_of`: a merged report is byte for byte that of the whole run.
    failure: Failure = _printable({"findings": (), **stated, **lists})
    return failure
