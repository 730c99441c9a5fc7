"""The hooks that projects may implement, in a conftest or a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_hierexport._rules.base import Rule

__all__ = ["pytest_hierexport_rules"]


@pytest.hookspec
def pytest_hierexport_rules(config: pytest.Config) -> list[Rule]:
    """Return rules of the project's own; they run on every selected model, after the built-in ones.

    A rule's `check` takes an :class:`~pytest_hierexport._rules.base.ExportedCase` and gives its violations. Import what
    it needs inside it: the hook is called while tests are collected.
    """
    raise NotImplementedError  # a specification: pluggy never calls it
