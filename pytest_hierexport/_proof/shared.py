"""Finds the tensors that share memory with what a call is given: it may write to them.

Where a model writes to a view, an exporter reads and writes the whole tensor:

    model    relu_(z[:2])
    graph    s = Slice(z, 0, 2)    r = Relu(s) [relu]    z2 = ScatterElements(z, r) [relu]

So `relu` was given z, and gave z2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pytest_hierexport._proof.fingerprints import Fingerprint
from pytest_hierexport._proof.tensors import has_elements, version_of


@dataclass(frozen=True)
class Shared:
    """A tensor as it was when a call began."""

    tensor: torch.Tensor
    version: int | bytes | None
    found: Fingerprint | None
    """Its fingerprint; None where it has no elements."""

    @property
    def was_written(self) -> bool:
        """Whether it was written since then."""
        return version_of(self.tensor) != self.version


Form = tuple[torch.Size, tuple[int, ...], int | torch.SymInt]
"""The size, the strides and the offset of a view."""


def form_of(tensor: torch.Tensor) -> tuple[torch.Tensor, Form] | None:
    """Return the tensor that another is a view of the whole of, and how it is viewed; None for other tensors."""
    base = tensor._base
    if base is None or not has_elements(tensor) or (base.dtype, base.numel()) != (tensor.dtype, tensor.numel()):
        return None
    return base, (tensor.size(), tensor.stride(), tensor.storage_offset())


def shared_with(
    found: Iterable[tuple[str, Any]],
    seen: Iterable[torch.Tensor],
    forms: Mapping[torch.Tensor, Iterable[Form]],
    fingerprint: Callable[[torch.Tensor], Fingerprint | None],
) -> list[Shared]:
    """Return the bases of those found that are views, and the tensors seen that are views of these, as they are now.

    What a layer returned may be a view already, of rows that the graph does not have: that of a linear layer is. It
    is gone where the model kept a part of it alone: `forms` has how the whole of each base was viewed, by all that was
    seen. torch keeps no such relation in inference mode.
    """
    parts = (part._base for _, part in found if isinstance(part, torch.Tensor))
    bases = {id(base): base for base in parts if base is not None}
    views = [each for each in seen if id(each._base) in bases and form_of(each) is None] if bases else []
    views += [base.as_strided(*form) for base in bases.values() for form in forms.get(base, ())]
    return [Shared(tensor, version_of(tensor), fingerprint(tensor)) for tensor in (*bases.values(), *views)]
