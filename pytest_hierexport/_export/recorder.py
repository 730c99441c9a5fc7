"""Names the calls of a forward pass while the model runs.

The same recorder serves a capture, where torch runs the model on fake tensors, and an eager run, so that both
know a call by the same name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from types import FunctionType
from typing import Any, Protocol

import torch

from pytest_hierexport._calls.hierarchy import ROOT, Call, Hierarchy
from pytest_hierexport._export.faults import calls_on
from pytest_hierexport._export.modules import Instances
from pytest_hierexport._export.state import replaced


class Observer(Protocol):
    """Sees the calls as they happen."""

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """See a call begin with these inputs."""

    def left(self, call: Call, output: Any) -> None:
        """See a call end with this output; one that failed does not come here."""


class Tracer:
    """What a tracer knows of the modules that run under it; this one stands for none."""

    def accessed(self, _module: torch.nn.Module) -> str | None:
        """Return the path by which the caller reached the module that is being called, where that is known."""
        return None

    def pushing(self, _module: torch.nn.Module) -> Callable[[Callable[[], Any]], Any] | None:
        """Return what runs a call so that the tracer knows of its module; None where it knows."""
        return None

    def opened(self) -> None:
        """Remember that a call begins."""

    def closed(self) -> None:
        """Forget the call that began last."""

    def run_foreign(self, _module: torch.nn.Module, function: Callable[[], Any], _args: tuple[Any, ...]) -> Any:
        """Run what a call of a module does that is not the model's."""
        return function()


@dataclass
class CallRecorder:
    """Names each call of a model that runs, from the moment its root is called."""

    instances: Instances
    observer: Observer
    known: Hierarchy | None = None
    """Calls recorded before: an instance that its caller holds under several names is given the name it had then.
    Without them it gets its names in the order of its calls."""
    tracer: Tracer = field(default_factory=Tracer)
    calls: dict[str, Call] = field(default_factory=dict)
    """The calls of the latest pass, by name, in execution order."""
    _open: list[tuple[Call, int]] = field(default_factory=list)
    _runs: dict[str, int] = field(default_factory=dict)
    _positions: dict[tuple[str, int], int] = field(default_factory=dict)

    @contextmanager
    def listening(self) -> Iterator[CallRecorder]:
        """Listen to every module call of this process while the context lasts."""
        with ExitStack() as stack:
            # Every call of a module ends in this method, in an eager run and under torch's tracers, which replace
            # `__call__` by their own; unlike torch's global hooks it sees keyword arguments, calls that fail and
            # the output after the module's own hooks.
            impl = self._observed(torch.nn.Module._call_impl, self._is_of_a_pass)
            stack.enter_context(replaced(torch.nn.Module, "_call_impl", impl))
            for cls in self.instances.classes():
                forward = vars(cls).get("forward")
                if isinstance(forward, FunctionType):
                    stack.enter_context(replaced(cls, "forward", self._observed(forward, self._is_run_by_forward)))
            yield self

    def _is_of_a_pass(self, module: torch.nn.Module) -> bool:
        return bool(self._open) or self.instances.is_root(module)

    def _is_run_by_forward(self, module: torch.nn.Module) -> bool:
        """A module may be run by its `forward` instead of being called: that is a call of it all the same."""
        return bool(self._open) and self._open[-1][1] != id(vars(module))

    def _observed(
        self, original: Callable[..., Any], concerns: Callable[[torch.nn.Module], bool]
    ) -> Callable[..., Any]:
        # One frame and no more: torch notes the Python stack with every operation, and reads each frame's source.
        @calls_on
        @functools.wraps(original)
        def observed(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_dynamo_compiling() or not concerns(module):
                return original(module, *args, **kwargs)
            if not self.instances.paths(module):
                return self.tracer.run_foreign(module, calls_on(lambda: original(module, *args, **kwargs)), args)
            if (push := self.tracer.pushing(module)) is not None:
                return push(functools.partial(observed, module, *args, **kwargs))
            call = self._begin(module)
            try:
                self.observer.entered(call, args, kwargs)
                output = original(module, *args, **kwargs)
                self.observer.left(call, output)
                return output
            finally:
                self.tracer.closed()
                self._open.pop()

        return observed

    def _begin(self, module: torch.nn.Module) -> Call:
        if self.current is None:
            # torch may run the model again after a first try.
            self.calls.clear()
            self._runs.clear()
            self._positions.clear()
        call = self.add(module, self.current, self.tracer.accessed(module))
        self._open.append((call, id(vars(module))))
        self.tracer.opened()
        return call

    @property
    def current(self) -> Call | None:
        """The innermost call that is open now."""
        return self._open[-1][0] if self._open else None

    def add(self, module: torch.nn.Module, caller: Call | None, accessed: str | None = None) -> Call:
        """Record one more call of a module, made by `caller`, which reached it as `accessed`, where that is known."""
        path = self._path(module, caller, accessed)
        index = self._runs.get(path, 0)
        self._runs[path] = index + 1
        parent = caller.name if caller is not None else None
        call = Call(path, index, self.instances.class_of(module), parent)
        self.calls[call.name] = call
        return call

    def _path(self, module: torch.nn.Module, caller: Call | None, accessed: str | None) -> str:
        paths = self.instances.paths(module)
        if accessed is not None and accessed in paths:
            return accessed
        if caller is None or len(paths) == 1:
            return paths[0]
        held = [path for path in paths if caller.path == ROOT or path.startswith(f"{caller.path}.")] or paths
        key = (caller.name, id(vars(module)))
        position = self._positions.get(key, 0)
        self._positions[key] = position + 1
        return self._as_known(caller, paths, position) or held[position % len(held)]

    def _as_known(self, caller: Call, paths: list[str], position: int) -> str | None:
        """Return the path that this caller's call at this position had when the calls were first recorded."""
        if self.known is None or caller.name not in self.known:
            return None
        made = (self.known[child].path for child in self.known.children[caller.name])
        return next(islice((path for path in made if path in paths), position, None), None)
