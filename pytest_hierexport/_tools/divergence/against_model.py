"""Compares the values of a graph with those of an eager run of its model.

graph                      model                                     pair
h = MatMul(x, w)   proj    proj returns a, act is given a            h, a    of what `proj` returned, the nearest
y = Relu(h)        act     act returns b                             y, b
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.choices import following_choices, has_choices
from pytest_hierexport._proof.eager import Mode, ModelError, Runnable, run_eager
from pytest_hierexport._proof.matching import match
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tensors import array_of, returned_arrays
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._proof.values import Values
from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.compared import Arrays, Compared, Row, compared_rows, row_of, worst_by_name
from pytest_hierexport._tools.divergence.pairs import Key, Pair, chosen_pairs, measured_pair, possible_pairs
from pytest_hierexport._tools.divergence.sides import Side

if TYPE_CHECKING:
    import torch

_LACKING = "no tensor of the model's calls corresponds to it"


def compare_with_model(example: Runnable, side: Side, depth: int | None) -> Compared:
    """Compare each value that leaves the own nodes of a call with the tensors that calls took and returned.

    The outputs are compared with what the model returned, too, in order. `depth` is the deepest level of calls.

    Raises:
        ModelError: The model does not run.
    """
    boundaries = Boundaries(side.graph, depth)
    arrays = Arrays()
    with ExitStack() as stack:
        if has_choices(side.proto):
            run = partial(run_graph, side.proto, side.feeds, folder=side.folder)
            stack.enter_context(following_choices(side.proto, run))
        eager, returned = _run(example, side, arrays)
    calls = _as_tagged(side.graph.hierarchy, match(side.graph, eager))
    candidates: list[list[Pair]] = []
    given: dict[str, Array] = {}
    for value, array in side.fetch([*boundaries.values, *side.graph.outputs]):
        if value in side.graph.outputs:
            given[value] = array
        if value in boundaries.values:
            votes = _votes(boundaries.values[value], calls)
            candidates.append(possible_pairs(value, array, votes, arrays, side))
    outputs = _outputs(side, given, returned, arrays)
    found = {pair.value: pair for pair in chosen_pairs(candidates)}
    rows = compared_rows(boundaries, found, outputs, partial(_row, calls=calls), _LACKING)
    return Compared(boundaries, rows, arrays)


def _run(example: Runnable, side: Side, arrays: Arrays) -> tuple[list[EagerCall], Any]:
    """Run the model as it was captured, or else as its users run it; return its calls and what it returned."""
    values = Values()  # one for both runs: `arrays` has each number once

    def keep(number: int, tensor: torch.Tensor) -> None:
        arrays.add(number, array_of(tensor))

    def run(mode: Mode) -> tuple[list[EagerCall], Any]:
        returned: list[Any] = []
        calls = run_eager(example, side.graph.hierarchy, values, mode, keep, take=returned.append)
        return calls, returned[0]

    try:
        return run(Mode.EXPORTING)
    except ModelError:
        return run(Mode.PLAIN)


def _as_tagged(hierarchy: Hierarchy, calls: Mapping[str, EagerCall]) -> Mapping[str, EagerCall]:
    """Return the calls by name; a run that the tags do not know has its values at the first one of its module.

    Torch's own scopes do not tell the runs of one module apart.
    """
    found = {**calls}
    for name, run in calls.items():
        first = found.get(run.call.path)
        if first is not None and name not in hierarchy:
            found[run.call.path] = replace(
                first,
                inputs={**run.inputs, **first.inputs},
                returned={**run.returned, **first.returned},
                effects=first.effects | run.effects,
                settings=first.settings | run.settings,
            )
    return found


def _outputs(side: Side, given: Mapping[str, Array], returned: Any, arrays: Arrays) -> dict[str, Pair]:
    """Return the pair of each output with the tensor that the model returned in its place.

    Where the model returned more or fewer tensors than the graph gives, places say nothing: the nearest one counts.
    """
    expected = returned_arrays(returned, len(side.graph.outputs))
    for place, array in expected.items():
        arrays.add(place, array)
    if len(expected) != len(side.graph.outputs):
        votes: dict[Key, int] = dict.fromkeys(expected, 1)
        nearest = (possible_pairs(name, array, votes, arrays, side) for name, array in given.items())
        return {pair.value: pair for pair in chosen_pairs(nearest)}
    placed = [(name, place) for name, place in zip(side.graph.outputs, expected, strict=True) if name in given]
    return worst_by_name((name, measured_pair(name, given[name], place, arrays, side)) for name, place in placed)


def _votes(boundary: Boundary, calls: Mapping[str, EagerCall]) -> Counter[Key]:
    """Return how many of the calls left by a value returned each tensor, and of those entered by it were given it.

    A call also gives what it wrote into its arguments or left in an attribute; what it was given it does not give.
    """
    votes: Counter[Key] = Counter()
    for call in boundary.left & calls.keys():
        votes.update({*calls[call].returned, *(calls[call].effects - calls[call].inputs.keys())})
    for call in boundary.entered & calls.keys():
        votes.update(calls[call].inputs.keys() - calls[call].settings)
    return votes


def _row(boundary: Boundary, pair: Pair | None, calls: Mapping[str, EagerCall]) -> Row:
    if pair is None:
        return row_of(boundary, None, reason=_LACKING)
    if isinstance(pair.key, str):
        return row_of(boundary, pair, pair.key)
    returning = [call for call in boundary.left if call in calls and pair.key in calls[call].returned]
    own = tuple(call for call in boundary.calls if call in returning)
    taking = [call for call in sorted(boundary.entered & calls.keys()) if pair.key in calls[call].inputs]
    places = [f"{call} output{calls[call].returned[pair.key]}" for call in (*own, *returning)]
    places += [f"{call} input{calls[call].inputs[pair.key]}" for call in taking]
    return row_of(boundary, pair, places[0] if places else None, own)
