"""Compares the outputs of a graph with those of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from pytest_hierexport._cases import Example
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._proof.candidates import coarsest, dtype_name
from pytest_hierexport._proof.choices import following_choices, has_choices
from pytest_hierexport._proof.eager import Mode, ModelError, run_model
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.session import Fetched, run_graph
from pytest_hierexport._proof.tensors import array_of, walk
from pytest_hierexport._proof.tolerance import Array, distances, is_floating, tolerance_of


@dataclass(frozen=True)
class OutputDifference:
    """An output that is not the model's."""

    output: str
    """Its name in the graph, and its place in what the model returns."""
    expected: str
    found: str


@dataclass(frozen=True)
class _Output:
    array: Array
    dtype: str

    @property
    def kind(self) -> str:
        """Its dtype and shape, as `float32[2, 3]`."""
        return f"{self.dtype}{list(self.array.shape)}"


def differences(example: Example, path: Path, tolerances: Mapping[str, float]) -> Iterator[OutputDifference]:
    """Run the model, and the graph as ONNX Runtime runs it for its users, on the inputs; yield the outputs that differ.

    Where something does, the model runs as it is captured, and last with the graph's choices.

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
    outputs = _outputs(proto, run)
    tried: dict[Mode, list[OutputDifference]] = {}
    for mode in _MODES:
        try:
            tried[mode] = list(_differences(proto.graph, outputs, run_model(example, mode), tolerances))
        except ModelError as error:
            failure = error
            continue
        if not tried[mode]:
            return
    if not tried:
        raise failure
    found = list(tried.values())
    inlined = onnx.inliner.inline_local_functions(proto) if proto.functions else proto
    if has_choices(inlined):
        best = min(tried, key=lambda mode: _count(tried[mode]))
        run = partial(run_graph, inlined, feeds, folder=path.parent, optimized=True)
        with suppress(ModelError), following_choices(inlined, feeds, run):
            outputs = _outputs(inlined, run)
            found.append(list(_differences(inlined.graph, outputs, run_model(example, best), tolerances)))
    yield from min(found, key=_count)


def _count(found: Sequence[OutputDifference]) -> float:
    """Return how many outputs differ: all, where there are more or fewer than the model's."""
    return inf if any(difference.output == _ALL for difference in found) else len(found)


_ALL = "the outputs"


_MODES = (Mode.PLAIN, Mode.EXPORTING, Mode.TRACING)
"""A model may return something else while it is captured; the values that its users get come first."""


def _outputs(proto: onnx.ModelProto, run: Callable[[Sequence[str]], Iterable[Fetched]]) -> dict[str, _Output]:
    # Each once: a list of outputs may repeat a value.
    values = run(list(dict.fromkeys(output.name for output in proto.graph.output)))
    return {value.name: _Output(value.arrays[0], value.arrays[0].dtype.name) for value in values}


def _differences(
    graph: onnx.GraphProto, found: Mapping[str, _Output], returned: Any, tolerances: Mapping[str, float]
) -> Iterator[OutputDifference]:
    """Yield the differences between the graph's outputs and what the model returned."""
    names = [output.name for output in graph.output]
    expected = _returned(returned, len(names))
    if len(expected) != len(names):
        said = f"{len(expected)}, one for each tensor that the model returns"
        yield OutputDifference(_ALL, said, f"{len(names)}")
        return
    inherited = coarsest(
        ir.serde.deserialize_graph(graph), lambda value, _: tolerance_of(dtype_name(value), tolerances)
    )
    for name, (place, wanted) in zip(names, expected.items(), strict=True):
        tolerance = max(inherited.get(name, 0.0), tolerance_of(wanted.dtype, tolerances))
        for text, other in _compared(wanted, found[name], tolerance):
            yield OutputDifference(f"output {name} (the model's {place})", text, other)


def _returned(output: Any, count: int) -> dict[str, _Output]:
    """Return the tensors by their places; the numbers too, where the graph has an output for each of them."""
    leaves = {f"output{place}{label}": part for place, leaf in _leaves(output) for label, part in walk(leaf)}
    tensors = {place: leaf for place, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
    counted = leaves if len(tensors) != count == len(leaves) else tensors
    arrays = {place: array_of(torch.as_tensor(leaf)) for place, leaf in counted.items()}
    return {place: _Output(array, array.dtype.name) for place, array in arrays.items()}


def _leaves(output: Any) -> list[tuple[str, Any]]:
    """Return the leaves of torch's tree by their places; by their number where a registered type has no keys."""
    try:
        return [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_leaves_with_path(output)]
    except ValueError:
        return [(f"[{i}]", leaf) for i, leaf in enumerate(pytree.tree_leaves(output))]


def _compared(wanted: _Output, found: _Output, tolerance: float) -> Iterator[tuple[str, str]]:
    """Yield what was expected and what was found, where they differ."""
    if wanted.kind != found.kind:
        yield wanted.kind, found.kind
        return
    floating = is_floating(wanted.dtype)
    one, other = (array.astype(np.float64) if floating else array for array in (wanted.array, found.array))
    apart = distances(one, other) > tolerance if floating else one != other
    if apart.any():
        place = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
        limit = f" to within {tolerance:g} of its magnitude" if floating else ""
        where = f"at {list(place)}, " if place else ""
        yield (
            f"{one[place]} {where}as in the model{limit}",
            f"{other[place]}; {int(apart.sum())} of {apart.size} elements differ",
        )
