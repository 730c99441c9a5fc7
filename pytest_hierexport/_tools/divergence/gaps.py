"""Measures how far a tensor lies from the reference: signal to noise, cosine, largest differences.

reference [1.0, 2.0]    other [1.1, 2.0]    27 dB (noise 0.01, signal 5), largest difference 0.1
"""

from __future__ import annotations

import numpy as np

from pytest_hierexport._proof.tolerance import Array, distances, tolerance_of
from pytest_hierexport._tools.divergence.results import Gap

_OUTLYING = 1e3
"""A number in which both agree is left out where it exceeds this many times 1 and the largest number in which they
differ. From there on, an error of a tenth is below 1e-4 of the signal. Below it are the large activations of language
models: what rounds them rounds the numbers beside them, too."""
_MASKED = 1e30
"""The magnitude from which on a number is a mask's: squared, one would hide all others."""


def gap(reference: Array, other: Array, tolerance: float | None = None, inherited: float = 0.0) -> Gap:
    """Measure how far a tensor lies from the reference.

    Args:
        reference: The reference.
        other: The other tensor; its dtype may differ.
        tolerance: The relative tolerance, in place of that of the coarser dtype.
        inherited: The tolerance of what a floating tensor was computed from, where that is larger.
    """
    if tolerance is None:
        own = max(tolerance_of(array.dtype.name) for array in (reference, other))
        tolerance = max(own, inherited) if own else own
    if reference.shape != other.shape:
        reason = f"shape {list(other.shape)} instead of {list(reference.shape)}"
        return Gap(-np.inf, np.nan, np.inf, np.inf, tolerance, reason, reshaped=True)
    one, two = (array.astype(np.float64).ravel() for array in (reference, other))
    # Integers above 2**53 have neighbours that are one number in float64.
    rounded = (one == two) & (reference != other).ravel()
    apart = np.where(rounded, np.finfo(np.float64).eps, distances(one, two))
    far = float(apart.max(initial=0.0))
    if apart[~(np.isfinite(one) & np.isfinite(two))].any():
        return Gap(-np.inf, np.nan, np.inf, np.inf, tolerance, "NaN or infinity in one of them alone")
    ordinary = _ordinary(one, two) & ~_outlying(one, two, apart > tolerance)
    one, two = one[ordinary], two[ordinary]
    signal, noise, power = (float(np.dot(each, each)) for each in (one, one - two, two))
    sqnr = float(10 * np.log10(signal / noise)) if signal and noise else -np.inf  # without noise, a mask differs
    sqnr = sqnr if far or noise else np.inf
    cosine = float(np.dot(one, two) / np.sqrt(signal) / np.sqrt(power)) if signal and power else float(signal == power)
    return Gap(sqnr, min(cosine, 1.0), float(np.abs(one - two).max(initial=0.0)), far, tolerance)


def nearness(reference: Array, other: Array) -> float | None:
    """Return the difference of two tensors relative to both, 0 to 1; None where shape or kind of dtype differ."""
    if reference.shape != other.shape or (reference.dtype.kind in "iub") != (other.dtype.kind in "iub"):
        return None
    one, two = (array.astype(np.float64).ravel() for array in (reference, other))
    ordinary = _ordinary(one, two)
    odd = 1.0 - float(ordinary.mean()) if one.size and not np.array_equal(one, two, equal_nan=True) else 0.0
    one, two = one[ordinary], two[ordinary]
    sizes = float(np.linalg.norm(one) + np.linalg.norm(two))
    return odd + (float(np.linalg.norm(one - two)) / sizes if sizes else 0.0)


def _outlying(one: Array, two: Array, apart: Array) -> Array:
    """Return where both agree in a number that dwarfs all in which they do not, such as the -1e9 of a mask.

    Its square would be the whole signal, so no error of the scores beside it would exceed the tolerance. Numbers below
    that size always count: beside the 1 of a saturated softmax, small numbers are rounding errors.
    """
    if not apart.any():
        return apart
    magnitudes = np.maximum(np.abs(one), np.abs(two))
    return np.asarray(~apart & (magnitudes > _OUTLYING * max(1.0, float(magnitudes[apart].max()))))


def _ordinary(one: Array, two: Array) -> Array:
    """Return where both numbers are finite and no mask's; a comparison with NaN is false."""
    return np.asarray((np.abs(one) < _MASKED) & (np.abs(two) < _MASKED))
