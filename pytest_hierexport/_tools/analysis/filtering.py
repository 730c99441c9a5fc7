"""Selects module instances by tag and class.

    /Net/Encoder/Layer.*   by the whole tag, segment by segment
    Layer.[02]             by the last segment
    encoder.layer.0        by path, if no last segment matches; a shared module by each of its paths
    m.Layer, Layer         by class, with or without its module

All instances below a matching one are selected too. With a tag and a class, an instance must be selected by both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._calls.modules import Module
from pytest_hierexport._calls.patterns import calls_below, calls_of_class, matching_calls
from pytest_hierexport._errors import UsageError

_Instance = TypeVar("_Instance")


@dataclass(frozen=True)
class ModuleFilter:
    """Patterns for module instances; None matches all."""

    tag: str | None = None
    cls: str | None = None

    def choose(
        self, hierarchy: Hierarchy, instances: Mapping[str | None, _Instance], modules: Sequence[Module] = ()
    ) -> set[_Instance]:
        """Return the selected instances, those below them included; calls without an instance cannot be selected.

        Raises:
            UsageError: There are none.
        """
        chosen = set(instances.values())
        by_tag = [_tagged(hierarchy, self.tag, modules)] if self.tag else []
        by_class = [calls_of_class(hierarchy, self.cls)] if self.cls else []
        for names in (*by_tag, *by_class):
            listed = [name for name in names if name in instances]
            chosen &= {instances[name] for name in calls_below(hierarchy, listed) if name in instances}
        if not chosen:
            patterns = [f"{name} {text!r}" for name, text in (("--tag", self.tag), ("--class", self.cls)) if text]
            raise UsageError(
                f"a module that matches {' and '.join(patterns)}",
                found="none in the table",
                do="take a tag or class from the table of hierexport analyze",
            )
        return chosen


def _tagged(hierarchy: Hierarchy, pattern: str, modules: Sequence[Module]) -> list[str]:
    if not pattern.startswith("/"):
        with suppress(UsageError):
            return matching_calls(hierarchy, f"/**/{pattern}")
    return matching_calls(hierarchy, pattern, modules)
