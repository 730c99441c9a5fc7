"""MUST-008: a second process, under another hash seed, exports the same bytes.

One second process serves all cases that this one checks. `repeat_of` asks from here, `answer` runs there; both see the
files of both exports.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from pytest_hierexport._cases import Example
from pytest_hierexport._child import ChildEndedError, ChildProcess
from pytest_hierexport._errors import HierexportError, NoVerdictError, UsageError, disk_full, lack_of_room
from pytest_hierexport._files.paths import absolute, digest
from pytest_hierexport._files.temporary import keep_temporary_files_in, temporary_folder
from pytest_hierexport._onnx.difference import differences
from pytest_hierexport._onnx.sidecar import sidecar_path
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._proof.state import call_digests, state_digests
from pytest_hierexport._rules.base import ExportedCase, Violation, limited
from pytest_hierexport._rules.plain import plain_repeats

_SAME = "the same from a second process, under another hash seed"
_DO = "look for what depends on the order of a set, on hash() or id(), on the time, or on random numbers without a seed"


@dataclass(frozen=True)
class Repeat:
    """The second export of a case."""

    folder: Path
    """Holds its files."""
    changed: Sequence[str] = ()
    """The paths in the folder of the files that differ from those of the first export, or that one export lacks."""
    state: Mapping[str, str] = field(default_factory=dict)
    """The digest of each module, parameter, buffer and input of the model, in their order."""
    calls: Sequence[Sequence[str]] = ()
    """The name of each call of an eager run, with the digest of what it returned; empty where no file differs."""
    error: str = ""
    """The reason for missing files; empty where there are files."""


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    with repeat_of(exported) as repeat:
        if repeat.error:
            yield Violation(exported.path.name, f"an export, {_SAME}", repeat.error, _DO)
        if not repeat.changed:
            return
        state = state_digests(exported.example)
        if list(state.items()) != list(repeat.state.items()):
            for name, found in _other_parts(state, repeat.state):
                yield Violation(name, f"modules, weights and inputs, {_SAME}", found, f"in the factory, {_DO}")
            return
        _check_calls(call_digests(exported.example), repeat.calls)
        if exported.path.name in repeat.changed:
            _check_plain_export(exported)
        for name in repeat.changed:
            here, there = exported.path.parent / name, repeat.folder / name
            differences = list(_in_model(exported, there) if here == exported.path else _in_text(here, there))
            yield from differences or [Violation(name, f"bytes, {_SAME}", "others", _DO)]


def _other_parts(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what differs between the models of both processes, with how it does."""
    different = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    for name in different:
        yield name, "another one" if name in here and name in there else "there in one process alone"
    if not different:
        yield next(one for one, other in zip(here, there, strict=True) if one != other), "at another place"


def _check_calls(here: Sequence[Sequence[str]], there: Sequence[Sequence[str]]) -> None:
    """Raise an error for a model whose own code depends on the hash seed.

    transformers' modernbert and gemma3 call one module for each element of a set of strings: which call is the first
    depends on the seed, and so does the export by any exporter.
    """
    for (name, result), other in zip(here, there, strict=False):
        if [name, result] != list(other):
            place = f"call {name}" if name else "call of the model"
            raise NoVerdictError(
                "a model that computes the same under every hash seed",
                found=f"not run: under another hash seed the model itself computes other values, first in the {place}",
                do="set PYTHONHASHSEED to one number in CI: else its tags may change from run to run",
            )


def _check_plain_export(exported: ExportedCase) -> None:
    """Raise an error where the exporter beneath ours does not repeat its exports of the model either.

    What torch writes as a function with a loop carries its values in the order of a set (`nn.EmbeddingBag`).
    """
    if not plain_repeats(exported):
        raise NoVerdictError(
            "a plain exporter that gives the same graph in every process",
            found="not run: the plain exporter, too, gives another graph of this model in another process",
            do="sort the sets in the model's own code, and keep the time out of it; where the order is torch's own, as "
            "in nn.EmbeddingBag, set PYTHONHASHSEED to one number in CI: else nodes may change from run to run",
        )


def _in_model(exported: ExportedCase, there: Path) -> Iterator[Violation]:
    """Yield the differences of the ONNX files; nodes and initializers with the tag of their call."""
    for difference in differences(exported.proto, load_proto(there)) if there.exists() else ():
        attribution = exported.attribution
        origins = attribution.nodes.get(difference.name) or attribution.initializers.get(difference.name)
        of_call = f" of {attribution.hierarchy.tag(origins[0].call)}" if origins else ""
        yield Violation(f"{difference.where}{of_call}", f"{difference.expected}, {_SAME}", difference.found, _DO)


