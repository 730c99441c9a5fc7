"""How an item of ours fails."""

from __future__ import annotations

import pytest

from pytest_hierexport._calls.names import printable

__all__ = ["CheckFailed", "RuleBroken"]


class CheckFailed(pytest.fail.Exception):  # type: ignore[name-defined,misc]  # an attribute pytest sets on a function
    """A check that failed: its message says everything, so no traceback is shown."""

    # As pytest's own outcomes do: the one line of pytest's summary has room for the message, not for our module.
    __module__ = "builtins"

    def __init__(self, message: str) -> None:
        """Fail with the message alone, as a terminal can show it: names from a model may hold any character."""
        super().__init__(printable(message), pytrace=False)


class RuleBroken(CheckFailed):
    """A rule's own finding, which a known failure excuses; what kept the rule from running is never excused."""

    __module__ = "builtins"
