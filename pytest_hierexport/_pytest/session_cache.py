"""Connects the cache to a session of pytest: when recording starts, what identifies the session, what users see."""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_hierexport._pytest.cache import Cache
from pytest_hierexport._pytest.identity import early_plugins, session_facts
from pytest_hierexport._pytest.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cache_of", "warning", "watch"]

_READS: pytest.StashKey[Reads] = pytest.StashKey()
_EARLY: pytest.StashKey[list[str]] = pytest.StashKey()
_WARNING = "cache-warning.txt"


def watch(config: pytest.Config) -> None:
    """Record what is read from now on, and which plugins of the project were loaded before."""
    config.stash[_EARLY] = early_plugins(config.pluginmanager)
    config.stash[_READS] = reads = Reads()
    reads.start()
    reads.expect([config.inipath] if config.inipath else [])
    config.add_cleanup(reads.stop)


def cache_of(config: pytest.Config, folder: Path, scratch: Path, outputs: Sequence[Path]) -> Cache | None:
    """Return the cache of a session, None where what the session reads was not recorded from the start.

    Args:
        config: The session's configuration.
        folder: The folder of the cache.
        scratch: The run folder, where workers leave warnings.
        outputs: Files and folders that the run writes, beside these two.
    """
    early = config.stash.get(_EARLY, ["this plugin, by a conftest.py,"])
    if early:
        _warn(scratch, f"{', '.join(early)} was loaded before what the project reads could be noted")
        return None
    reads = config.stash[_READS]
    reads.outside += [folder, scratch, *outputs]
    if config.pluginmanager.has_plugin("cacheprovider"):
        reads.outside.append(config.rootpath / config.getini("cache_dir"))
    return Cache(folder, reads, partial(session_facts, config), partial(_warn, scratch), partial(_say, config))


def warning(scratch: Path) -> str:
    """Return the warning that results are not kept, from this process or a worker; empty where they are."""
    with suppress(OSError):
        return (scratch / _WARNING).read_text(encoding="utf-8")
    return ""


def _warn(scratch: Path, reason: str) -> None:
    with suppress(OSError):
        scratch.mkdir(exist_ok=True)
        with (scratch / _WARNING).open("x", encoding="utf-8") as file:
            file.write(f"warning: results are not kept for later runs: {reason}")


def _say(config: pytest.Config, text: str) -> None:
    """Show the user a message at once, also while output is captured."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        print(f"\nhierexport: {text}", file=sys.stderr, flush=True)  # noqa: T201  # a worker has no terminal reporter
