"""MUST-010: neither the file nor its sidecar tells of the machine that they were made on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_hierexport.errors import TagError
from pytest_hierexport.rules.base import ExportedCase, Rule, Violation, at_most

if TYPE_CHECKING:
    from pytest_hierexport.rules.leaks import Leak

__all__ = ["RULE"]


def _check(exported: ExportedCase) -> Iterator[Violation]:
    yield from at_most(
        Violation(
            leak.where,
            "no path, user or host of the machine that exports",
            f"{leak.found}, which tells {leak.tells}",
            "find who writes it: an exporter's metadata, a stack trace, a path in a class or a constant of the model",
        )
        for leak in _leaks(exported)
    )


def _leaks(exported: ExportedCase) -> Iterator[Leak]:
    from pytest_hierexport.rules.leaks import Machine, leaks_in_json, leaks_in_message
    from pytest_hierexport.storage import sidecar_path

    machine, known = Machine.this(), _known(exported)
    yield from leaks_in_message(exported.proto, machine, known)
    beside = sidecar_path(exported.path)
    if not beside.exists():
        return
    try:
        document = json.loads(beside.read_text(encoding="utf-8"))
    except ValueError:
        # Whether it is JSON at all is another rule's.
        document = beside.read_text(encoding="utf-8", errors="replace")
    yield from leaks_in_json(beside.name, document, machine, known)


def _known(exported: ExportedCase) -> frozenset[str]:
    """Return the texts that follow from the model's own names: a module may be called like a folder or a user."""
    try:
        hierarchy = exported.attribution.hierarchy
    except TagError:
        return frozenset()
    paths = (call.path for call in hierarchy.values())
    return frozenset((*hierarchy, *map(hierarchy.tag, hierarchy), *(path.replace(".", "/") for path in paths)))


RULE = Rule("MUST-010", "nothing leaks", _check)
