"""Makes random inputs for a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_hierexport._calls.modules import element_count
from pytest_hierexport._errors import UsageError, proposal
from pytest_hierexport._onnx.element_types import element_dtype, element_name
from pytest_hierexport._onnx.graph import graph_inputs

if TYPE_CHECKING:
    import onnx

Array = NDArray[Any]
_MOST_BYTES = 1 << 32
"""The most memory for random inputs: a mistyped dimension must not fill the memory."""


def random_feeds(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Return a random array for each input of the graph: normal values for floats, 0 or 1 for integers and booleans.

    `sizes` has that of each symbolic dimension, by its name, or as `INPUT.AXIS` for one without a name.

    Raises:
        UsageError: A dimension has no size, a size has no dimension, or an input is not a tensor of numbers.
    """
    inputs = {value.name: value for value in graph_inputs(model.graph)}
    known = {name for value in inputs.values() for name in _dimensions(value) if name}
    if unknown := sizes.keys() - known:
        raise UsageError(
            f"symbolic dimensions of the graph's inputs ({', '.join(sorted(known)) or 'there are none'})",
            found=", ".join(sorted(unknown)),
            do=proposal(min(unknown), sorted(known)) if known else "leave the dimensions out",
        )
    dtypes = {name: _dtype(value) for name, value in inputs.items()}
    shapes = {name: _shape(value, sizes) for name, value in inputs.items()}
    if (size := sum(_bytes(name, shape, dtypes[name]) for name, shape in shapes.items())) > _MOST_BYTES:
        raise UsageError("inputs of at most 4 GiB", found=f"{size:,} bytes", do="state smaller dimensions")
    rng, feeds = np.random.default_rng(0), {}
    for name, shape in shapes.items():
        drawn = rng.integers(0, 2, shape) if dtypes[name].kind in "iub" else rng.standard_normal(shape)
        feeds[name] = drawn.astype(dtypes[name])
    return feeds


def _bytes(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    try:
        return element_count(shape) * dtype.itemsize
    except ValueError as error:
        raise UsageError(
            f"a shape that a tensor can have for the input {name}",
            found=str(error),
            do="state smaller dimensions, or export the model again",
        ) from None


def _dimensions(value: onnx.ValueInfoProto) -> Iterator[str]:
    """Yield the name of each dimension; empty for a dimension with a fixed size."""
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        yield "" if dim.HasField("dim_value") else dim.dim_param or f"{value.name}.{axis}"


def _shape(value: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> tuple[int, ...]:
    tensor_type = value.type.tensor_type
    if not tensor_type.HasField("shape"):
        raise UsageError(f"a shape for the input {value.name}", found="none in the file", do="give inputs as .npz")
    missing = [name for name in _dimensions(value) if name and name not in sizes]
    if missing:
        # A name may be an expression of torch's, 4*patches: a pattern for files to a shell.
        options = " ".join(f"--dim {quote(f'{name}=8')}" for name in dict.fromkeys(missing))
        raise UsageError(
            f"a size for each symbolic dimension of the input {value.name}",
            found=f"none for {', '.join(missing)}",
            do=f"add {options}, or give inputs as .npz",
        )
    dims = zip(_dimensions(value), tensor_type.shape.dim, strict=True)
    return tuple(sizes[name] if name else dim.dim_value for name, dim in dims)


def _dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    kind = value.type.tensor_type.elem_type
    dtype = element_dtype(value)
    if dtype.kind in "OSU":
        found = element_name(kind) if kind else "no tensor"
        do = "choose a graph whose inputs are tensors of numbers: hierexport extract cuts one out"
        raise UsageError(f"the input {value.name} to be a tensor of numbers", found=found, do=do)
    return dtype
