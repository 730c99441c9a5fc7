"""MUST-006: ONNX Runtime computes what the model computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner

from pytest_hierexport._cases import Example
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._proof.candidates import stated_tolerances
from pytest_hierexport._proof.choices import following_choices
from pytest_hierexport._proof.eager import Mode, in_each, run_model
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.in_float64 import in_float64
from pytest_hierexport._proof.precision import run_in_float64
from pytest_hierexport._proof.session import outputs_of, run_graph
from pytest_hierexport._proof.tensors import returned_arrays
from pytest_hierexport._proof.tolerance import Array, differing, is_floating, tolerance_of
from pytest_hierexport._proof.unfollowed import ADVICE, drawn_anew
from pytest_hierexport._rules.base import ExportedCase, Violation, limited

_DO = "run the plain exporter's file too: if its numbers are the same, report it there"
_TOLERATE = f"{_DO}; state `tolerances` for this case where rounding explains the difference"
_ROUNDED = "state `tolerances` for this case: in float64 the graph gives the model's numbers, so rounding explains it"
_CHANGE = f"{_DO}; where rounding decides between such numbers, take other inputs or state a known failure"
_OPTIMIZED = "run the file with ONNX Runtime's graph optimizations off: they change these numbers; report it there"
_FAR = 10
"""The factor on the tolerances that tells a wrong optimization from rounding: half of BiT's elements differ by more.

Without optimizations none does, but 27 exceed the tolerance itself."""
_ALL = "the outputs"
_MODES = (Mode.PLAIN, Mode.EXPORTING, Mode.TRACING, Mode.PROGRAM)
"""A model may return something else while it is captured; the values that its users get come first."""


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    example = exported.example  # where it cannot be made again, that is no violation
    try:
        yield from _differing(example, exported.path, exported.case.tolerances)
    except UsageError as error:
        yield Violation(exported.path.name, error.expected, error.found, error.do)


def _differing(example: Example, path: Path, tolerances: Mapping[str, float]) -> Iterator[Violation]:
    """Run the model, and the graph as ONNX Runtime runs it for its users, on the inputs; yield the outputs that differ.

    Where something does, the model runs as it is captured, and last it makes the graph's choices.

    Args:
        example: The model and its inputs.
        path: The exported file.
        tolerances: Relative tolerances by dtype, before the dtypes' own.

    Raises:
        UsageError: The graph or the model does not run on these inputs.
    """
    proto = load_proto(path)
    feeds = feeds_of(example, proto)
    run = partial(run_graph, proto, feeds, folder=path.parent, optimized=True)
    try:
        outputs = outputs_of(proto, run)
    except UsageError:
        # dynamo captures a model that itself refuses the types of its inputs.
        next(in_each(_MODES, partial(run_model, example)))
        raise
    inherited = stated_tolerances(proto, tolerances)
    tried: dict[Mode, dict[str, Violation]] = {}
    for mode, returned in in_each(_MODES, partial(run_model, example)):
        tried[mode] = dict(_differences(returned, tolerances, inherited, outputs))
        if not tried[mode]:
            return
    found = list(tried.values())
    mode = min(tried, key=lambda mode: _count(tried[mode]))
    with suppress(UsageError):
        for differences in _closer(example, mode, proto, path.parent, tolerances):
            found.append(differences)  # noqa: PERF402  # those before an error are kept
    anew = drawn_anew(example, path)
    for place, violation in min(reversed(found), key=_count).items():
        yield replace(violation, do=ADVICE) if place in anew else violation


def _closer(
    example: Example,
    mode: Mode,
    proto: onnx.ModelProto,
    folder: Path,
    tolerances: Mapping[str, float],
) -> Iterator[dict[str, Violation]]:
    """Yield the differences that are left where the model makes the graph's choices, fewer each time, by their places.

    Then both run in float64, which shows what rounding does, and the graph without ONNX Runtime's optimizations, which
    shows what these change.
    """
    inlined = onnx.inliner.inline_local_functions(proto) if proto.functions else proto
    feeds = feeds_of(example, proto)
    run = partial(run_graph, inlined, feeds, folder=folder, optimized=True)
    with following_choices(inlined, run, partial(tolerance_of, stated=tolerances)) as restart:
        inherited = stated_tolerances(inlined, tolerances)
        differences = partial(_differences, run_model(example, mode), tolerances, inherited)
        outputs = outputs_of(inlined, run)
        yield (found := dict(differences(outputs)))
        if found:
            finer = outputs_of(inlined, partial(run_graph, in_float64(inlined), feeds, folder=folder))
            restart()
            differences = partial(differences, finer=finer, exact=run_in_float64(example, mode))
            yield (found := dict(differences(outputs)))
        if found:
            unoptimized = outputs_of(inlined, partial(run, optimized=False))
            far, near = (dict(differences(each, coarser=_FAR)) for each in (outputs, unoptimized))
            changed = far.keys() - near.keys()
            yield {place: replace(it, do=_OPTIMIZED) if place in changed else it for place, it in found.items()}


def _count(found: Mapping[str, Violation]) -> float:
    """Return how many outputs differ: all, where there are more or fewer than the model's."""
    return inf if _ALL in found else len(found)