def _in_text(here: Path, there: Path) -> Iterator[Violation]:
    """Name the first line that differs, in what is text."""
    try:
        lines = [path.read_text(encoding="utf-8").splitlines() for path in (here, there)]
    except (OSError, UnicodeDecodeError):
        return
    for number, (one, other) in enumerate(zip(*lines, strict=False), 1):
        if one != other:
            yield Violation(f"{here.name}, line {number}", f"{one[:200]}, {_SAME}", other[:200], _DO)
            return


@contextmanager
def repeat_of(exported: ExportedCase) -> Iterator[Repeat]:
    """Give the second export of a case; its files are removed at the end.

    Raises:
        UsageError: No other process can make the model.
        DiskFullError: There was no room for the export.
    """
    with temporary_folder() as name:
        task, path = Path(name) / "task.pickle", Path(name) / "second" / exported.path.name
        task.write_bytes(_task(exported))
        try:
            answer = _second_process().ask(task=str(task), onnx=str(path), first=str(absolute(exported.path.parent)))
        except ChildEndedError as ended:
            answer = {"error": f"the process {ended}"}
        if "full" in answer:
            raise disk_full(answer["full"])
        if "unknown" in answer:
            raise _not_elsewhere(exported, answer["unknown"])
        yield Repeat(path.parent, **answer)


@cache
def _second_process() -> ChildProcess:
    """Return the process that makes the second exports for this one; it is started once."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    # The path goes first: the process must import this very package.
    ours = f"from {__name__} import answer; from pytest_hierexport._rules.peer import serve; serve(answer)"
    code = f"import sys; sys.path[:] = {list(map(str, sys.path))}; {ours}"
    # The last argument tells people, and the cache, that the process is ours.
    return ChildProcess("-c", code, __name__, PYTHONHASHSEED=seed)


def _task(exported: ExportedCase) -> bytes:
    """Pickle the case; where its factory cannot be pickled, the model and inputs themselves."""
    case, exporter = exported._as_exported
    # The example is finished: a second randomising or thinning would make another model of it.
    finished = replace(case, factory=partial(_given, exported.example), randomise=False, weights="full")
    for each in (case, finished):
        try:
            return pickle.dumps((torch.get_default_dtype(), each, exporter))
        except Exception as error:  # noqa: BLE001  # what cannot be pickled says so in many ways
            why = f"{type(error).__name__}: {error}"
    raise _not_elsewhere(exported, why)


def _given(example: Example) -> Example:
    return example


def _not_elsewhere(exported: ExportedCase, why: str) -> UsageError:
    return UsageError(
        f"{exported.case.name} to be a model that another process can make",
        found=why,
        do="select it by its factory (file.py::factory), or define its class where it can be imported",
    )


def answer(task: str, onnx: str, first: str) -> dict[str, Any]:
    """Export a case in the second process; return the fields of its :class:`Repeat`, or what prevents one.

    Args:
        task: A pickle of the default dtype, the case and its exporter.
        onnx: The ONNX file to write, in a new folder.
        first: The folder of the first export.
    """
    file = Path(onnx)
    keep_temporary_files_in(file.parent.parent)
    try:
        dtype, case, exporter = pickle.loads(Path(task).read_bytes())  # noqa: S301  # written by the process that asks
        # A conftest may have set it, which this process does not import.
        torch.set_default_dtype(dtype)
    except Exception as error:  # noqa: BLE001  # a pickle runs the project's code
        return {"unknown": f"{type(error).__name__}: {error}"}
    try:
        return _export(case, exporter, file, Path(first))
    except Exception as error:  # noqa: BLE001  # the next case is served all the same
        if (found := lack_of_room(error)) is not None:
            return {"full": found}
        return {"error": str(error) if isinstance(error, HierexportError) else f"{type(error).__name__}: {error}"}


def _export(case: Any, exporter: Any, path: Path, first: Path) -> dict[str, Any]:
    path.parent.mkdir()
    example = case.load()
    state = state_digests(example)
    exporter(case, example, path)
    # The first export's folder may hold other files: of these, only those of an export count.
    made = sorted(file for file in path.parent.rglob("*") if not file.is_dir())
    own = dict.fromkeys((path, path.with_name(f"{path.name}.data"), sidecar_path(path), *made))
    names = [file.relative_to(path.parent) for file in own]
    changed = [name.as_posix() for name in names if digest(path.parent / name) != digest(first / name)]
    return {"state": state, "changed": changed, "calls": call_digests(example) if changed else []}
