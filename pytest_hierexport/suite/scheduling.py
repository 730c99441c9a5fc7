"""The models' tests on xdist's workers: a model's on one, every other test wherever there is room."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

__all__ = ["ByModel"]


class ByModel(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Groups by model; the export of a model is made, and its graph loaded, once."""

    def _split_scope(self, nodeid: str) -> str:
        scope, _, test = nodeid.rpartition("::")
        return scope if test.startswith("test_must[") or test == "test_snapshot" else nodeid
