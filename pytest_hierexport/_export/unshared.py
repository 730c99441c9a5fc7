"""Copies the tensors that a graph has in common with a model, where they are about to change.

dynamo's graph has the very parameters and buffers of the model. A class may write to its own when it goes into eval
mode (LoRA merges two weights into one) and back when it leaves it: the graph keeps what they were in eval mode.

:func:`mode_checksums` is asked before the model goes into eval mode, :func:`changed` in that mode, and :func:`unshare`
copies what has changed in between.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import torch
from onnx_ir.tensor_adapters import TorchTensor

from pytest_hierexport._export.capture import Capture
from pytest_hierexport._onnx.graph import initializers_ir


def mode_checksums(model: torch.nn.Module) -> dict[torch.Tensor, int | None]:
    """Return a checksum of each parameter and buffer that a model may write to as it goes into eval mode.

    Only modules that have a `train` or an `eval` of their own write to any. All models of transformers have these: so
    checksums are kept, for copies would need as much memory as the model.
    """
    base, modules = torch.nn.Module, list(model.modules())
    if not any(getattr(module, "training", False) for module in modules):
        return {}
    own = [each for each in modules if type(each).train is not base.train or type(each).eval is not base.eval]
    found = dict.fromkeys(tensor for each in own for tensor in (*each.parameters(), *each.buffers()))
    return {tensor: _checksum(tensor) for tensor in found}


def changed(checksums: Mapping[torch.Tensor, int | None]) -> frozenset[int]:
    """Return the `id`s of the tensors that were written to since."""
    return frozenset(id(tensor) for tensor, before in checksums.items() if _checksum(tensor) != before)


def _checksum(tensor: torch.Tensor) -> int | None:
    try:
        return zlib.crc32(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    except Exception:  # noqa: BLE001  # fake tensors have no elements, and sparse ones another form
        return None


def unshare(capture: Capture, written: AbstractSet[int]) -> None:
    """Give both graphs of a capture copies of some of the model's tensors, named by their `id`."""
    copies: dict[int, TorchTensor] = {}
    for value in initializers_ir(capture.after):
        tensor = value.const_value
        raw = getattr(tensor, "raw", None)
        if isinstance(raw, torch.Tensor) and id(raw) in written:
            if id(tensor) not in copies:
                copies[id(tensor)] = TorchTensor(raw.detach().clone(), name=value.name)
            value.const_value = copies[id(tensor)]
    for before in capture.before.initializers.values():
        before.tensor = copies.get(id(before.tensor), before.tensor)
