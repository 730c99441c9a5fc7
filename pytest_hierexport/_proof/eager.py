"""Runs the model eagerly and records the values that every module call takes and gives.

In go a model with its inputs and the way in which it runs (:class:`Mode`); out come its calls, in the order in which
they ended, by :func:`run_eager`. Their values are numbered in a :class:`values.Values`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from enum import Enum
from typing import Any, Protocol, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor

from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._errors import UsageError, pass_on
from pytest_hierexport._export.modules import Instances, lacks_weights
from pytest_hierexport._export.patching import ONE_AT_A_TIME, replaced
from pytest_hierexport._export.recorder import CallRecorder
from pytest_hierexport._export.state import as_found, in_eval_mode
from pytest_hierexport._proof.call_values import CallValues, EagerCall, Keep
from pytest_hierexport._proof.crossings import Crossings
from pytest_hierexport._proof.tensors import copied, walk
from pytest_hierexport._proof.values import Values


class Runnable(Protocol):
    """A model with its example inputs."""

    @property
    def model(self) -> torch.nn.Module:
        """The model."""

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional inputs."""

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Keyword inputs."""


WayT = TypeVar("WayT")
ResultT = TypeVar("ResultT")


class ModelError(UsageError):
    """A model does not run on its inputs in one mode."""


class Mode(Enum):
    """The way in which a model runs, as torch reports it to the model: some compute other values while captured."""

    EXPORTING = "exporting"
    """As `torch.export` captures it for ONNX."""
    TRACING = "tracing"
    """As TorchScript traces it for ONNX."""
    PROGRAM = "program"
    """As `torch.export` captures it by itself, before its program is exported to ONNX."""
    PLAIN = "plain"
    """As its users run it."""


def run_eager(
    example: Runnable,
    hierarchy: Hierarchy,
    values: Values,
    mode: Mode,
    keep: Keep | None = None,
    *,
    by_operation: bool = False,
    take: Callable[[Any], None] | None = None,
) -> list[EagerCall]:
    """Run the model once and record every call.

    Args:
        example: The model with its inputs.
        hierarchy: The calls of the graph.
        values: Takes the values of the run.
        mode: The way in which the model runs.
        keep: Called with the number of every tensor among the inputs and outputs of calls, while it has this value.
        by_operation: Whether the calls also have the values that their operations take from each other.
        take: Called with what the model returns.

    Returns:
        The calls in the order in which they ended.

    Raises:
        ModelError: The model does not run in this mode, or its own call is not seen: there would be nothing to prove.
        UsageError: Its parameters have no numbers.
    """
    if lacks_weights(example.model):
        raise UsageError(
            "a model with weights, whose values can be compared",
            found="one that was built without",
            do='name its factory, or remove weights = "none" where a manifest states it',
        )
    instances = Instances(example.model)
    watcher = CallValues(instances, values, keep)
    recorder = CallRecorder(instances, known=hierarchy, observer=watcher)
    crossings = Crossings(recorder, watcher) if by_operation else None
    watching = crossings or nullcontext()
    with ONE_AT_A_TIME, watcher.watching_bodies(), recorder.listening(), calling_submodules(), watching:
        returned = run_model(example, mode)
    if take is not None:
        take(returned)
    if not any(seen.call.name == ROOT for seen in watcher.calls):
        raise ModelError(
            "a model that runs its forward when it is called",
            found=f"{type(example.model).__name__} does not: its calls are not seen",
            do="run forward in the model's __call__",
        )
    return list(map(crossings.added_to, watcher.calls)) if crossings else watcher.calls


def run_model(example: Runnable, mode: Mode) -> Any:
    """Run the model on a copy of its example inputs, in eval mode and without gradients; return what it returns.

    Compiled code runs as plain Python, since its calls cannot be seen otherwise.

    Raises:
        ModelError: The model does not run in this mode, or returns fake tensors though it has weights.
    """
    args, kwargs = copied((tuple(example.args), dict(example.kwargs)))
    with ONE_AT_A_TIME, as_found(example.model), in_eval_mode(example.model), torch.no_grad(), _reported(mode):
        try:
            returned = example.model(*args, **kwargs)
        except BaseException as error:
            pass_on(error)
            raise ModelError(
                "a model that runs on the example's inputs",
                found=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
                do="run the model on them once by itself, and correct what raises",
            ) from error
    _check_numbers(example.model, returned)
    return returned


@contextmanager
def calling_submodules() -> Iterator[None]:
    """Keep torch's attention and encoder layers off the fused kernels that compute them without calling submodules.

    In eval mode without gradients, nn.TransformerEncoderLayer and nn.MultiheadAttention would take them, and the calls
    inside would have no verdict. No capture takes them.
    """
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _check_numbers(model: torch.nn.Module, returned: Any) -> None:
    """Raise a ModelError where a model that has weights returns a tensor without numbers.

    A cache outside the model (a global dictionary, `lru_cache`) keeps the fake tensor of an export for all later runs.
    """
    fakes = (place for place, part in walk(returned, "output") if isinstance(part, FakeTensor))
    if (place := next(fakes, None)) is None or lacks_weights(model):
        return
    raise ModelError(
        "a model that returns tensors with numbers",
        found=f"{place} is fake: {type(model).__name__} keeps a tensor that was made while it was exported, in a cache",
        do="keep the tensor in a buffer; or empty the cache, and run the model once before its export",
    )


def in_each(ways: Iterable[WayT], run: Callable[[WayT], ResultT]) -> Iterator[tuple[WayT, ResultT]]:
    """Run a model in several ways; yield each in which it runs, with the result.

    Raises:
        ModelError: It runs in none of them.
    """
    failure, has_run = None, False
    for way in ways:
        try:
            result = run(way)
        except ModelError as error:
            failure = error
            continue
        has_run = True
        yield way, result
    if failure is not None and not has_run:
        raise failure


@contextmanager
def _reported(mode: Mode) -> Iterator[None]:
    """Report the mode to a model that asks torch for it, and run compiled functions as plain Python."""
    is_exporting = mode in {Mode.EXPORTING, Mode.PROGRAM}
    # segmentation_models_pytorch's PSPNet pools by another function then; PyG and kornia ask, too.
    is_for_onnx = mode in {Mode.EXPORTING, Mode.TRACING}
    regions = importlib.import_module("torch._higher_order_ops.invoke_subgraph")  # its package hides the module
    with (
        torch.compiler.set_stance("force_eager"),
        # While exporting, torch would compile a region that is marked to be compiled once.
        replaced(regions, "invoke_subgraph_placeholder", lambda function, *args, **kwargs: function(*args, **kwargs)),
        replaced(torch.compiler, "_is_compiling_flag", is_exporting),
        replaced(torch.compiler, "_is_exporting_flag", is_exporting),
        replaced(torch.jit, "is_tracing", lambda: mode is Mode.TRACING),
        replaced(torch.onnx, "is_in_onnx_export", lambda: is_for_onnx),
        # Users get the fused kernels' numbers: nn.TransformerEncoder gives zeros at masked places.
        nullcontext() if mode is Mode.PLAIN else calling_submodules(),
    ):
        yield
