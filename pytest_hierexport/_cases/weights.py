"""Weights that tell every value from every other.

Stock initialisation makes equal biases, unit norms, zero tables and layer scales of a millionth, and equal values
prove nothing: a tag on the wrong layer would pass. :func:`randomise` makes every floating value generic and keeps
the model's numbers sane.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["randomise"]

_JITTER = 0.1
"""How far, relative to it, a value that must keep its sign and meaning may move."""
_SMALL = 0.05
"""The spread of values that stood at zero: small beside activations of order one, large beside rounding."""
_NEGLIGIBLE = _SMALL / 10
"""Parameters nearer to zero than this would switch off what they scale."""
_MATRIX = 2
"""From this rank on a parameter mixes features; below it, it scales or shifts them."""


def randomise(model: torch.nn.Module, seed: int = 0) -> None:
    """Make every floating parameter and buffer of a model generic, in place.

    What a tensor is for is read from its rank, signs and present values alone:

    - a parameter of rank two or more with values of both signs is drawn anew, with the mean and spread that it has,
      or a spread of one over the root of its fan-in where that is larger;
    - a buffer with different values keeps each up to a relative jitter, zeros and infinities included, so that a
      table of frequencies or a mask stays one;
    - all else is jittered too, with zeros (and parameters next to zero) becoming small values of either sign: a norm's
      weight stays near one and a variance positive.

    Integers, booleans and complex numbers stay as they are, and so does what has no storage (the meta device).

    Args:
        model: Left in its mode and on its device. A tensor under two names is changed once.
        seed: Equal seeds give equal weights, whatever device the model is on and whatever else draws numbers.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor, is_parameter in _floating_tensors(model):
            present = tensor.detach().to("cpu", torch.float64)
            noise = torch.randn(present.shape, generator=generator, dtype=present.dtype)
            fresh = _parameter(present, noise) if is_parameter else _buffer(present, noise)
            limits = torch.finfo(tensor.dtype)
            finite = fresh.clamp(limits.min, limits.max).where(fresh.isfinite(), fresh)
            tensor.copy_(finite)


def _floating_tensors(model: torch.nn.Module) -> Iterator[tuple[torch.Tensor, bool]]:
    """Yield the storage of each floating tensor once, and whether it is a parameter."""
    for tensors, is_parameter in ((model.parameters(), True), (model.buffers(), False)):
        for tensor in tensors:
            if tensor.is_floating_point() and tensor.numel() and not tensor.is_meta:
                yield _unexpanded(tensor), is_parameter


def _unexpanded(tensor: torch.Tensor) -> torch.Tensor:
    """Keep one of the elements that `expand` shows many times over: torch refuses to write to all of them."""
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _parameter(values: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    if values.dim() >= _MATRIX and not _one_sign(values):
        return values.mean() + _spread(values) * noise
    return _jittered(values, noise, negligible=_NEGLIGIBLE)


def _buffer(values: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    # A zero in a table or mask means something; a buffer of zeros alone is a statistic that nobody has gathered yet.
    constant = bool((values == values.flatten()[0]).all())
    return _jittered(values, noise, negligible=0 if constant else -1)


def _jittered(values: torch.Tensor, noise: torch.Tensor, negligible: float) -> torch.Tensor:
    return (_SMALL * noise).where(values.abs() <= negligible, values * (1 + _JITTER * noise.tanh()))


def _one_sign(values: torch.Tensor) -> bool:
    return bool((values > 0).all() or (values < 0).all())


def _spread(values: torch.Tensor) -> float:
    fan_in = values[0].numel()
    return max(values.std(correction=0).item(), 1 / math.sqrt(fan_in))
