"""Copies the tensors that a graph has in common with a model, where they are about to change.

dynamo's graph has the very parameters and buffers of the model. A class may write to its own when it goes into eval
mode (LoRA merges two weights into one) and back when it leaves it: the graph keeps what they were in eval mode.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from onnx_ir.tensor_adapters import TorchTensor

from pytest_hierexport._export.capture import Capture


def unshare(capture: Capture, model: torch.nn.Module) -> None:
    """Give both graphs of a capture copies of the tensors that `train()` and `eval()` of the model may write to."""
    written = {id(tensor) for tensor in _written_by_mode(model)}
    copies: dict[int, TorchTensor] = {}
    for value in (value for graph in capture.after.graphs() for value in graph.initializers.values()):
        tensor = value.const_value
        raw = getattr(tensor, "raw", None)
        if isinstance(raw, torch.Tensor) and id(raw) in written:
            value.const_value = copies.setdefault(id(tensor), TorchTensor(raw.detach().clone(), name=value.name))
    for before in capture.before.initializers.values():
        before.tensor = copies.get(id(before.tensor), before.tensor)


def _written_by_mode(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield the parameters and buffers of the modules whose class has a `train` or an `eval` of its own."""
    base = torch.nn.Module
    for module in model.modules():
        if type(module).train is not base.train or type(module).eval is not base.eval:
            yield from module.parameters()
            yield from module.buffers()
