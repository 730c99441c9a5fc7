"""Tells the versions of installed packages, which of them are not supported, and the commit of a project."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from pytest_hierexport._errors import UsageError

OWN = "pytest-hierexport"
_NO_EXTRA = {"extra": ""}
_SECONDS = 10
"""How long git may take."""


@cache
def installed_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those packages that are installed, without importing one."""
    return {name: found.version for name in names for found in [*metadata.distributions(name=name)][:1]}


def own_version() -> str:
    """Return the version of this package; `unknown` where it is used without being installed."""
    return installed_versions((OWN,)).get(OWN, "unknown")


@cache
def check_requirements() -> None:
    """Compare the installed packages with the versions that this package requires.

    An installer does so too, unless it is told to ignore dependencies, or installs another package later. A package
    that is missing says so where it is imported.

    Raises:
        UsageError: A package that is required has another version.
    """
    from packaging.requirements import Requirement

    own = next(iter(metadata.distributions(name=OWN)), None)  # none where it is used without being installed
    stated = map(Requirement, [] if own is None else own.requires or [])
    required = [each for each in stated if each.marker is None or each.marker.evaluate(_NO_EXTRA)]
    versions = installed_versions(tuple(each.name for each in required))
    wrong = [
        each
        for each in required
        if each.name in versions and not each.specifier.contains(versions[each.name], prereleases=True)
    ]
    if wrong:
        wanted = [f"{each.name}{each.specifier}" for each in wrong]
        raise UsageError(
            f"{', '.join(wanted)} beside {OWN}",
            found=", ".join(f"{each.name} {versions[each.name]}" for each in wrong),
            do=f"pip install {' '.join(map(repr, wanted))}",
        )


def commit(folder: Path) -> str:
    """Return the commit that is checked out, with `-dirty` where files that git knows differ from it.

    Empty outside a repository, without git, or where git takes too long.
    """
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        ended = subprocess.run(  # noqa: S603  # fixed words and a folder
            command, capture_output=True, text=True, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return ended.stdout.strip()
