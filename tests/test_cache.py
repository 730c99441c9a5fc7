"""The folder of results: damage, two sessions, a folder that cannot be written."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from pytest_hierexport._cache.cache import SIZE, Cache
from pytest_hierexport._cache.reads import Reads
from pytest_hierexport._cache.upkeep import parse_size
from pytest_hierexport._errors import UsageError

VALUE = {"nodes": 3, "notes": ["one"]}
CONTENTS = {"model.onnx": b"a tagged file", "model.hierarchy.json": b'{"calls": {"": [null, "Tower"]}}'}
Damage = Callable[[Path], object]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    yield from caches(tmp_path)


def caches(
    home: Path, warn: Callable[[str], None] = print, unkept: Callable[[str], None] = print, bound: int = SIZE
) -> Iterator[Cache]:
    reads = Reads([home])
    reads.start()
    yield Cache(home / "cache", reads, warn=warn, unkept=unkept, bound=bound)
    reads.stop()


def keep(cache: Cache) -> Path:
    """Keep an export: a record and two files."""
    files = [cache.folder.parent / name for name in CONTENTS]
    for file in files:
        file.write_bytes(CONTENTS[file.name])
    return cache.folder / cache.keep("question", "about", VALUE, files)


def keep_verdict(cache: Cache) -> Path:
    """Keep a result without files."""
    return cache.folder / cache.keep("question", "about", VALUE)


def find(cache: Cache, about: str = "about") -> object:
    into = cache.folder.parent / "found"
    kept = cache.find("question", about, into)
    if kept is None:
        return None
    assert {name: (into / name).read_bytes() for name in kept.files} == {name: CONTENTS[name] for name in kept.files}
    return kept.value


def cleared(path: Path) -> Path:
    """Remove what has this path."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return path


def elsewhere(path: Path) -> Path:
    """Return a folder of the user."""
    folder = path.parent.parent / "of the user"
    folder.mkdir(exist_ok=True)
    (folder / "record.json").write_text("mine")
    return folder


def flip(path: Path, position: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(position * (len(content) - 1))] ^= 1
    path.write_bytes(content)


def text(content: str) -> Damage:
    return lambda path: path.write_text(content)


OF_A_PATH: dict[str, Damage] = {
    "missing": cleared,
    "a folder": lambda path: cleared(path).mkdir(),
    "a dangling link": lambda path: cleared(path).symlink_to("nowhere"),
    "a link to itself": lambda path: cleared(path).symlink_to(path.name),
    "a link to a folder": lambda path: cleared(path).symlink_to(elsewhere(path)),
    "a pipe": lambda path: os.mkfifo(cleared(path)),
}
OF_A_FILE: dict[str, Damage] = {
    **OF_A_PATH,
    "empty": lambda path: path.write_bytes(b""),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b" "),
    "flipped at its first byte": lambda path: flip(path, 0),
    "flipped at a middle byte": lambda path: flip(path, 0.5),
    "flipped at its last byte": lambda path: flip(path, 1),
    "foreign": lambda path: path.write_bytes(b"\x08\x0a\x12\x07pytorch"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "a list": text("[]"),
    "a number": text("1"),
    "a string": text('"any"'),
    "null": text("null"),
    "no keys": text("{}"),
    "other keys": text('{"entry": {}, "other": 1}'),
    "deeply nested": text("[" * 10_000 + "]" * 10_000),
    "an error of another": text('{"run": "", "error": {"kind": "KeyError", "expected": 1}}'),
    "a verdict of another": text('{"about": "about", "value": {"violations": []}, "files": {}, "inputs": {}}'),
    "of another digest": lambda path: path.write_bytes(path.read_bytes().replace(b"a", b"b")),
}
OF_A_RESULT: dict[str, Damage] = {
    **OF_A_PATH,
    "a file": lambda path: cleared(path).write_text("a file"),
    "named by another digest": lambda path: path.rename(path.with_name(path.name[:-64] + "0" * 64)),
}
FILES = ("record.json", *CONTENTS)


def of_file(name: str, damage: Damage) -> Damage:
    return lambda result: damage(result / name)


DAMAGES: dict[str, Damage] = {
    **{f"{name} is {kind}": of_file(name, damage) for name in FILES for kind, damage in OF_A_FILE.items()},
    **{f"the result is {kind}": damage for kind, damage in OF_A_RESULT.items()},
}
OF_A_VERDICT = {name: damage for name, damage in DAMAGES.items() if not name.startswith(tuple(CONTENTS))}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_export_is_a_miss_and_is_replaced(cache: Cache, damage: Damage) -> None:
    assert_a_miss_that_is_replaced(cache, keep, damage)


@pytest.mark.parametrize("damage", OF_A_VERDICT.values(), ids=OF_A_VERDICT)
def test_a_damaged_verdict_is_a_miss_and_is_replaced(cache: Cache, damage: Damage) -> None:
    assert_a_miss_that_is_replaced(cache, keep_verdict, damage)


def assert_a_miss_that_is_replaced(cache: Cache, keep: Callable[[Cache], Path], damage: Damage) -> None:
    result = keep(cache)
    assert find(cache) == VALUE
    damage(result)
    assert find(cache) is None
    assert not os.path.lexists(result)
    assert keep(cache) == result
    assert find(cache) == VALUE
    assert_the_user_s_file_is_there(cache)


