"""Words the errors for names that a hierarchy or a graph does not have; code that only asks pays for no words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pytest_hierexport._errors import proposal

if TYPE_CHECKING:
    from pytest_hierexport._calls.hierarchy import Hierarchy


class UnknownNameError(KeyError):
    """There is no such name; the message, which is composed when it is asked for, says which there are."""

    def __init__(self, expected: str, found: str, do: Callable[[], str]) -> None:
        super().__init__(found)
        self._parts = expected, found, do

    def __str__(self) -> str:
        """Return what was expected, what was found and what to do."""
        expected, found, do = self._parts
        return f"expected {expected}; found {found!r}\nto do: {do()}"

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes, as a KeyError of the same text."""
        return KeyError, (str(self),)


def unknown_call(hierarchy: Hierarchy, name: str) -> UnknownNameError:
    """Return the error for a call that a hierarchy does not list."""

    def do() -> str:
        with suppress(KeyError):
            return f"name the call of that tag: {hierarchy.resolve(name).name!r}"
        return proposal(name, hierarchy, {"": "'' (the root)"})

    return UnknownNameError("the name of a call of the hierarchy", name, do)


def unknown_tag(hierarchy: Hierarchy, tag: str) -> UnknownNameError:
    """Return the error for a tag that no call of a hierarchy has."""

    def do() -> str:
        if tag in hierarchy:
            return f"give the tag of that call: {hierarchy.tag(tag)}"
        return proposal(tag, dict.fromkeys(map(hierarchy.tag, hierarchy)))

    return UnknownNameError("a tag of the hierarchy", tag, do)


def node_without_tag(nodes: Mapping[str, object], node: str) -> UnknownNameError:
    """Return the error for a node that a graph does not have, or that has no origin."""
    if node in nodes:
        return UnknownNameError("a node with an origin", node, lambda: "ask `nodes` for its origins first")
    return UnknownNameError("the key of a node of the graph", node, partial(proposal, node, nodes.keys()))
