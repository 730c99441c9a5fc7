"""Removing the snapshots of models that are no longer selected, and only when it is sure that they are not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport.cases.selectors import EVERYTHING, is_manifest
from pytest_hierexport.files import absolute
from pytest_hierexport.report.results import SNAPSHOT, Results, Verdict

if TYPE_CHECKING:
    from pytest_hierexport.suite.run import Run
    from pytest_hierexport.suite.settings import Settings

__all__ = ["is_complete", "remove_stale"]


def is_complete(run: Run, results: Results) -> bool:
    """Whether this run updated the snapshots of all models there are: none filtered, deselected, sharded or failed."""
    option = run.config.getoption
    updates = option("update_snapshots", default=False)
    protected = option("no_cleanup", default=False) or option("disable_unused_snapshots", default=False)
    filtered = option("keyword") or option("markexpr") not in {"", "hierexport"} or option("lf", default=False)
    ids = any("::" in argument for argument in option("file_or_dir") or ())
    written = all(model.verdict(SNAPSHOT) is Verdict.PASSED for model in results.models)
    passed = written and not results.failures()
    return bool(updates and passed and not (protected or filtered or ids) and _is_whole(run.settings))


def _is_whole(settings: Settings) -> bool:
    """Whether the selectors state all of the project's models: those of the ini, or a manifest that stands alone."""
    if not settings.from_option:
        return True
    if settings.stated:
        return set(settings.stated) <= set(settings.selectors)
    if not all(selector == EVERYTHING or is_manifest(selector) for selector in settings.selectors):
        return False
    manifests = {absolute(settings.base / selector) for selector in settings.selectors if is_manifest(selector)}
    beside = {file for manifest in manifests for file in manifest.parent.glob("*.toml") if _states_models(file)}
    return beside <= manifests


def _states_models(file: Path) -> bool:
    return bool(re.search(r"^\s*\[models\b", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE))


def remove_stale(run: Run) -> list[str]:
    """Remove the snapshots beside each anchor that belong to no selected model; return their names."""
    from pytest_hierexport.snapshot.extension import snapshot_file

    live = {snapshot_file(run.anchor(case), case.name) for case in run.cases}
    stale = [file for folder in {file.parent for file in live} for file in folder.glob("*.txt") if file not in live]
    for file in stale:
        file.unlink()
    return sorted(file.stem for file in stale)
