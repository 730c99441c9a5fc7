"""`hierexport cache`: what it shows, what it finds damaged, and what it removes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from pytest_hierexport._cache.cache import Cache
from pytest_hierexport._cache.reads import Reads
from pytest_hierexport._cache.upkeep import damages
from pytest_hierexport._files.atomic import staging
from pytest_hierexport.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a cache with two results of `bert` and one of `vit`."""
    cache = Cache(tmp_path / "cache", Reads([tmp_path]))
    cache._start = "0" * 16
    model = tmp_path / "model.onnx"
    model.write_bytes(bytes(5000))
    cache.keep("export bert", "", {"nodes": 3}, [model], "bert")
    cache.keep("rule on bert", "", {"violations": []}, model="bert")
    cache.keep("export vit", "", {"nodes": 4}, [model], "vit")
    with cache.alone("export vit", "export it"):
        pass
    return cache.folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert main(["cache", *map(str, arguments)]) == code
    return capsys.readouterr().out


def results(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def test_info_counts_results_and_bytes_by_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.utime(results(folder)[1], (0, 86400 * 365))
    lines = run(capsys, "info", folder).splitlines()
    sizes = {path: sum(file.stat().st_size for file in path.iterdir()) for path in results(folder)}
    assert lines[0] == f"results: 3, {sum(sizes.values()) / 1000:.3g} KB"
    assert lines[1].startswith("least recently used: 1971-01-01")
    assert [line.partition(",")[0] for line in lines[2:]] == ["  bert: 2", "  vit: 1"]


def test_verify_names_damaged_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "verify", folder) == "damaged files: 0\n"
    first, second, third = results(folder)
    with_model = [path for path in (first, second, third) if (path / "model.onnx").exists()]
    (with_model[0] / "model.onnx").write_bytes(bytes(4999))
    (with_model[1] / "record.json").write_text("{}")
    lines = run(capsys, "verify", folder, code=1).splitlines()
    assert sorted(lines) == sorted(
        [
            f"damaged: {with_model[0].name}/model.onnx",
            f"damaged: {with_model[1].name}/record.json",
            "damaged files: 2",
        ]
    )
    assert len(results(folder)) == 3


def test_verify_passes_results_that_a_session_removes(folder: Path) -> None:
    for result in results(folder):
        (result / "record.json").write_text("{}")
    found = damages(folder)
    assert next(found).endswith("/record.json")
    for result in results(folder):
        shutil.rmtree(result)
    assert list(found) == []


def test_clear_removes_what_the_cache_wrote(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(folder.glob("*.lock"))
    assert run(capsys, "clear", folder) == "removed results: 3\n"
    assert not folder.exists()


def test_clear_leaves_what_others_wrote(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "record.json").write_text("mine")
    (folder / f"{'0' * 16}-{'0' * 16}-{'0' * 64}").symlink_to(elsewhere)
    own = [folder / name for name in ("notes.txt", "other.lock", "model/model.onnx", f"{'0' * 16}.lock")]
    for file in own:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine")
    assert run(capsys, "clear", folder) == "removed results: 4\n"
    assert all(file.read_text() == "mine" for file in (*own, elsewhere / "record.json"))
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [".gitignore", "notes.txt", "other.lock", "model", f"{'0' * 16}.lock"]
    )


def test_clear_leaves_the_lock_of_a_session(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lock,) = folder.glob("*.lock")
    with FileLock(lock):
        run(capsys, "clear", folder)
        assert lock.exists()


def test_clear_leaves_a_result_that_a_session_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with staging(folder) as stage:
        run(capsys, "clear", folder)
        assert stage.folder.is_dir()


@pytest.mark.parametrize("action", ["info", "verify", "clear"])
def test_a_folder_that_is_missing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str) -> None:
    assert main(["cache", action, str(tmp_path / "none")]) == 4
    error = capsys.readouterr().err
    assert "expected the folder of a cache; found no folder" in error
    assert "what a run took from a URL is in .hierexport/cache" in error


def test_an_empty_folder_is_an_empty_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "info", tmp_path) == "results: 0, 0 B\n"
    assert run(capsys, "verify", tmp_path) == "damaged files: 0\n"


def test_clear_leaves_a_gitignore_of_the_user(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".gitignore").write_text("/build\n", encoding="utf-8")
    assert run(capsys, "clear", folder) == "removed results: 3\n"
    assert [path.name for path in folder.iterdir()] == [".gitignore"]


@pytest.mark.parametrize("action", ["info", "verify", "clear"])
@pytest.mark.parametrize("name", ["config.json", ".gitignore"])
def test_a_folder_of_other_files_is_refused(
    action: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text("{}", encoding="utf-8")
    assert main(["cache", action, str(tmp_path)]) == 4
    assert f"expected the folder of a cache; found {tmp_path}, which holds no result" in capsys.readouterr().err
    assert (tmp_path / name).exists()
