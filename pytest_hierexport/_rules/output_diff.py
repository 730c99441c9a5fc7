"""Where a graph's outputs are not those of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.inliner
import torch
from torch.utils import _pytree as pytree

from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._proof.bodies import captured
from pytest_hierexport._proof.eager import Mode, ModelError, run_model
from pytest_hierexport._proof.feeds import array_of, feeds_of
from pytest_hierexport._proof.following import following, leaves_open
from pytest_hierexport._proof.session import Fetched, run_graph
from pytest_hierexport._proof.tensors import walk
from pytest_hierexport._proof.values import Array, relative_tolerance

if TYPE_CHECKING:
    from pytest_hierexport._cases import Example

__all__ = ["OutputDifference", "differences"]

_SMALL = 0.25
"""The quantile of an output's magnitudes by which near nought is measured."""


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
    """Run both on the example's inputs, the graph as ONNX Runtime runs it for its users, and yield what differs.

    Where something does, the model runs as it is captured, and last so that it decides as the graph does what its
    operations leave open.

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
    outputs = _Outputs.of(proto, run(_names(proto)))
    tried: dict[Mode, list[OutputDifference]] = {}
    for mode in _MODES:
        try:
            tried[mode] = list(outputs.differences(run_model(example, mode), tolerances))
        except ModelError as error:
            failure = error
            continue
        if not tried[mode]:
            return
    if not tried:
        raise failure
    found = list(tried.values())
    inlined = onnx.inliner.inline_local_functions(proto) if proto.functions else proto
    if leaves_open(inlined):
        best = min(tried, key=lambda mode: _count(tried[mode]))
        run = partial(run_graph, inlined, feeds, folder=path.parent, optimized=True)
        with suppress(ModelError), following(inlined, feeds, run):
            outputs = _Outputs.of(inlined, run(_names(inlined)))
            found.append(list(outputs.differences(run_model(example, best), tolerances)))
    yield from min(found, key=_count)


def _count(found: Sequence[OutputDifference]) -> float:
    """Return how many outputs differ: all, where there are more or fewer than the model's."""
    return inf if any(difference.output == _ALL for difference in found) else len(found)


_ALL = "the outputs"


_MODES = (Mode.PLAIN, Mode.EXPORTING, Mode.TRACING)
"""A model may return something else while it is captured; what its users get comes first."""


def _names(proto: onnx.ModelProto) -> list[str]:
    """Return the names of the graph's outputs, each once: one may stand in the list twice."""
    return list(dict.fromkeys(output.name for output in proto.graph.output))


@dataclass(frozen=True)
class _Outputs:
    """What the graph gave."""

    proto: onnx.ModelProto
    found: Mapping[str, _Output]

    @classmethod
    def of(cls, proto: onnx.ModelProto, fetched: Iterable[Fetched]) -> _Outputs:
        values = ((value.name, value.arrays[0], value.dtype) for value in fetched)
        return cls(proto, {name: _Output(array, dtype or array.dtype.name) for name, array, dtype in values})

    def differences(self, output: Any, tolerances: Mapping[str, float]) -> Iterator[OutputDifference]:
        """Yield what is not as in what the model returned."""
        names = [output.name for output in self.proto.graph.output]
        expected = _returned(output, len(names))
        if len(expected) != len(names):
            said = f"{len(expected)}, one for each tensor that the model returns"
            yield OutputDifference(_ALL, said, f"{len(names)}")
            return
        rounding = _rounding(self.proto, tolerances)
        for name, (place, wanted) in zip(names, expected.items(), strict=True):
            tolerance = max(rounding.get(name, 0.0), tolerances.get(wanted.dtype, relative_tolerance(wanted.dtype)))
            for text, other in _compared(wanted, self.found[name], tolerance):
                yield OutputDifference(f"output {name} (the model's {place})", text, other)


def _returned(output: Any, count: int) -> dict[str, _Output]:
    """Return the tensors by their places; the numbers too, where the graph has an output for each of them."""
    leaves = {f"output{place}{label}": part for place, leaf in _leaves(output) for label, part in walk(leaf)}
    tensors = {place: leaf for place, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
    counted = leaves if len(tensors) != count == len(leaves) else tensors
    return {place: _as_output(leaf) for place, leaf in counted.items()}


def _leaves(output: Any) -> list[tuple[str, Any]]:
    """Return the leaves of torch's tree by their places: mere counts where a type is known without its keys."""
    try:
        return [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_leaves_with_path(output)]
    except ValueError:
        return [(f"[{i}]", leaf) for i, leaf in enumerate(pytree.tree_leaves(output))]


def _as_output(leaf: Any) -> _Output:
    tensor = leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
    array = array_of(tensor)
    return _Output(array, array.dtype.name)


def _rounding(proto: onnx.ModelProto, tolerances: Mapping[str, float]) -> dict[str, float]:
    """Return the largest tolerance of all dtypes that each value was computed in: rounding stays in what follows."""
    stated = (*proto.graph.input, *proto.graph.value_info, *proto.graph.output)
    codes = {value.name: value.type.tensor_type.elem_type for value in stated}
    rounding: dict[str, float] = {}
    for node in proto.graph.node:
        read = max((rounding.get(value, 0.0) for value in (*node.input, *captured(node))), default=0.0)
        for value in node.output:
            rounding[value] = max(read, _tolerance(codes.get(value, 0), tolerances))
    return rounding


def _tolerance(code: int, tolerances: Mapping[str, float]) -> float:
    if not code:
        return 0.0
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)).name
    return tolerances.get(dtype, relative_tolerance(dtype))


def _compared(wanted: _Output, found: _Output, tolerance: float) -> Iterator[tuple[str, str]]:
    """Yield what was expected and what was found, where they differ."""
    if wanted.kind != found.kind:
        yield wanted.kind, found.kind
        return
    floating = relative_tolerance(wanted.dtype) > 0
    one, other = (array.astype(np.float64) if floating else array for array in (wanted.array, found.array))
    apart = _apart(one, other, tolerance) if floating else one != other
    if apart.any():
        place = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
        limit = f" to within {tolerance:g} of its magnitude" if floating else ""
        where = f"at {list(place)}, " if place else ""
        yield (
            f"{one[place]} {where}as in the model{limit}",
            f"{other[place]}; {int(apart.sum())} of {apart.size} elements differ",
        )


def _apart(one: Array, other: Array, tolerance: float) -> Array:
    """Return where two floating arrays are not equal; NaN and infinity are equal to themselves."""
    ordinary = np.isfinite(one) & np.isfinite(other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    magnitudes = np.abs(one[ordinary & (one != 0)])
    floor = float(np.quantile(magnitudes, _SMALL)) if magnitudes.size else 1.0
    with np.errstate(invalid="ignore"):
        near = ordinary & (np.abs(one - other) <= tolerance * (np.abs(one) + floor))
    apart: Array = ~(same | near)
    return apart
