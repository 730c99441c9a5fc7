"""Snapshots of models that are no longer selected: named where it is sure that they are not, removed by an update."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport.cases.selectors import EVERYTHING, is_manifest
from pytest_hierexport.files import absolute
from pytest_hierexport.report.results import SNAPSHOT, Results, Verdict

if TYPE_CHECKING:
    import pytest

    from pytest_hierexport.suite.run import Run
    from pytest_hierexport.suite.settings import Settings

__all__ = ["find_orphans", "removes_orphans"]


def find_orphans(run: Run, results: Results) -> list[Path]:
    """Return the snapshots beside each anchor that belong to no model of the project.

    Empty unless the run is complete: only then is a model that it does not know gone.
    """
    from pytest_hierexport.snapshot.extension import snapshot_file

    if run.config.getoption("disable_unused_snapshots", default=False) or not _is_complete(run, results):
        return []
    live = {snapshot_file(run.anchor(case), case.name) for case in run.cases}
    folders = {file.parent for file in live}
    return sorted(file for folder in folders for file in folder.glob("*.txt") if file not in live)


def removes_orphans(config: pytest.Config, results: Results) -> bool:
    """Whether a complete run removes them: it updates snapshots, and nothing failed."""
    updates = config.getoption("update_snapshots", default=False) and not config.getoption("no_cleanup", default=False)
    return bool(updates and not results.failures())


def _is_complete(run: Run, results: Results) -> bool:
    """Whether this run held all models there are to their snapshots: none filtered, deselected or sharded."""
    option = run.config.getoption
    filtered = option("keyword") or option("markexpr") not in {"", "hierexport"} or option("lf", default=False)
    ids = any("::" in argument for argument in option("file_or_dir") or ())
    held = all(model.verdict(SNAPSHOT) in _HELD for model in results.models)
    return held and not (filtered or ids) and _is_whole(run.settings) and not _other_configurations(run)


_HELD = frozenset({Verdict.PASSED, Verdict.FAILED})


def _is_whole(settings: Settings) -> bool:
    """Whether the selectors state all of the project's models: those of the ini, or a manifest that stands alone."""
    if not settings.from_option:
        return True
    if settings.stated:
        return set(settings.stated) <= set(settings.selectors)
    if not all(selector == EVERYTHING or is_manifest(selector) for selector in settings.selectors):
        return False
    manifests = {absolute(settings.base / selector) for selector in settings.selectors if is_manifest(selector)}
    folders = {manifest.parent for manifest in manifests}
    return set(_files_stating(_MODELS_TABLE, folders, ("*.toml",))) <= manifests


def _other_configurations(run: Run) -> list[Path]:
    """Return the configuration files beside the run's own that state models too: theirs are no orphans."""
    own = run.config.inipath
    folders = {anchor if anchor.is_dir() else anchor.parent for anchor in run.anchors}
    folders |= {own.parent} if own else set()
    return [file for file in _files_stating(_MODELS_OPTION, folders, _CONFIGURATIONS) if file != own]


_MODELS_TABLE = re.compile(r"^\s*\[models\b", re.MULTILINE)
_MODELS_OPTION = re.compile(r"^\s*hierexport_models\b", re.MULTILINE)
_CONFIGURATIONS = ("*.toml", "*.ini", "*.cfg")


def _files_stating(what: re.Pattern[str], folders: set[Path], patterns: Sequence[str]) -> list[Path]:
    files = (file for folder in folders for pattern in patterns for file in folder.glob(pattern))
    return [file for file in files if file.is_file() and what.search(file.read_text("utf-8", errors="replace"))]
