"""What every module call of an eager run takes and gives, by value."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, wraps
from typing import Any, Protocol

import torch
from torch.utils.weak import WeakIdKeyDictionary

from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.modules import Instances
from pytest_hierexport._export.recorder import CallRecorder
from pytest_hierexport._export.state import as_found, in_eval_mode, replaced
from pytest_hierexport._proof.tensors import show, show_number, state_of, walk
from pytest_hierexport._proof.values import Values

__all__ = ["EagerCall", "Mode", "ModelError", "Runnable", "run_eager", "run_model"]


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


class ModelError(UsageError):
    """A model that does not run on its inputs, in one mode at least."""


class Mode(Enum):
    """What a model is told of how it runs: many build a mask only while they are captured."""

    EXPORTING = "exporting"
    """As `torch.export` captures it."""
    TRACING = "tracing"
    """As TorchScript traces it."""
    PLAIN = "plain"
    """As its users run it."""


@dataclass(frozen=True)
class EagerCall:
    """The values of one call, by number, with the place where each was found."""

    call: Call
    """Named as it was seen: every run under a path counts, those in branches and loops among them."""
    start: int
    """Its place in the order in which calls began."""
    in_body: bool
    """Whether it was made in a branch or a loop that torch captures as one operator."""
    inputs: dict[int, str]
    """Tensors and numbers among arguments, inside objects and caches, and captured attributes, on entry."""
    returned: dict[int, str]
    """Tensors that the call returned. Its numbers are no values that a graph must have: most stay in Python."""
    effects: frozenset[int]
    """What arguments, caches and captured attributes held when the call ended, and the numbers that it returned."""
    settings: frozenset[int] = frozenset()
    """The inputs that are Python numbers alone: no call made them, and most never were a value of the graph."""

    @cached_property
    def given(self) -> frozenset[int]:
        """What others may have from the call: what it returned or left behind, and what it was given itself."""
        return frozenset((*self.returned, *self.effects, *self.inputs))


def run_eager(example: Runnable, hierarchy: Hierarchy, values: Values, mode: Mode) -> list[EagerCall]:
    """Run the model once and record every call.

    Returns:
        The calls in the order in which they ended.
    """
    instances = Instances(example.model)
    watcher = _Watcher(instances, values)
    recorder = CallRecorder(instances, known=hierarchy, observer=watcher)
    with watcher.following(), recorder.listening():
        run_model(example, mode)
    return watcher.calls


def run_model(example: Runnable, mode: Mode) -> Any:
    """Run the model on a copy of its example inputs, in eval mode and without gradients; return what it returns.

    What is compiled runs uncompiled, for a compiled module's calls cannot be seen. The model is left as it was found.

    Raises:
        ModelError: The model does not run in this mode.
    """
    args, kwargs = _copied((tuple(example.args), dict(example.kwargs)))
    with as_found(example.model), in_eval_mode(example.model), torch.no_grad(), _uncompiled(), _told(mode):
        try:
            return example.model(*args, **kwargs)
        except Exception as error:
            raise ModelError(
                "a model that runs on the example's inputs",
                found=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
                do="run the model on them once by itself, and mend what it raises",
            ) from error


def _copied(inputs: Any) -> Any:
    """Copy inputs with all that they hold; tensors without the history that forbids a copy."""
    tensors = (part for _, part in walk(inputs) if isinstance(part, torch.Tensor))
    return copy.deepcopy(inputs, {id(tensor): tensor.detach().clone() for tensor in tensors})


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Run what is compiled as it stands."""
    regions = importlib.import_module("torch._higher_order_ops.invoke_subgraph")  # its package hides the module
    # A region that is to be compiled once would, while exporting, be compiled for ever.
    with torch.compiler.set_stance("force_eager"), replaced(regions, "invoke_subgraph_placeholder", _run):
        yield


@contextmanager
def _told(mode: Mode) -> Iterator[None]:
    """Let the model find out in what mode it runs, if it asks."""
    with ExitStack() as stack:
        if mode is Mode.EXPORTING:
            stack.enter_context(replaced(torch.compiler, "_is_compiling_flag", value=True))
            stack.enter_context(replaced(torch.compiler, "_is_exporting_flag", value=True))
        elif mode is Mode.TRACING:
            stack.enter_context(replaced(torch.jit, "is_tracing", lambda: True))
        yield


