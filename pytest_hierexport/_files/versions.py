"""Tells the versions of installed packages."""

from __future__ import annotations

from functools import cache
from importlib import metadata

__all__ = ["installed_versions"]


@cache
def installed_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those packages that are installed, without importing one."""
    return {name: found.version for name in names for found in [*metadata.distributions(name=name)][:1]}
