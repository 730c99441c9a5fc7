from __future__ import annotations

from pathlib import Path

import pytest

from pytest_hierexport.files import digest, write_atomically


def test_a_file_that_is_not_there_has_an_empty_digest(tmp_path: Path) -> None:
    assert digest(tmp_path / "absent") == ""


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record"
    write_atomically(path, "old")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
