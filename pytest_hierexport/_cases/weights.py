"""Randomises weights, so that no two values of a model are equal by initialisation.

PyTorch's initialisation makes equal biases, unit norms, zero tables and layer scales of 1e-6. With equal values a tag
on the wrong layer would be proven. :func:`randomise` makes each floating value generic and keeps activations in range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_JITTER = 0.1
"""The largest relative change of a value that keeps its sign and meaning."""
_SMALL = 0.05
"""The spread of values that were zero: small against activations of order one, large against rounding."""
_NEGLIGIBLE = _SMALL / 10
"""Parameters nearer to zero than this make the output of their layer vanish."""
_GAIN = 2
"""How many times as large as its input's the variance of a layer's output may be, before a ReLU halves it."""
_MATRIX = 2
"""From this rank on a parameter mixes features; below it, it scales or shifts them."""


def randomise(model: torch.nn.Module, seed: int = 0) -> None:
    """Make every floating parameter and buffer of a model generic, in place.

    Only the rank, the signs and the present values of a tensor decide:

    - a parameter of rank two or more with values of both signs is drawn anew, with its mean and its spread. The spread
      is at least the root of one over its fan-in, and at most the root of two over its longest dimension but the first;
    - a buffer with different values gets a relative jitter, which keeps zeros and infinities: a table of frequencies or
      a mask keeps its meaning;
    - all other tensors get the jitter too, and their zeros (and parameters next to zero) become small values of either
      sign: a norm's weight stays near one and a variance positive.

    Integers, booleans, complex numbers, sparse tensors and those without storage (the meta device, lazy modules) are
    unchanged.

    Args:
        model: Its mode and device are unchanged. A tensor under two names is changed once.
        seed: Equal seeds give equal weights, on any device.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    # A factory may make its model in this mode: torch lets no other mode write to such tensors.
    with torch.inference_mode():
        for tensor, is_parameter in _floating_tensors(model):
            present = tensor.detach().to("cpu", torch.float64)
            noise = torch.randn(present.shape, generator=generator, dtype=present.dtype)
            fresh = _parameter(present, noise) if is_parameter else _buffer(present, noise)
            limits = torch.finfo(tensor.dtype)
            finite = fresh.clamp(limits.min, limits.max).where(fresh.isfinite(), fresh)
            tensor.copy_(finite)


def _floating_tensors(model: torch.nn.Module) -> Iterator[tuple[torch.Tensor, bool]]:
    """Yield the storage of each floating tensor once, and whether it is a parameter."""
    import torch
    from torch.nn.parameter import is_lazy

    for tensors, is_parameter in ((model.parameters(), True), (model.buffers(), False)):
        for tensor in tensors:
            is_dense = tensor.layout is torch.strided and not tensor.is_meta and not is_lazy(tensor)
            if is_dense and tensor.is_floating_point() and tensor.numel():
                yield _unexpanded(tensor), is_parameter


def _unexpanded(tensor: torch.Tensor) -> torch.Tensor:
    """Return one of each element that `expand` repeats: torch refuses to write to repeated ones."""
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _parameter(values: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    if values.dim() >= _MATRIX and not _one_sign(values):
        return values.mean() + _spread(values) * noise
    return _jittered(values, noise, negligible=_NEGLIGIBLE)


def _buffer(values: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    # A zero in a table or mask has a meaning; a buffer of zeros alone is a statistic before training.
    constant = bool((values == values.flatten()[0]).all())
    return _jittered(values, noise, negligible=0 if constant else -1)


def _jittered(values: torch.Tensor, noise: torch.Tensor, negligible: float) -> torch.Tensor:
    return (_SMALL * noise).where(values.abs() <= negligible, values * (1 + _JITTER * noise.tanh()))


def _one_sign(values: torch.Tensor) -> bool:
    return bool((values > 0).all() or (values < 0).all())


def _spread(values: torch.Tensor) -> float:
    row = values[0]
    # Initialised by its fan-out, as most convolutions before a norm are, a projection from 4 n to n features doubles
    # what it is given. A norm in eval mode does not undo that: efficientnet_v2_s of torchvision grew until its sigmoids
    # saturated, and rounding hid 69 of its calls. The longest dimension stands for the fan-in: of stacked matrices
    # (experts, in, out) it is not known which of the other dimensions that is.
    most = math.sqrt(_GAIN / max(row.shape))
    return min(max(values.std(correction=0).item(), 1 / math.sqrt(row.numel())), most)
