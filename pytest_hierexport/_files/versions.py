"""Tells the versions of installed packages, and which of them are older than this package supports."""

from __future__ import annotations

from functools import cache
from importlib import metadata

from pytest_hierexport._errors import UsageError

__all__ = ["check_requirements", "installed_versions"]

_OWN = "pytest-hierexport"
_NO_EXTRA = {"extra": ""}


@cache
def installed_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those packages that are installed, without importing one."""
    return {name: found.version for name in names for found in [*metadata.distributions(name=name)][:1]}


@cache
def check_requirements() -> None:
    """Compare the installed packages with the versions that this package requires.

    An installer does so too, unless it is told to ignore dependencies, or installs another package later. A package
    that is missing says so where it is imported.

    Raises:
        UsageError: A package that is required has another version.
    """
    from packaging.requirements import Requirement

    required = [each for each in map(Requirement, _stated()) if each.marker is None or each.marker.evaluate(_NO_EXTRA)]
    versions = installed_versions(tuple(each.name for each in required))
    wrong = [
        each
        for each in required
        if each.name in versions and not each.specifier.contains(versions[each.name], prereleases=True)
    ]
    if wrong:
        wanted = [f"{each.name}{each.specifier}" for each in wrong]
        raise UsageError(
            f"{', '.join(wanted)} beside {_OWN}",
            found=", ".join(f"{each.name} {versions[each.name]}" for each in wrong),
            do=f"pip install {' '.join(map(repr, wanted))}",
        )


def _stated() -> list[str]:
    """Return the requirements of this package; none where it is used without being installed."""
    found = next(iter(metadata.distributions(name=_OWN)), None)
    return [] if found is None else found.requires or []
