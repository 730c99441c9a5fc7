"""Digests a model and its run, so that two processes can tell whether they compute the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import torch

from pytest_hierexport._calls.hierarchy import Call
from pytest_hierexport._export.modules import Instances
from pytest_hierexport._export.patching import ONE_AT_A_TIME
from pytest_hierexport._export.recorder import CallRecorder, Observer
from pytest_hierexport._proof.eager import Mode, ModelError, Runnable, calling_submodules, run_model
from pytest_hierexport._proof.tensors import array_of, fingerprint_of, has_elements, walk


def state_digests(example: Runnable) -> dict[str, str]:
    """Return the SHA-256 of what a model is made of, by name and in its order.

    Listed are every module (`module layers.0`, with its class), parameter (`parameter layers.0.weight`), buffer and
    example input (`input[0]`), the last three with dtype, shape and elements.
    """
    model = example.model
    named: dict[str, object] = {f"parameter {name}": part for name, part in model.named_parameters()}
    named |= {f"buffer {name}": part for name, part in model.named_buffers()}
    named |= dict(walk((tuple(example.args), dict(example.kwargs)), "input"))
    modules = {f"module {name}": type(module).__qualname__ for name, module in model.named_modules()}
    classes = {name: hashlib.sha256(cls.encode("utf-8", "surrogatepass")).hexdigest() for name, cls in modules.items()}
    return {**classes, **{name: _digest(part) for name, part in named.items()}}


def _digest(part: object) -> str:
    tensor = part if isinstance(part, torch.Tensor) else torch.tensor(part)
    summed = hashlib.sha256(f"{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
    summed.update(array_of(tensor).tobytes() if has_elements(tensor) else b"")
    return summed.hexdigest()


def call_digests(example: Runnable) -> list[tuple[str, str]]:
    """Run the model eagerly; return each call's name with the SHA-256 of the tensors that it returned.

    The calls come in the order in which they ended; the list is empty where the model does not run.
    """
    observer = _Digests()
    recorder = CallRecorder(Instances(example.model), observer=observer)
    try:
        with ONE_AT_A_TIME, recorder.listening(), calling_submodules():
            run_model(example, Mode.PLAIN)
    except ModelError:
        return []
    return observer.found


@dataclass
class _Digests(Observer):
    """Digests what each call returns when it ends: a tensor may be changed in place right afterwards."""

    found: list[tuple[str, str]] = field(default_factory=list)

    def left(self, call: Call, output: Any) -> None:
        """Digest the output of a call."""
        summed = hashlib.sha256()
        for _, part in walk(output):
            found = fingerprint_of(part) if isinstance(part, torch.Tensor) else None
            summed.update(found.digest() if found is not None else repr(part).encode("utf-8", "surrogatepass"))
        self.found.append((call.name, summed.hexdigest()))
