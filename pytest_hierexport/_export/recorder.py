"""Names the calls of a forward pass while the model runs.

A capture, where torch runs the model on fake tensors, and an eager run use the same recorder. So a call has the same
name in both.

In goes a model, as :class:`Instances`. While it runs in :meth:`CallRecorder.listening`, its calls come into
`CallRecorder.calls`, and an :class:`Observer` is told of each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from traceback import walk_tb
from types import CodeType, FunctionType
from typing import Any

import torch

from pytest_hierexport._calls.hierarchy import ROOT, Call, Hierarchy
from pytest_hierexport._errors import chain
from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.modules import Instances
from pytest_hierexport._export.patching import replaced

_observing: set[CodeType] = set()
"""The code of the functions that run a call; the local variable `call` of such a frame holds it."""


def failed_call(error: BaseException) -> Call | None:
    """Return the innermost call in which an error was raised, or its first cause that was raised in one; else None."""
    frames = [frame for link in chain(error) for frame, _ in walk_tb(link.__traceback__)]
    found = (frame.f_locals.get("call") for frame in reversed(frames) if frame.f_code in _observing)
    return next((call for call in found if call is not None), None)


class Observer:
    """Is told of each call, and answers for the tracer under which the model runs; this base class knows of none."""

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Receive a call that begins, and its inputs."""

    def left(self, call: Call, output: Any) -> None:
        """Receive a call that has returned, and its output; it is not called for a call that raised."""

    def ended(self) -> None:
        """Receive that the innermost call ends, also by an error."""

    def accessed(self) -> str | None:
        """Return the path by which the caller reached the module that is being called; None where it is unknown."""
        return None

    def pushing(self, _module: torch.nn.Module) -> Callable[[Callable[[], Any]], Any] | None:
        """Return a function that runs a call with its module on the tracer's stack; None where the module is on it."""
        return None

    def run_foreign(self, _module: torch.nn.Module, function: Callable[[], Any], _args: tuple[Any, ...]) -> Any:
        """Run the call of a module that is not part of the model: `function` is the call, with its arguments bound."""
        return function()


