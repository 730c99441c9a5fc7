"""What identifies a session: a change of this package ends every cached result."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytest_hierexport
from pytest_hierexport._files.paths import PACKAGE
from pytest_hierexport._pytest import session_cache


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inner").mkdir()
    for name in ("__init__.py", "outer.py", "inner/__init__.py", "inner/deep.py"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(session_cache, "PACKAGE", tmp_path)
    return tmp_path


def identified(config: pytest.Config) -> object:
    return session_cache.session_facts(config)["package"]


@pytest.mark.parametrize("name", ["outer.py", "inner/deep.py"])
def test_any_file_of_this_package_counts(package: Path, name: str, pytestconfig: pytest.Config) -> None:
    before = identified(pytestconfig)
    assert identified(pytestconfig) == before
    (package / name).write_text("CHANGED = True")
    assert identified(pytestconfig) != before


def test_this_package_is_the_whole_of_it() -> None:
    assert Path(pytest_hierexport.__file__).parent == PACKAGE
    assert {"_export", "_carry", "_proof"} <= {path.name for path in PACKAGE.iterdir()}
