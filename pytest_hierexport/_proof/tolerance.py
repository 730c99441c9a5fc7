"""Compares the numbers of two tensors, relative to their magnitude: the one comparison of proof and MUST-006.

Two numbers are equal within a tolerance `t` when they lie no farther apart than `t * (|reference| + floor)`. The floor
is the lower quartile of the reference's nonzero magnitudes: rounding errors near zero are as large as those of the
numbers that were added up. A mask that fills three quarters, as -1e9 does, is left out of these.

    reference  [0.0, 1.0, 2.0, 4.0]      floor      1.5
    other      [0.3, 1.0, 2.0, 4.0]      distances  [0.2, 0, 0, 0]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_hierexport._errors import UsageError

Array = NDArray[Any]
_TOLERANCES = {"float64": 1e-5, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
_COARSE = 1e-1
"""For the floating dtypes of 8 bits and fewer."""
_QUARTILE = 0.25
"""The quantile of the magnitudes that is the floor. With the smallest, 19 of 29 recorded models lose
proofs. The median would be the -1e9 of a mask that fills half of a tensor, and hide all other numbers; the lower
quartile is that only where a mask fills three quarters, which is left out then."""
_MASK = 1e4
"""The magnitude from which on the largest number of a tensor may be a mask's."""


_STATED = re.compile(r"b?float(16|32|64|8_\w+|6_\w+|4_\w+)")
"""The floating dtypes by torch's names, as in the schema of manifests."""


def check_tolerances(stated: Mapping[str, float]) -> None:
    """Check that tolerances are of floating dtypes, and numbers of zero or more.

    Raises:
        UsageError: One is not: it would be without effect, or no two values would be equal.
    """
    for dtype, tolerance in stated.items():
        if not _STATED.fullmatch(dtype) or not tolerance >= 0:
            raise UsageError(
                "tolerances of 0 or more by the names of floating dtypes, like float32",
                found=f"{tolerance} for {dtype}",
                do="correct it",
            )


def is_floating(dtype: str) -> bool:
    """Whether a dtype of this name rounds."""
    return dtype.startswith(("float", "bfloat"))


def tolerance_of(dtype: str, stated: Mapping[str, float] | None = None) -> float:
    """Return how far two equal numbers of a dtype may lie apart, relative to their magnitude.

    Args:
        dtype: The dtype's name.
        stated: Tolerances by dtype name that replace the dtypes' own.
    """
    own = _TOLERANCES.get(dtype, _COARSE) if is_floating(dtype) else 0.0
    return (stated or {}).get(dtype, own)


def scale(reference: Array) -> Array:
    """Return the magnitude that the distance from each number of a tensor is relative to."""
    magnitudes = np.abs(reference)
    ordinary = magnitudes[(magnitudes > 0) & np.isfinite(magnitudes)]
    largest = ordinary.max(initial=0.0)
    if largest >= _MASK:
        others = ordinary[ordinary < largest]
        ordinary = others if 0 < others.size <= _QUARTILE * ordinary.size else ordinary
    floor = np.quantile(ordinary, _QUARTILE) if ordinary.size else 1.0
    return np.asarray(magnitudes + floor)


def distances(reference: Array, other: Array) -> Array:
    """Return how far each number lies from that of the reference, relative to its magnitude."""
    return gaps(reference, other, scale(reference))


def differing(references: Sequence[Array], other: Array, tolerance: float, finer: Array | None = None) -> Array:
    """Return which numbers differ from those of each reference.

    A runtime's kernel rounds by as much as the largest numbers of its formula: ONNX Runtime's `Sigmoid` is off by 2e-7
    of one, not of its result. Such a number does not differ: in a finer precision it is the reference's, and it moved
    by no more than the tolerance of the largest number that is no mask's.

    Args:
        references: The numbers of the model, in its own precision and, where these are known, in a finer one: what
            PyTorch rounds is no fault of the graph (xcodec, pe_audio).
        other: Those of the graph.
        tolerance: The tolerance of their dtype.
        finer: Those of the graph, computed in a finer precision.
    """
    apart: list[Array] = [distances(reference, other) > tolerance for reference in references]
    if finer is not None and finer.shape == other.shape:
        finer = finer.astype(np.float64)
        magnitudes = np.abs(finer)
        moved = gaps(finer, other) > tolerance * magnitudes[magnitudes < _MASK].max(initial=0.0)
        apart = [
            found & ((distances(reference, finer) > tolerance) | moved)
            for found, reference in zip(apart, references, strict=True)
        ]
    return np.asarray(np.logical_and.reduce(apart))


def gaps(one: Array, other: Array, scales: Array | float = 1.0) -> Array:
    """Return how far numbers lie apart, each relative to a scale.

    NaN and infinity equal themselves and lie infinitely far from everything else. So do numbers whose scale nearly
    underflows (swin): the quotient overflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.abs(one - other) / scales
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.nan_to_num(found, nan=np.inf, posinf=np.inf))
