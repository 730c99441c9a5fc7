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
    from pytest_hierexport._proof.state import call_digests, state_digests

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
    _check_plain_export(exported)
    for name in repeat.changed:
        here, there = exported.path.with_name(name), repeat.folder / name
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

    Raises:
        NoVerdictError: One process ran a call that the other did not, or not to the same values.
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

    Raises:
        NoVerdictError: It does not.
    """
    from pytest_hierexport._rules.must_005 import plain_repeats

    if not plain_repeats(exported):
        raise NoVerdictError(
            "a plain exporter that gives the same graph under every hash seed",
            found="not run: under another hash seed the plain exporter gives another graph of this model, too",
            do="sort the sets in the model's own code; where the order is torch's own, as in nn.EmbeddingBag, set "
            "PYTHONHASHSEED to one number in CI: else names and order of nodes may change from run to run",
        )


def _in_model(exported: ExportedCase, there: Path) -> Iterator[Violation]:
    """Yield the differences of the ONNX files; nodes and initializers with the tag of their call."""
    from pytest_hierexport._onnx.storage import load_proto
    from pytest_hierexport._rules.graph_diff import differences

    for difference in differences(exported.proto, load_proto(there)) if there.exists() else ():
        attribution = exported.attribution
        origins = attribution.nodes.get(difference.name) or attribution.initializers.get(difference.name)
        of_call = f" of {attribution.hierarchy.tag(origins[0].call)}" if origins else ""
        yield Violation(f"{difference.where}{of_call}", f"{difference.plain}, {_SAME}", difference.found, _DO)


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
