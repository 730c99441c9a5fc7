"""Names the files of snapshots; needs no syrupy."""

from __future__ import annotations

from pathlib import Path

from pytest_hierexport._pytest.ids import file_name

__all__ = ["FOLDER", "snapshot_file", "snapshot_folder"]

FOLDER = "__hierexport__"


def snapshot_file(anchor: Path, name: str) -> Path:
    """Return the snapshot of the model of that name with that anchor."""
    return snapshot_folder(anchor) / f"{file_name(name)}.txt"


def snapshot_folder(anchor: Path) -> Path:
    """Return the folder of the snapshots of an anchor's models."""
    return (anchor if anchor.is_dir() else anchor.parent) / FOLDER
