"""Compares the values of a graph with those of an eager run of its model.

graph                      model                                     pair
h = MatMul(x, w)   proj    proj returns a, act is given a            h, a    of what `proj` returned, the nearest
y = Relu(h)        act     act returns b                             y, b
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.choices import following_choices, has_choices
from pytest_hierexport._proof.eager import Mode, ModelError, Runnable, run_eager
from pytest_hierexport._proof.matching import match
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tensors import array_of
from pytest_hierexport._proof.values import Values
from pytest_hierexport._tools.divergence.boundaries import Boundaries, Boundary
from pytest_hierexport._tools.divergence.compared import Arrays, Compared, Row, with_includes
from pytest_hierexport._tools.divergence.pairs import Pair, nearest_pair, without_rivals
from pytest_hierexport._tools.divergence.results import ValueGap
from pytest_hierexport._tools.divergence.sides import Side

if TYPE_CHECKING:
    import torch


def compare_with_model(example: Runnable, side: Side, depth: int | None, folder: Path) -> Compared[int]:
    """Compare each value that leaves the own nodes of a call with the tensors that calls took and returned.

    Args:
        example: The model with its inputs.
        side: The graph, with its attribution.
        depth: The deepest level of calls.
        folder: A folder for tensors that exceed memory's bound.

    Raises:
        ModelError: The model does not run.
    """
    boundaries = Boundaries(side.graph, depth)
    arrays = Arrays[int](folder)
    with ExitStack() as stack:
        if has_choices(side.proto):
            run = partial(run_graph, side.proto, side.feeds, folder=side.folder)
            stack.enter_context(following_choices(side.proto, side.feeds, run))
        calls = match(side.graph, _run(example, side, arrays))
        pairs = [
            nearest_pair(value, array, _candidates(boundaries.values[value], calls), arrays, side)
            for value, array in side.fetch(boundaries.values)
        ]
    found = {pair.value: pair for pair in without_rivals([pair for pair in pairs if pair])}
    rows = [_row(boundary, found.get(value), calls) for value, boundary in boundaries.values.items()]
    return Compared(boundaries, with_includes(side.graph, rows), arrays)


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
    """Yield the values that the calls left by a value returned, and those that the calls entered by it were given."""
    for call in boundary.left & calls.keys():
        yield from (*calls[call].returned, *calls[call].effects)
    for call in boundary.entered & calls.keys():
        yield from calls[call].inputs.keys() - calls[call].settings


def _row(boundary: Boundary, pair: Pair[int] | None, calls: Mapping[str, EagerCall]) -> Row[int]:
    if pair is None:
        reason = "no tensor of the model's calls corresponds to it"
        return Row(ValueGap(boundary.name, boundary.position, reason=reason), boundary.calls, None)
    returning = [call for call in boundary.left if call in calls and pair.key in calls[call].returned]
    own = tuple(call for call in boundary.calls if call in returning)
    given = [call for call in sorted(boundary.entered & calls.keys()) if pair.key in calls[call].inputs]
    places = [f"{call} output{calls[call].returned[pair.key]}" for call in (*own, *returning)]
    places += [f"{call} input{calls[call].inputs[pair.key]}" for call in given]
    value = ValueGap(boundary.name, boundary.position, places[0] if places else None, pair.gap)
    return Row(value, own or boundary.calls, pair)