def _run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@dataclass
class _Entered:
    start: int
    in_body: bool
    inputs: dict[int, str]
    settings: frozenset[int]
    holders: tuple[Any, ...]
    modules: list[torch.nn.Module]


@dataclass
class _Watcher:
    """Takes the snapshots while the model runs: a tensor may be changed in place right afterwards."""

    instances: Instances
    values: Values
    calls: list[EagerCall] = field(default_factory=list)
    _begun: int = 0
    _bodies: int = 0
    _open: dict[str, _Entered] = field(default_factory=dict)
    _seen: Any = field(default_factory=WeakIdKeyDictionary)
    _unchanged: Any = field(default_factory=WeakIdKeyDictionary)
    _below: dict[str, list[torch.nn.Module]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for module in self.instances.root.modules():
            below = list(module.modules())
            self._below.update(dict.fromkeys(self.instances.paths(module), below))
            for _, tensor in _held(module):
                self._unchanged[tensor] = state_of(tensor)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Notice when a branch or a loop runs its body."""
        operator = torch._ops.HigherOrderOperator
        with replaced(operator, "__call__", self._noticed(operator.__call__)):
            yield

    def _noticed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._bodies += 1
            try:
                return original(*args, **kwargs)
            finally:
                self._bodies -= 1

        return call

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the inputs of a call."""
        modules = self._below[call.path]
        held = list(walk((args, kwargs)))
        captured = self._captured(modules)
        inputs = self._numbers_of(held) | captured
        settings = frozenset(inputs.keys() - self._tensors_of(held).keys() - captured.keys())
        self._open[call.name] = _Entered(self._begun, self._bodies > 0, inputs, settings, (args, kwargs), modules)
        self._begun += 1

    def left(self, call: Call, output: Any) -> None:
        """Record the outputs of a call."""
        entered = self._open.pop(call.name)
        returned = self._tensors_of(walk(output))
        left = self._numbers_of((label, part) for label, part in walk(output) if not isinstance(part, torch.Tensor))
        effects = frozenset((*left, *self._tensors_of(walk(entered.holders)), *self._captured(entered.modules)))
        self.calls.append(
            EagerCall(call, entered.start, entered.in_body, entered.inputs, returned, effects, entered.settings)
        )

    def _captured(self, modules: list[torch.nn.Module]) -> dict[int, str]:
        """Tensors on the call's module or below it that this pass has put there or changed."""
        found = (
            (f"captured {name}", tensor)
            for module in modules
            for name, tensor in _held(module)
            if self._unchanged.get(tensor) != state_of(tensor)
        )
        return self._tensors_of(found)

    def _tensors_of(self, found: Iterable[tuple[str, Any]]) -> dict[int, str]:
        return self._numbers_of((label, part) for label, part in found if isinstance(part, torch.Tensor))

    def _numbers_of(self, found: Iterable[tuple[str, Any]]) -> dict[int, str]:
        numbers: dict[int, str] = {}
        for label, part in found:
            for number in self._number(part):
                numbers.setdefault(number, label)
        return numbers

    def _number(self, part: Any) -> list[int]:
        if not isinstance(part, torch.Tensor):
            return [self.values.add(shown) for shown in show_number(part)]
        known, state = self._seen.get(part), state_of(part)
        if known is None or known[0] != state:
            shown = show(part)
            known = state, [] if shown is None else [self.values.add(shown)]
            self._seen[part] = known
        return list(known[1])


def _held(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors among a module's buffers and plain attributes; parameters never depend on an input."""
    for name, buffer in module._buffers.items():
        if buffer is not None:
            yield name, buffer
    for name, value in vars(module).items():
        if not isinstance(value, _SETTINGS) and name not in _OWN:
            for label, part in walk(value, name):
                if isinstance(part, torch.Tensor):
                    yield label, part


_SETTINGS = (str, bool, int, float, type(None))
_OWN = frozenset(vars(torch.nn.Module()))
"""What `torch.nn.Module` itself keeps on every instance: parameters, buffers, submodules, hooks, flags."""