def _differences(
    returned: Any,
    tolerances: Mapping[str, float],
    inherited: Mapping[str, float],
    found: Sequence[tuple[str, Array]],
    *,
    finer: Sequence[tuple[str, Array]] = (),
    exact: Any = None,
    coarser: float = 1,
) -> Iterator[tuple[str, Violation]]:
    """Yield the differences between the graph's outputs and what the model returned, with their places in that.

    `finer` are the outputs and `exact` is what the model returned in float64, where that was done. `coarser` is a
    factor on the tolerances.
    """
    expected = returned_arrays(returned, len(found))
    if len(expected) != len(found):
        yield _ALL, Violation(_ALL, f"{len(expected)}, one for each tensor the model returns", f"{len(found)}", _DO)
        return
    fine = [array for _, array in finer] if len(finer) == len(found) else [None] * len(found)
    more_exact = {} if exact is None else returned_arrays(exact, len(found))
    for (name, array), (place, wanted), each in zip(found, expected.items(), fine, strict=True):
        tolerance = coarser * max(inherited.get(name, 0.0), tolerance_of(wanted.dtype.name, tolerances))
        if different := _different(wanted, array, tolerance, each, more_exact.get(place)):
            yield place, Violation(f"output {name} (the model's {place})", *different)


def _different(
    wanted: Array, found: Array, tolerance: float, finer: Array | None, exact: Array | None
) -> tuple[str, str, str] | None:
    """Return what was expected, what was found and what to do, where they differ.

    Args:
        wanted: What the model returns.
        found: What the graph gives.
        tolerance: The tolerance of their dtype.
        finer: What the graph gives in float64.
        exact: What the model returns in float64. A number that is as there does not differ.
    """
    kinds = [f"{array.dtype.name}{list(array.shape)}" for array in (wanted, found)]
    if kinds[0] != kinds[1]:
        return kinds[0], kinds[1], _DO
    if is_floating(wanted.dtype.name):
        references = [a.astype(np.float64) for a in (wanted, exact) if a is not None and a.shape == wanted.shape]
        one, other = references[0], found.astype(np.float64)
        apart, limit = differing(references, other, tolerance, finer), f" to within {tolerance:g} of its magnitude"
        do = _TOLERATE
        if apart.any() and finer is not None and finer.shape == found.shape:
            still_apart = differing(references, finer.astype(np.float64), tolerance)
            do = _TOLERATE if still_apart[apart].any() else _ROUNDED
    else:
        one, other, apart, limit, do = wanted, found, wanted != found, "", _CHANGE
    if not apart.any():
        return None
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
    where = f"at {list(place)}, " if place else ""
    return (
        f"{one[place]} {where}as in the model{limit}",
        f"{other[place]}; {int(apart.sum())} of {apart.size} elements differ",
        do,
    )