@dataclass
class CallRecorder:
    """Names each call of a model while it runs, from the call of its root on."""

    instances: Instances
    observer: Observer = field(default_factory=Observer)
    known: Hierarchy | None = None
    """The calls of an earlier recording. An instance that its caller has under several names gets the name that it had
    there; without `known` it gets its names in turn, one for each call."""
    calls: dict[str, Call] = field(default_factory=dict)
    """The calls of the latest pass, by name, in execution order."""
    _open: list[tuple[Call, int]] = field(default_factory=list)
    """The open calls, each with the `id` of its module's attributes."""
    _runs: dict[str, int] = field(default_factory=dict)
    _positions: dict[tuple[str, int], int] = field(default_factory=dict)

    @contextmanager
    def listening(self) -> Iterator[CallRecorder]:
        """Observe every module call of this process while the context lasts."""
        with ExitStack() as stack:
            # Every call of a module runs this method: in an eager run, and under torch's tracers, which replace
            # `__call__`. torch's global hooks would not do: they see no keyword arguments, no calls that fail, and the
            # output before the module's own hooks.
            impl = self._observed(torch.nn.Module._call_impl, self._is_of_a_pass)
            stack.enter_context(replaced(torch.nn.Module, "_call_impl", impl))
            for cls in self.instances.classes():
                forward = vars(cls).get("forward")
                if isinstance(forward, FunctionType):
                    stack.enter_context(replaced(cls, "forward", self._observed(forward, self._is_run_by_forward)))
            for module in self.instances.by_id.values():
                # `Module.compile()` stores a compiled `_call_impl`, which would run in place of the observed one.
                if module._compiled_call_impl is not None:
                    stack.enter_context(replaced(module, "_compiled_call_impl", None))
                own = vars(module).get("forward")
                # accelerate and others set `forward` on instances. TorchScript keeps a compiled method there.
                if callable(own) and not isinstance(module, torch.jit.ScriptModule):
                    stack.enter_context(replaced(module, "forward", self._observed_own(module, own)))
            yield self

    def _is_of_a_pass(self, module: torch.nn.Module) -> bool:
        return bool(self._open) or self.instances.is_root(module)

    def _is_run_by_forward(self, module: torch.nn.Module) -> bool:
        """Whether a run of `forward` is a call of its own, and not part of the innermost open call.

        The root's is one where its class has a `__call__` of its own that runs `forward`.
        """
        return self._open[-1][1] != id(vars(module)) if self._open else self.instances.is_root(module)

    def _observed_own(self, module: torch.nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the `forward` of an instance; torch's exporter takes the names of inputs from its signature."""

        @calls_on
        def call(_: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            return forward(*args, **kwargs)

        observed = functools.partial(self._observed(call, self._is_run_by_forward), module)
        return functools.update_wrapper(observed, forward)

    def _observed(
        self, original: Callable[..., Any], concerns: Callable[[torch.nn.Module], bool]
    ) -> Callable[..., Any]:
        # One frame only: torch records the Python stack of every operation, and reads each frame's source.
        @calls_on
        @functools.wraps(original)
        def observed(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_dynamo_compiling() or not concerns(module):
                return original(module, *args, **kwargs)
            if not self.instances.paths(module):
                return self.observer.run_foreign(module, calls_on(lambda: original(module, *args, **kwargs)), args)
            if (push := self.observer.pushing(module)) is not None:
                return push(functools.partial(observed, module, *args, **kwargs))
            call = self._begin(module)  # `failed_call` reads this variable
            try:
                self.observer.entered(call, args, kwargs)
                output = original(module, *args, **kwargs)
                self.observer.left(call, output)
                return output
            finally:
                self.observer.ended()
                self._open.pop()

        recording: Callable[..., Any] = observed
        _observing.add(recording.__code__)
        return recording

    def _begin(self, module: torch.nn.Module) -> Call:
        if self.current is None:
            # The root begins: torch may run the model again after a first attempt.
            self.calls.clear()
            self._runs.clear()
            self._positions.clear()
        call = self.add(module, self.current, self.observer.accessed())
        self._open.append((call, id(vars(module))))
        return call

    @property
    def current(self) -> Call | None:
        """The innermost open call."""
        return self._open[-1][0] if self._open else None

    @property
    def open_calls(self) -> tuple[str, ...]:
        """The names of the open calls, the outermost first."""
        return tuple(call.name for call, _ in self._open)

    def add(self, module: torch.nn.Module, caller: Call | None, accessed: str | None = None) -> Call:
        """Record a call of a module by `caller`; `accessed` is the path by which the caller reached it, if known."""
        path = self._path(module, caller, accessed)
        index = self._runs.get(path, 0)
        self._runs[path] = index + 1
        parent = caller.name if caller is not None else None
        call = Call(path, index, self.instances.class_of(module), parent)
        self.calls[call.name] = call
        return call

    def _path(self, module: torch.nn.Module, caller: Call | None, accessed: str | None) -> str:
        """Return the path of a call.

        The accessed path, the module's only one, that of the earlier recording, or its paths below the caller in turn.
        """
        paths = self.instances.paths(module)
        if accessed is not None and accessed in self.instances.paths_of_equal(module):
            return accessed
        if caller is None or len(paths) == 1:
            return paths[0]
        held = [path for path in paths if caller.path == ROOT or path.startswith(f"{caller.path}.")] or paths
        key = (caller.name, id(vars(module)))
        position = self._positions.get(key, 0)
        self._positions[key] = position + 1
        return self._as_known(caller, paths, position) or held[position % len(held)]

    def _as_known(self, caller: Call, paths: list[str], position: int) -> str | None:
        """Return the path of the caller's call of this module at this position in `known`; None where it has none."""
        if self.known is None or caller.name not in self.known:
            return None
        made = (self.known[child].path for child in self.known.children[caller.name])
        return next(islice((path for path in made if path in paths), position, None), None)
