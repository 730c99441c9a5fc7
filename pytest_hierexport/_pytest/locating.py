"""Locates the modules that a snapshot's changes name: attribute path in the model, line of the class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pytest_hierexport._calls.hierarchy import Call
from pytest_hierexport._calls.names import is_torch_nn
from pytest_hierexport._cases import Case
from pytest_hierexport._cases.factories import file_of_spec, find_module
from pytest_hierexport._errors import HierexportError
from pytest_hierexport._files.unrecorded import unrecorded
from pytest_hierexport._pytest.run import Run
from pytest_hierexport._snapshot.diff import Difference
from pytest_hierexport._snapshot.lines import members

_MOST = 5


@unrecorded()
def places(run: Run, case: Case, difference: Difference) -> list[str]:
    """Return lines for the first changed modules, `layers.0: Layer, my_model.py line 19`, and a count of the others."""
    from pytest_hierexport._onnx.storage import read

    outcome = run.store.known_outcome(case)
    if outcome is None:
        return []
    try:
        hierarchy = read(outcome.path).hierarchy
    except HierexportError:
        return []
    found: dict[str, Call] = {}
    for tag in _tags(difference):
        try:
            call = hierarchy.resolve(tag)
        except KeyError:
            continue
        found[call.path] = call
    shown = [_place(run, case, call) for call in islice(found.values(), _MOST)]
    return [*shown, *([f"… and {len(found) - _MOST} more"] if len(found) > _MOST else [])]


def _tags(difference: Difference) -> Iterator[str]:
    """Yield the tag of each module that has changed, or of the first one of a renamed class; of a run the first."""
    renamed = [rename.tags[0] for rename in difference.renames]
    changed = [change.tag for change in difference.changes if change.after is not None]
    yield from (next(members(tag)) for tag in (*renamed, *changed))


def _place(run: Run, case: Case, call: Call) -> str:
    shown = f"{call.path or 'the model itself'}: {call.class_name}"
    # A factory composed a Sequential: no line of torch tells what changed.
    source = "" if is_torch_nn(call.cls) else _source(run, case, call.cls)
    return f"{shown}, {source}" if source else shown


def _source(run: Run, case: Case, cls: str) -> str:
    """Return the file and line of a class; empty where its source is not found."""
    module, _, name = cls.rpartition(".")
    stated = file_of_spec(find_module(module, run.plan.settings.base))
    for file in (stated, case.anchor):
        line = None if file is None or file.suffix != ".py" else _line(file, name)
        if file is not None and line is not None:
            return f"{run.plan.shown(file)} line {line}"
    return ""


def _line(file: Path, name: str) -> int | None:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    found = (node.lineno for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    return next(found, None)
