from __future__ import annotations

from pathlib import Path

from pages import follow, in_process

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_first_screen_prints_what_it_says(tmp_path: Path) -> None:
    # An empty folder: no configuration, no test file.
    assert follow(README, tmp_path, in_process) >= 5
