"""Defines the failures of our items: a message, no traceback."""

from __future__ import annotations

import pytest

from pytest_hierexport._text import printable

__all__ = ["CheckFailed", "RuleBroken"]


class CheckFailed(pytest.fail.Exception):  # type: ignore[name-defined,misc]  # an attribute pytest sets on a function
    """A check that failed; its message is complete, so no traceback is shown."""

    # As in pytest's own outcomes: the one line of pytest's summary has room for the message, not for our module.
    __module__ = "builtins"

    def __init__(self, message: str) -> None:
        """Escape what a terminal cannot show: names from a model may hold any character."""
        super().__init__(printable(message), pytrace=False)


class RuleBroken(CheckFailed):
    """A violated rule, which a known failure excuses; it does not excuse a rule that could not run."""

    __module__ = "builtins"
