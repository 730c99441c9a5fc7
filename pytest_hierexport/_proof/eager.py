"""Runs the model eagerly and records the values that every module call takes and gives."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, wraps
from typing import Any, Protocol, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.weak import WeakIdKeyDictionary

from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.modules import Instances
from pytest_hierexport._export.recorder import CallRecorder
from pytest_hierexport._export.state import ONE_AT_A_TIME, as_found, in_eval_mode, replaced
from pytest_hierexport._proof.tensors import fingerprint_of, fingerprints_of_number, walk
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
Keep = Callable[[int, torch.Tensor], None]
"""Takes the number of a value of the eager run, and a tensor that has it now."""


class ModelError(UsageError):
    """A model does not run on its inputs in one mode."""


class Mode(Enum):
    """The way in which a model runs, as torch reports it to the model: some compute other values while captured."""

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
    """Its name in the eager run: the index counts every run under the path, those in branches and loops too."""
    start: int
    """Its place in the order in which calls began."""
    in_body: bool
    """Whether a branch or a loop made it that torch captures as one operator."""
    inputs: dict[int, str]
    """Tensors and numbers among arguments, inside objects and caches, and captured attributes, on entry."""
    returned: dict[int, str]
    """Tensors that the call returned. The graph need not have the numbers that it returned: most stay in Python."""
    effects: frozenset[int]
    """Tensors in arguments, caches and captured attributes when the call ended, and the numbers that it returned."""
    settings: AbstractSet[int] = frozenset()
    """The inputs that are Python numbers alone. A fusion cannot remove them: otherwise a flag that the call was given
    would excuse a wrong tag (a counterexample of MUST-007)."""

    @cached_property
    def available(self) -> frozenset[int]:
        """The values that others may have from the call: those it returned, left behind or was given."""
        return frozenset((*self.returned, *self.effects, *self.inputs))


def run_eager(
    example: Runnable, hierarchy: Hierarchy, values: Values, mode: Mode, keep: Keep | None = None
) -> list[EagerCall]:
    """Run the model once and record every call.

    Args:
        example: The model with its inputs.
        hierarchy: The calls of the graph.
        values: Takes the values of the run.
        mode: The way in which the model runs.
        keep: Called with the number of every tensor among the inputs and outputs of calls, while it has this value.

    Returns:
        The calls in the order in which they ended.

    Raises:
        ModelError: The model does not run in this mode.
        UsageError: Its parameters have no numbers.
    """
    if any(isinstance(each, FakeTensor) for each in example.model.parameters()):
        raise UsageError(
            "a model with weights, whose values can be compared",
            found="one that was built without",
            do='name its factory, or remove weights = "none" where a manifest states it',
        )
    instances = Instances(example.model)
    watcher = _Watcher(instances, values, keep)
    recorder = CallRecorder(instances, known=hierarchy, observer=watcher)
    with ONE_AT_A_TIME, watcher.watching_bodies(), recorder.listening():
        run_model(example, mode)
    return watcher.calls


def run_model(example: Runnable, mode: Mode) -> Any:
    """Run the model on a copy of its example inputs, in eval mode and without gradients; return what it returns.

    Compiled modules run uncompiled, since their calls cannot be seen. The model is left as it was found.

    Raises:
        ModelError: The model does not run in this mode.
    """
    args, kwargs = _copied((tuple(example.args), dict(example.kwargs)))
    with ONE_AT_A_TIME, as_found(example.model), in_eval_mode(example.model), torch.no_grad(), _reported(mode):
        try:
            return example.model(*args, **kwargs)
        except Exception as error:
            raise ModelError(
                "a model that runs on the example's inputs",
                found=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
                do="run the model on them once by itself, and correct what raises",
            ) from error


def in_each(ways: Iterable[WayT], run: Callable[[WayT], ResultT]) -> Iterator[tuple[WayT, ResultT]]:
    """Run a model in several ways; yield each in which it runs, with the result.

    Raises:
        ModelError: It runs in none of them.
    """
    failures: list[ModelError] = []
    count = 0
    for way in ways:
        try:
            result = run(way)
        except ModelError as error:
            failures.append(error)
            continue
        count += 1
        yield way, result
    if failures and not count:
        raise failures[-1]


def _copied(inputs: Any) -> Any:
    """Copy inputs with all that they hold; tensors without their autograd history, which forbids a copy."""
    tensors = (part for _, part in walk(inputs) if isinstance(part, torch.Tensor))
    return copy.deepcopy(inputs, {id(tensor): tensor.detach().clone() for tensor in tensors})


@contextmanager
def _reported(mode: Mode) -> Iterator[None]:
    """Report the mode to a model that asks torch for it, and run compiled functions as plain Python."""
    is_exporting = mode is Mode.EXPORTING
    regions = importlib.import_module("torch._higher_order_ops.invoke_subgraph")  # its package hides the module
    with (
        torch.compiler.set_stance("force_eager"),
        # While exporting, torch would compile a region that is marked to be compiled once.
        replaced(regions, "invoke_subgraph_placeholder", lambda function, *args, **kwargs: function(*args, **kwargs)),
        replaced(torch.compiler, "_is_compiling_flag", is_exporting),
        replaced(torch.compiler, "_is_exporting_flag", is_exporting),
        replaced(torch.jit, "is_tracing", lambda: mode is Mode.TRACING),
    ):
        yield


@dataclass
class _Watcher:
    """Takes the fingerprints while the model runs: a tensor may be changed in place right afterwards."""

    instances: Instances
    values: Values
    keep: Keep | None = None
    calls: list[EagerCall] = field(default_factory=list)
    _begun: int = 0
    _bodies: int = 0
    _open: dict[str, tuple[EagerCall, Any]] = field(default_factory=dict)
    _seen: Any = field(default_factory=WeakIdKeyDictionary)
    """The version of each tensor and the numbers of its value."""
    _unchanged: Any = field(default_factory=WeakIdKeyDictionary)
    """The version of each tensor that a module held before the run."""
    _below: dict[str, list[torch.nn.Module]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for module in self.instances.root.modules():
            below = list(module.modules())
            self._below.update((path, below) for path in self.instances.paths(module))
            self._unchanged.update((tensor, _version(tensor)) for _, tensor in _held(module))

    @contextmanager
    def watching_bodies(self) -> Iterator[None]:
        """Count the bodies of branches and loops that are running."""
        original: Callable[..., Any] = torch._ops.HigherOrderOperator.__call__

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._bodies += 1
            try:
                return original(*args, **kwargs)
            finally:
                self._bodies -= 1

        with replaced(torch._ops.HigherOrderOperator, "__call__", call):
            yield

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the inputs of a call."""
        inputs, tensors = self._numbers_of(walk((args, kwargs)))
        captured, _ = self._numbers_of(self._captured(call.path))
        settings = inputs.keys() - tensors.keys() - captured.keys()
        seen = EagerCall(call, self._begun, self._bodies > 0, inputs | captured, {}, frozenset(), settings)
        self._open[call.name] = seen, (args, kwargs)
        self._begun += 1

    def left(self, call: Call, output: Any) -> None:
        """Record the outputs of a call."""
        seen, holders = self._open.pop(call.name)
        numbers, returned = self._numbers_of(walk(output))
        _, kept = self._numbers_of(walk(holders))
        captured, _ = self._numbers_of(self._captured(call.path))
        self.calls.append(replace(seen, returned=returned, effects=frozenset((*numbers, *kept, *captured))))

    def _captured(self, path: str) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors on a module or below it that this run has put there or changed.

        One module may pass a tensor to another in an attribute, such as the weights of its attention.
        """
        for module in self._below[path]:
            for name, tensor in _held(module):
                if self._unchanged.get(tensor) != _version(tensor):
                    yield f"captured {name}", tensor

    def _numbers_of(self, found: Iterable[tuple[str, Any]]) -> tuple[dict[int, str], dict[int, str]]:
        """Return the values of what was found, and of the tensors among it, each with its place."""
        all_of_them: dict[int, str] = {}
        tensors: dict[int, str] = {}
        for label, part in found:
            for number in self._number(part):
                all_of_them.setdefault(number, label)
                if isinstance(part, torch.Tensor):
                    tensors.setdefault(number, label)
        return all_of_them, tensors

    def _number(self, part: Any) -> list[int]:
        if not isinstance(part, torch.Tensor):
            return [self.values.add(found) for found in fingerprints_of_number(part, self.values.precision)]
        version = _version(part)
        known, numbers = self._seen.get(part, (None, []))
        if known is None or known != version:
            found = fingerprint_of(part, self.values.precision)
            numbers = [] if found is None else [self.values.add(found)]
            self._seen[part] = version, numbers
            if self.keep is not None:
                for number in numbers:
                    self.keep(number, part)
        return list(numbers)


def _version(tensor: torch.Tensor) -> int | bytes | None:
    """Return what differs after a write to a tensor; None where it cannot be known."""
    if not tensor.is_inference():
        return tensor._version
    found = fingerprint_of(tensor)  # torch does not count the writes in inference mode
    return None if found is None else found.digest()


def _held(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors among a module's buffers and plain attributes; parameters never depend on an input."""
    attributes = {name: value for name, value in vars(module).items() if name not in _OWN}
    for name, value in {**module._buffers, **attributes}.items():
        if not isinstance(value, _SETTINGS):
            yield from ((label, part) for label, part in walk(value, name) if isinstance(part, torch.Tensor))


_SETTINGS = (str, bool, int, float, type(None))
_OWN = frozenset(vars(torch.nn.Module()))
"""The attributes of every `torch.nn.Module`: parameters, buffers, submodules, hooks, flags."""
