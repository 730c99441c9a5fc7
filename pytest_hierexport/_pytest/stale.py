"""Whether a run checked the snapshots of all models that it selects: only then is a snapshot without a model stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_hierexport._report.results import SNAPSHOT, Results, Verdict

if TYPE_CHECKING:
    from pytest_hierexport._pytest.run import Run

__all__ = ["is_complete", "removes_orphans"]

_CHECKED = frozenset({Verdict.PASSED, Verdict.FAILED})


def is_complete(run: Run, results: Results) -> bool:
    """Whether the snapshot of every selected model was checked: none filtered, deselected or skipped."""
    option = run.config.getoption
    filtered = option("keyword") or option("markexpr") not in {"", "hierexport"} or option("lf", default=False)
    ids = any("::" in argument for argument in option("file_or_dir") or ())
    unused = not option("disable_unused_snapshots", default=False)
    checked = all(model.verdict(SNAPSHOT) in _CHECKED for model in results.models)
    return bool(checked and unused and not (filtered or ids))


def removes_orphans(run: Run, results: Results) -> bool:
    """Whether a complete run removes the snapshots of models that are gone: it updates them, and nothing failed."""
    option = run.config.getoption
    updates = option("update_snapshots", default=False) and not option("no_cleanup", default=False)
    return bool(updates and not results.failures())
