"""Whether a run saw all that it selects: only then is a snapshot that it does not know one of a model that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_hierexport.report.results import SNAPSHOT, Results, Verdict

if TYPE_CHECKING:
    from pytest_hierexport.suite.run import Run

__all__ = ["is_complete"]


def is_complete(run: Run, results: Results) -> bool:
    """Whether this run updated the snapshots of all that it selects: none filtered, deselected, sharded or failed."""
    option = run.config.getoption
    updates = option("update_snapshots", default=False)
    protected = option("no_cleanup", default=False) or option("disable_unused_snapshots", default=False)
    filtered = option("keyword") or option("markexpr") not in {"", "hierexport"} or option("lf", default=False)
    ids = any("::" in argument for argument in option("file_or_dir") or ())
    written = all(model.verdict(SNAPSHOT) is Verdict.PASSED for model in results.models)
    passed = written and not results.failures()
    return bool(updates and passed and not (protected or filtered or ids))
