"""MUST-008: a second process, under another hash seed, exports the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import NoVerdictError
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, limited

if TYPE_CHECKING:
    from pytest_hierexport._rules.repeats import Repeat

_SAME = "the same from a second process, under another hash seed"
_DO = "look for what depends on the order of a set, on hash() or id(), on the time, or on random numbers without a seed"


@limited
def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._rules.repeats import repeat_of

    with repeat_of(exported) as repeat:
        yield from _violations(exported, repeat)


def _violations(exported: ExportedCase, repeat: Repeat) -> Iterator[Violation]:
    from pytest_hierexport._files.paths import digest
    from pytest_hierexport._proof.state import call_digests, state_digests

    if repeat.error:
        yield Violation(exported.path.name, f"an export, {_SAME}", repeat.error, _DO)
        return
    folder = exported.path.parent
    changed = [name for name in _files(exported, repeat) if digest(folder / name) != repeat.files.get(name, "")]
    state = state_digests(exported.example) if changed else repeat.state
    if list(state.items()) != list(repeat.state.items()):
        for name, found in _other_parts(state, repeat.state):
            yield Violation(name, f"modules, weights and inputs, {_SAME}", found, f"in the factory, {_DO}")
        return
    if changed and (call := _first_other(call_digests(exported.example), repeat.calls)) is not None:
        raise _model_differs(call)
    for name in changed:
        tagged = exported if name == exported.path.name else None
        yield from _differences(folder / name, repeat.folder / name, tagged)


def _other_parts(here: Mapping[str, str], there: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what differs between the models of both processes, with how it does."""
    different = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    for name in different:
        yield name, "another one" if name in here and name in there else "there in one process alone"
    if not different:
        yield next(one for one, other in zip(here, there, strict=True) if one != other), "at another place"


def _first_other(here: Sequence[Sequence[str]], there: Sequence[Sequence[str]]) -> str | None:
    """Return the first call that one process ran and the other did not, or not to the same values."""
    pairs = zip(here, there, strict=False)
    return next((one[0] for one, other in pairs if list(one) != list(other)), None)


def _model_differs(call: str) -> NoVerdictError:
    """Return the error for a model whose own code depends on the hash seed.

    transformers' modernbert and gemma3 call one module for each element of a set of strings: which call is the first
    depends on the seed, and so does the export by any exporter.
    """
    place = f"call {call}" if call else "call of the model"
    return NoVerdictError(
        "a model that computes the same under every hash seed",
        found=f"not run: under another hash seed the model itself computes other values, first in the {place}",
        do="set PYTHONHASHSEED to one number in CI: else its tags may change from run to run",
    )


def _files(exported: ExportedCase, repeat: Repeat) -> list[str]:
    """Return the names of what either export consists of."""
    from pytest_hierexport._onnx.storage import sidecar_path

    beside = (exported.path, exported.path.with_name(f"{exported.path.name}.data"), sidecar_path(exported.path))
    return list(dict.fromkeys([*(path.name for path in beside if path.exists()), *repeat.files]))


def _differences(here: Path, there: Path, tagged: ExportedCase | None) -> Iterator[Violation]:
    """Yield the differences of two files; those of the model, which is given where they are, name its calls."""
    found = list(_in_text(here, there) if tagged is None else _in_model(here, there, tagged))
    yield from found or [Violation(here.name, f"bytes, {_SAME}", "others", _DO)]


def _in_model(here: Path, there: Path, tagged: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._onnx.storage import load_proto
    from pytest_hierexport._rules.graph_diff import differences

    if there.exists():
        for difference in differences(load_proto(here), load_proto(there)):
            where = f"{difference.where}{_of_call(tagged, difference.name)}"
            yield Violation(where, f"{difference.plain}, {_SAME}", difference.found, _DO)


def _of_call(tagged: ExportedCase, name: str) -> str:
    """Return the call that a node or initializer comes from, for a message; empty where none is known."""
    attribution = tagged.attribution
    origins = attribution.nodes.get(name) or attribution.initializers.get(name)
    return f" of {attribution.hierarchy.tag(origins[0].call)}" if origins else ""


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


RULE = Rule("MUST-008", "exports repeat", _check, needs="export")
