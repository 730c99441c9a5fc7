from __future__ import annotations

from pathlib import Path

from pytest_hierexport._files.paths import digest


def test_a_file_that_is_not_there_has_an_empty_digest(tmp_path: Path) -> None:
    assert digest(tmp_path / "absent") == ""
