"""The folder of results: damage, two sessions, a folder that cannot be written."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_hierexport._pytest.cache import Cache
from pytest_hierexport._pytest.reads import Reads

VALUE = {"nodes": 3, "notes": ["one"]}
CONTENT = b"a tagged file"
Damage = Callable[[Path], object]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    yield from caches(tmp_path)


def caches(home: Path, warn: Callable[[str], None] = print) -> Iterator[Cache]:
    reads = Reads([home])
    reads.start()
    yield Cache(home / "cache", reads, warn=warn)
    reads.stop()


def keep(cache: Cache) -> Path:
    file = cache.folder.parent / "model.onnx"
    file.write_bytes(CONTENT)
    return cache.folder / cache.keep("question", "about", VALUE, [file])


def find(cache: Cache, about: str = "about") -> object:
    kept = cache.find("question", about, cache.folder.parent / "found")
    return None if kept is None else kept.value


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def pipe_instead(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


OF_A_FILE: dict[str, Damage] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b" "),
    "flipped": flipped,
    "foreign": lambda path: path.write_bytes(b'{"entry": {}, "error": {"kind": "KeyError"}}'),
    "folder": folder_instead,
    "dangling link": dangling_link,
    "pipe": pipe_instead,
}
OF_A_RECORD: dict[str, Damage] = {
    "list": lambda path: path.write_text("[]"),
    "number": lambda path: path.write_text("1"),
    "null": lambda path: path.write_text("null"),
    "no keys": lambda path: path.write_text("{}"),
    "deep": lambda path: path.write_text("[" * 100_000 + "]" * 100_000),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


def of_file(name: str, damage: Damage) -> Damage:
    return lambda result: damage(result / name)


def file_instead(result: Path) -> None:
    for path in result.iterdir():
        path.unlink()
    result.rmdir()
    result.write_text("a file")


def link_instead(result: Path) -> None:
    file_instead(result)
    dangling_link(result)


def emptied(result: Path) -> None:
    for path in result.iterdir():
        path.unlink()


DAMAGES: dict[str, Damage] = {
    **{f"record {name}": of_file("record.json", damage) for name, damage in {**OF_A_FILE, **OF_A_RECORD}.items()},
    **{f"model {name}": of_file("model.onnx", damage) for name, damage in OF_A_FILE.items()},
    "result is a file": file_instead,
    "result is a dangling link": link_instead,
    "result is empty": emptied,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_result_is_a_miss_and_is_replaced(cache: Cache, damage: Damage) -> None:
    result = keep(cache)
    assert find(cache) == VALUE
    damage(result)
    assert find(cache) is None
    assert not os.path.lexists(result)
    assert keep(cache) == result
    assert find(cache) == VALUE


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_keeping_replaces_a_damaged_result_of_the_same_name(cache: Cache, damage: Damage) -> None:
    damage(keep(cache))
    keep(cache)
    assert find(cache) == VALUE
    assert (cache.folder.parent / "found" / "model.onnx").read_bytes() == CONTENT


def test_a_result_about_something_else_is_a_miss(cache: Cache) -> None:
    keep(cache)
    assert find(cache, "another") is None
    assert find(cache) == VALUE


def test_a_damaged_result_that_cannot_be_removed_is_a_miss(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    flipped(keep(cache) / "record.json")
    monkeypatch.setattr("shutil.rmtree", refuse)
    assert find(cache) is None


def refuse(*_: object, **__: object) -> None:
    raise OSError(30, "Read-only file system")


def test_a_cache_that_cannot_be_written_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    for cache in caches(tmp_path, warn=warnings.append):
        monkeypatch.setattr(tempfile, "mkdtemp", refuse)
        for _ in range(2):
            assert keep(cache) == cache.folder
        assert find(cache) is None
    assert warnings == [f"the cache {tmp_path / 'cache'} cannot be written (Read-only file system)"]


def test_without_room_for_a_lock_a_session_works_for_itself(cache: Cache) -> None:
    cache.folder.write_text("a file stands here")
    with cache.alone("question", "export any"):
        pass


def test_old_results_of_a_question_make_room_for_new_ones(cache: Cache) -> None:
    names = [cache.keep("question", str(i), VALUE) for i in range(9)]
    left = {path.name for path in cache.folder.iterdir()} - {".gitignore"}
    assert len(left) == 4
    assert left < set(names)
    assert names[-1] in left


def test_a_result_holds_while_another_session_replaces_it(cache: Cache) -> None:
    keep(cache)
    kept = cache.find("question", "about", cache.folder.parent / "found")
    for i in range(9):
        cache.keep("question", str(i), VALUE)
    assert kept is not None
    assert (cache.folder.parent / "found" / "model.onnx").read_bytes() == CONTENT


def test_a_session_that_waits_says_for_whom(tmp_path: Path) -> None:
    said: list[str] = []
    waits, done = threading.Event(), threading.Event()
    first = Cache(tmp_path / "cache", Reads())

    def say(text: str) -> None:
        said.append(text)
        waits.set()

    second = Cache(tmp_path / "cache", Reads(), say=say)
    first._start = second._start = "0" * 16

    def wait() -> None:
        with second.alone("question", "export bert"):
            done.set()

    thread = threading.Thread(target=wait)
    with first.alone("question", "export bert"):
        thread.start()
        assert waits.wait(60)
        assert not done.is_set()
    thread.join(60)
    assert done.is_set()
    assert said == [f"waiting for another session, process {os.getpid()} in {Path.cwd()}, to export bert"]


def test_a_result_that_another_program_took_part_in_is_not_kept(tmp_path: Path) -> None:
    warnings: list[str] = []
    for cache in caches(tmp_path, warn=warnings.append):
        with cache.computing():
            os.system("true")  # noqa: S605
        keep(cache)
        assert find(cache) is None
    assert len(warnings) == 1
