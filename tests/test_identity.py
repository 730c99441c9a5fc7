"""The identity of a cached export changes with the code that makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pytest_hierexport
from pytest_hierexport._cases import Case
from pytest_hierexport._pytest import identity


def key(exporter: str = "auto") -> str:
    identity._package_digest.cache_clear()
    identity._own_exporter_digest.cache_clear()
    return identity.export_identity(Case("any", lambda: None, "tests", exporter=exporter))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    for name in ("__init__.py", "outer.py", "inner/__init__.py", "inner/deep.py"):
        (folder / name).write_text("")
    return folder


def test_any_file_of_this_package_counts(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = key()
    monkeypatch.setattr(identity, "_PACKAGE", package / "__init__.py")
    keys = [ours, key()]
    for name in ("outer.py", "inner/deep.py"):
        (package / name).write_text("CHANGED = True")
        keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key() == keys[-1]


def test_this_package_is_the_whole_of_it() -> None:
    assert Path(pytest_hierexport.__file__) == identity._PACKAGE
    assert {"_export", "_carry", "_proof"} <= {path.name for path in identity._PACKAGE.parent.iterdir()}


def test_any_file_of_an_own_exporter_s_package_counts(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package.parent))
    (package.parent / "alone.py").write_text("")
    keys = [key(), key("package.outer:export"), key("alone:export")]
    (package / "inner" / "deep.py").write_text("CHANGED = True")
    (package.parent / "alone.py").write_text("CHANGED = True")
    keys += [key("package.outer:export"), key("alone:export")]
    assert len(set(keys)) == len(keys)