def assert_the_user_s_file_is_there(cache: Cache) -> None:
    folder = cache.folder / "of the user"
    assert not folder.exists() or (folder / "record.json").read_text() == "mine"


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_keeping_replaces_a_damaged_result_of_the_same_name(cache: Cache, damage: Damage) -> None:
    damage(keep(cache))
    keep(cache)
    assert find(cache) == VALUE
    assert_the_user_s_file_is_there(cache)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_irreplaceable_damage_is_a_miss_and_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage
) -> None:
    warnings: list[str] = []
    for cache in caches(tmp_path, warn=warnings.append):
        damage(keep(cache))
        make_read_only(monkeypatch, cache.folder)
        for _ in range(2):
            assert find(cache) is None
            assert keep(cache) == cache.folder
    assert warnings == [f"the cache {tmp_path / 'cache'} cannot be written (Read-only file system)"]


def make_read_only(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Refuse what changes a folder: root may write where the mode forbids it."""

    def refusing(change: Callable[..., object]) -> Callable[..., object]:
        def refuse(path: str, *args: object, **options: object) -> object:
            if "dir_fd" in options or Path(path).is_relative_to(folder):
                raise OSError(errno.EROFS, "Read-only file system", str(path))
            return change(path, *args, **options)

        return refuse

    for name in ("unlink", "rmdir", "mkdir", "rename"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))


def test_a_result_about_something_else_is_a_miss(cache: Cache) -> None:
    keep(cache)
    assert find(cache, "another") is None
    assert find(cache) == VALUE


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


def test_sessions_of_many_environments_keep_their_results(tmp_path: Path) -> None:
    caches = [Cache(tmp_path, Reads([tmp_path]), facts=partial(str, version)) for version in range(9)]
    for cache in caches:
        cache.keep("question", "about", VALUE)
    assert [cache for cache in caches if cache.find("question", "about") is None] == []


def test_a_result_holds_while_another_session_replaces_it(cache: Cache) -> None:
    keep(cache)
    kept = cache.find("question", "about", cache.folder.parent / "found")
    for i in range(9):
        cache.keep("question", str(i), VALUE)
    assert kept is not None
    assert (cache.folder.parent / "found" / "model.onnx").read_bytes() == CONTENTS["model.onnx"]


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


def test_only_the_model_that_started_a_program_is_not_kept(tmp_path: Path) -> None:
    told: list[str] = []
    for cache in caches(tmp_path, unkept=told.append):
        with cache.computing("starts one"):
            os.system("true")  # noqa: S605
        with cache.computing("other"):
            pass
        assert not cache.keep("first", "about", VALUE, reads_of="starts one")
        assert cache.keep("second", "about", VALUE, reads_of="other")
        with cache.computing("starts one"):
            pass
        assert not cache.keep("third", "about", VALUE, reads_of="starts one")
    assert told == ["starts one"]


def of_size(cache: Cache, question: str, size: int) -> Path:
    """Keep a result with a file of so many bytes, used before those that come after it."""
    file = cache.folder.parent / "model.onnx"
    file.write_bytes(bytes(size))
    path = cache.folder / cache.keep(question, "about", VALUE, [file])
    os.utime(path, (0, len(list(cache.folder.iterdir()))))
    return path


def test_least_recently_used_results_make_room(tmp_path: Path) -> None:
    for cache in caches(tmp_path, bound=250_000):
        first, second = (of_size(cache, question, 100_000) for question in ("first", "second"))
        assert cache.find("first", "about") is not None
        third = of_size(cache, "third", 100_000)
        assert [path.exists() for path in (first, second, third)] == [True, False, True]


def test_result_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    for cache in caches(tmp_path, bound=250_000):
        small = of_size(cache, "small", 10_000)
        (tmp_path / "model.onnx").write_bytes(bytes(250_000))
        assert not cache.keep("large", "about", VALUE, [tmp_path / "model.onnx"])
        assert small.exists()


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2_000_000_000), ("1.5 kb", 1500), ("7", 7), ("1GiB", 1 << 30), ("500m", 500_000_000)]
)
def test_a_size_is_a_number_with_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", "2 XB", "1e9", "9" * 400])
def test_a_text_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a size"):
        parse_size(text)


def test_sessions_that_keep_one_result_at_once_both_do(cache: Cache) -> None:
    keep(cache)
    shutil.rmtree(cache.folder)
    files = [cache.folder.parent / name for name in CONTENTS]
    names: list[str] = []
    keeping = [lambda: names.append(cache.keep("question", "about", VALUE, files))] * 8
    threads = [threading.Thread(target=each) for each in keeping]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 8
    assert len(set(names)) == 1
    assert find(cache) == VALUE


def test_an_unreadable_form_of_a_whole_record_is_a_miss(cache: Cache) -> None:
    for number, record in enumerate((b"[]", b"1", b"{}", b'{"inputs": 1}', b"[" * 10_000)):
        name = f"{cache._name('question')}-{hashlib.sha256(record).hexdigest()}"
        (cache.folder / name).mkdir(parents=True)
        (cache.folder / name / "record.json").write_bytes(record)
        assert find(cache) is None, number
        assert not (cache.folder / name).exists()
