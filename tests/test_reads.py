"""What counts as read by this process."""

from __future__ import annotations

import ctypes.util
import importlib
import os
import pickle
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_hierexport._cache import reads as reads_module
from pytest_hierexport._cache.inputs import Inputs
from pytest_hierexport._cache.reads import Reads
from pytest_hierexport._files.unrecorded import unrecorded

IN_MEMORY = Path("/dev/shm")  # noqa: S108


@pytest.fixture
def reads(tmp_path: Path) -> Iterator[Reads]:
    (tmp_path / "outside").mkdir()
    for name in ("read.txt", "outside/own.txt"):
        (tmp_path / name).write_text("")
    reads = Reads([tmp_path / "outside"])
    reads.start()
    yield reads
    reads.stop()


def files(reads: Reads) -> set[Path]:
    inputs = reads.inputs()
    assert inputs is not None
    return set(map(Path, inputs.files))


def test_read_files_are_recorded_and_written_files_are_not(reads: Reads, tmp_path: Path) -> None:
    (tmp_path / "read.txt").read_text()
    (tmp_path / "written.txt").write_text("")
    (tmp_path / "outside" / "own.txt").read_text()
    with unrecorded():
        (tmp_path / "written.txt").read_text()
    seen = files(reads)
    assert {tmp_path / "read.txt", Path(__file__)} <= seen
    assert not {tmp_path / "written.txt", tmp_path / "outside" / "own.txt", Path(pytest.__file__)} & seen


def test_a_file_in_an_impossible_folder_leaves_the_inputs(reads: Reads, tmp_path: Path) -> None:
    with suppress(OSError):
        (tmp_path / ("n" * 300) / "any.txt").read_text()
    assert tmp_path / "read.txt" not in files(reads)


def test_code_without_a_working_directory_is_not_disturbed(
    reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    # A file of an installed package asks.
    ask = compile("os.path.exists(path), os.path.exists('x')", str(Path(pytest.__file__).with_name("any.py")), "eval")
    assert eval(ask, {"os": os, "path": str(tmp_path)}) == (True, False)  # noqa: S307
    with pytest.raises(FileNotFoundError, match="x"):
        Path("x").read_text()
    monkeypatch.undo()
    assert files(reads)


def test_watched_functions_can_be_pickled(reads: Reads) -> None:
    assert files(reads)
    for function in (
        os.path.exists,
        os.path.lexists,
        os.path.isfile,
        os.path.isdir,
        Path.exists,
        importlib.import_module,
    ):
        assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301


def test_bytecode_stands_for_its_source(reads: Reads, tmp_path: Path) -> None:
    tag = sys.implementation.cache_tag
    for name in (f"any.{tag}.pyc", f"test_any.{tag}-pytest-9.2.0.pyc"):
        with pytest.raises(FileNotFoundError):
            (tmp_path / "__pycache__" / name).read_bytes()
    assert {tmp_path / "any.py", tmp_path / "test_any.py"} <= files(reads)


def test_temporary_files_do_not_count(reads: Reads) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "any.txt"
        file.write_text("")
        file.read_text()
        assert file not in files(reads)


@pytest.mark.skipif(not os.access(IN_MEMORY, os.W_OK), reason="no folder in memory")
def test_files_in_memory_count_and_devices_do_not(reads: Reads) -> None:
    with unrecorded(), tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        file = Path(folder, "any.txt")
        file.write_text("")
    with suppress(OSError):
        file.read_text()
    Path(os.devnull).read_text()
    assert file in files(reads)
    assert Path(os.devnull) not in files(reads)


def test_run_folders_and_their_locks_do_not_count(reads: Reads, tmp_path: Path) -> None:
    folder = tmp_path / f"hierexport-{'0' * 32}"
    folder.mkdir()
    own = [folder / "export.json", folder.with_suffix(".lock")]
    other = tmp_path / "hierexport-data.txt"
    for file in (*own, other):
        file.touch()
        file.read_text()
    seen = files(reads)
    assert other in seen
    assert not seen.intersection(own)


@pytest.mark.parametrize(
    ("lister", "counts"),
    [
        (Path(sysconfig.get_paths()["purelib"], "any", "_pytest", "any.py"), True),
        (Path(pytest.__file__).parents[1] / "_pytest" / "any.py", False),
        (Path(reads_module.__file__).with_name("any.py"), False),
    ],
    ids=["a package of the same name", "pytest", "this plugin"],
)
def test_a_listing_counts_unless_pytest_or_this_plugin_searches(
    reads: Reads, tmp_path: Path, lister: Path, *, counts: bool
) -> None:
    exec(compile("os.listdir(folder)", str(lister), "exec"), {"os": os, "folder": tmp_path})  # noqa: S102
    inputs = reads.inputs()
    assert inputs is not None
    assert (str(tmp_path) in inputs.listed) == counts


def test_file_changed_after_reading_leaves_no_inputs(reads: Reads, tmp_path: Path) -> None:
    (tmp_path / "read.txt").read_text()
    assert reads.inputs() is not None
    (tmp_path / "read.txt").write_text("changed")
    assert reads.inputs() is None


def test_a_listed_folder_holds_until_a_name_comes_or_goes(reads: Reads, tmp_path: Path) -> None:
    list(tmp_path.glob("*.txt"))
    inputs = reads.inputs()
    assert inputs is not None
    assert inputs.hold()
    (tmp_path / "new.txt").write_text("")
    assert not inputs.hold()


def test_files_hold_until_one_changes_or_goes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1")
    second.write_text("2")
    inputs = Inputs.of([first, second], [], [])
    assert inputs.hold()
    second.write_text("3")
    assert not inputs.hold()
    second.write_text("2")
    assert inputs.hold()
    first.unlink()
    assert not inputs.hold()


def test_a_version_depends_on_the_program_alone(reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with reads.logs.of("any"):
        subprocess.check_output(["tool", "--version"])
    assert not reads.logs.started_program("any")
    inputs = reads.inputs("any")
    assert inputs is not None
    assert str(tool) in inputs.files
    with reads.logs.of("any"):
        subprocess.check_output(["tool"])
    assert reads.logs.started_program("any")
    assert not reads.logs.started_program("other")


def test_a_library_of_the_system_is_no_program(reads: Reads) -> None:
    with reads.logs.of("any"):
        ctypes.util.find_library("c")
    assert not reads.logs.started_program("any")


def test_script_that_started_pytest_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(sysconfig.get_paths()["scripts"], "pytest")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    found = Reads().inputs()
    assert found is not None
    assert str(script) not in found.files
