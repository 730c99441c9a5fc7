"""Makes the errors for names that a hierarchy or a graph does not have.

A message is composed when it is shown: code that only catches the error does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from pytest_hierexport._errors import proposal


class UnknownNameError(KeyError):
    """There is no such name; the message, which is composed when it is asked for, says which there are."""

    def __init__(self, expected: str, found: str, do: Callable[[], str]) -> None:
        super().__init__(found)
        self._parts = expected, found, do

    def __str__(self) -> str:
        """Return what was expected, what was found and what to do."""
        expected, found, do = self._parts
        return f"expected {expected}; found {found!r}\nto do: {do() if isinstance(found, str) else 'give it as a text'}"

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between processes, as a KeyError of the same text."""
        return KeyError, (str(self),)


def unknown_call(name: str, calls: Collection[str], tag_of: Callable[[str], str]) -> UnknownNameError:
    """Return the error for a name that is not among the names of some calls, whose tags a function gives."""

    def do() -> str:
        # Of the calls of one tag the first is the one that the tag names.
        for call in calls:
            if tag_of(call) == name:
                return f"name the call of that tag: {call!r}"
        return proposal(name, calls, {"": "'' (the root)"})

    return UnknownNameError("the name of a call of the hierarchy", name, do)


def unknown_tag(tag: str, calls: Collection[str], tag_of: Callable[[str], str]) -> UnknownNameError:
    """Return the error for a tag that is not among those of some calls, which a function gives."""

    def do() -> str:
        if tag in calls:
            return f"give the tag of that call: {tag_of(tag)}"
        return proposal(tag, dict.fromkeys(map(tag_of, calls)))

    return UnknownNameError("a tag of the hierarchy", tag, do)


def node_without_tag(nodes: Mapping[str, object], node: str) -> UnknownNameError:
    """Return the error for a node that a graph does not have, or that has no origin."""
    if node in nodes:
        return UnknownNameError("a node with an origin", node, lambda: "ask `nodes` for its origins first")
    return UnknownNameError("the key of a node of the graph", node, partial(proposal, node, nodes.keys()))
