"""Compares the values of a graph with those of an eager run of its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._proof.choices import following_choices, has_choices
from pytest_hierexport._proof.eager import EagerCall, Mode, ModelError, Runnable, run_eager
from pytest_hierexport._proof.matching import match
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tensors import array_of
from pytest_hierexport._proof.values import Values
from pytest_hierexport._tools.divergence.arrays import Arrays
from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.compared import Compared, Row, with_includes
from pytest_hierexport._tools.divergence.pairs import Measure, Pair, nearest_pair, without_rivals
from pytest_hierexport._tools.divergence.sides import Side

if TYPE_CHECKING:
    import torch


def compare_with_model(
    example: Runnable, side: Side, spill: Path, depth: int | None, measure: Measure
) -> Compared[int]:
    """Compare each value that leaves the own nodes of a call with the tensors that calls took and gave.

    Args:
        example: The model with its inputs.
        side: The graph, with its attribution.
        spill: A folder for tensors that exceed memory's bound.
        depth: The deepest level of calls.
        measure: Measures how far two tensors lie apart.

    Raises:
        ModelError: The model does not run.
    """
    wanted = Boundaries(side.graph, depth).values
    arrays = Arrays[int](spill)
    with ExitStack() as stack:
        if has_choices(side.proto):
            run = partial(run_graph, side.proto, side.feeds, folder=side.folder)
            stack.enter_context(following_choices(side.proto, side.feeds, run))
        calls = match(side.graph, _run(example, side, arrays))
        fetched = {
            value: nearest_pair(value, array, _candidates(wanted[value], calls), arrays, measure)
            for value, array in side.fetch(wanted)
        }
    pairs = {pair.value: pair for pair in without_rivals([pair for pair in fetched.values() if pair])}
    rows = [_row(boundary, pairs.get(value), calls) for value, boundary in wanted.items()]
    return Compared(side.graph, depth, with_includes(side.graph, rows), arrays)


def _run(example: Runnable, side: Side, arrays: Arrays[int]) -> list[EagerCall]:
    """Run the model as it was captured, or else as its users run it."""

    def keep(number: int, tensor: torch.Tensor) -> None:
        arrays.add(number, array_of(tensor))

    values = Values()
    try:
        return run_eager(example, side.graph.hierarchy, values, Mode.EXPORTING, keep)
    except ModelError:
        return run_eager(example, side.graph.hierarchy, values, Mode.PLAIN, keep)


def _candidates(boundary: Boundary, calls: Mapping[str, EagerCall]) -> Iterator[int]:
    """Yield the values that the calls left by a value gave, and those that the calls entered by it were given."""
    for call in boundary.left & calls.keys():
        yield from (*calls[call].returned, *calls[call].effects)
    for call in boundary.entered & calls.keys():
        yield from calls[call].inputs.keys() - calls[call].settings


def _row(boundary: Boundary, pair: Pair[int] | None, calls: Mapping[str, EagerCall]) -> Row[int]:
    if pair is None:
        return Row(boundary, boundary.calls, None, None, "no tensor of the model's calls corresponds to it")
    givers = [call for call in boundary.left if call in calls and pair.key in calls[call].returned]
    own = tuple(call for call in boundary.calls if call in givers) or boundary.calls
    place = next((f"{call} output{calls[call].returned[pair.key]}" for call in (*own, *givers) if call in givers), None)
    return Row(boundary, own, pair, place or _input_place(boundary, pair.key, calls))


def _input_place(boundary: Boundary, key: int, calls: Mapping[str, EagerCall]) -> str | None:
    found = (call for call in sorted(boundary.entered & calls.keys()) if key in calls[call].inputs)
    return next((f"{call} input{calls[call].inputs[key]}" for call in found), None)
