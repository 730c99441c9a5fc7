"""Records the values that every module call takes and gives, while the model runs eagerly.

    forward             y = self.linear(x); return y.add_(1)
    call of the model   takes x, returns y + 1
    call of linear      takes x, returns y: as it was when the call ended

Each value has a number (:class:`values.Values`); equal tensors have the same one.

A :class:`CallValues` observes the run; its `calls` are the :class:`EagerCall` of each call, in the order in which they
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from pytest_hierexport._calls.hierarchy import Call
from pytest_hierexport._export.modules import Instances, distinct_modules
from pytest_hierexport._export.patching import replaced
from pytest_hierexport._export.recorder import Observer
from pytest_hierexport._proof.fingerprints import Fingerprint
from pytest_hierexport._proof.shared import Shared, form_of, shared_with
from pytest_hierexport._proof.tensors import fingerprint_of, fingerprints_of_number, held_by, version_of, walk
from pytest_hierexport._proof.values import Values

Keep = Callable[[int, torch.Tensor], None]
"""Takes the number of a value of the eager run, and a tensor that has it now."""


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
    """The inputs that are Python numbers alone, and tensors that the call wrote through a view. None of them is ever a
    lost input: with a flag as a lost input, wrong tags would pass (a counterexample of MUST-007)."""

    places: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The numbers of each place of the inputs; in `inputs` and `returned`, a number has its first place alone."""
    returned_places: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The numbers of each place of what it returned."""
    wholes: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Of each part of a tensor that the call returned, and that was written to afterwards: the whole, as it was."""
    kept: frozenset[int] = frozenset()
    """Tensors that it did not return, but left in arguments, caches and captured attributes. In a run that is watched
    by operation, also those that its own operations computed and those of other calls took."""

    @cached_property
    def available(self) -> frozenset[int]:
        """The values that others may have from the call: those it returned, left behind or was given."""
        return frozenset((*self.returned, *self.effects, *self.inputs))


@dataclass(frozen=True)
class _Part:
    """A part of a tensor that a call returned, while nothing has been written to the tensor."""

    call: int
    """The position of the call among those that have ended."""
    numbers: frozenset[int]
    base: torch.Tensor
    whole: list[Shared]
    """The tensor, in every form."""


@dataclass(frozen=True)
class _Running:
    """A call that has begun and has not ended."""

    seen: EagerCall
    holders: Any
    """Its arguments."""
    shared: list[Shared]
    """What shares memory with them."""
    parts: list[_Part] = field(default_factory=list)
    """What calls that it made have returned."""


@dataclass
class CallValues(Observer):
    """Takes the fingerprints while the model runs: a tensor may be changed in place right afterwards."""

    instances: Instances
    values: Values
    keep: Keep | None = None
    calls: list[EagerCall] = field(default_factory=list)
    passing: Callable[[torch.Tensor], None] | None = None
    """Called with each tensor that a call returns or leaves behind, while the call is open."""
    is_recording: bool = False
    """Whether values are being recorded now: the operations that run are not the model's."""
    _begun: int = 0
    _bodies: int = 0
    _open: dict[str, _Running] = field(default_factory=dict)
    _seen: Any = field(default_factory=WeakIdKeyDictionary)
    """The version of each tensor and the numbers of its value."""
    _forms: Any = field(default_factory=WeakIdKeyDictionary)
    """The forms in which the whole of each tensor was seen in another shape."""
    _unchanged: Any = field(default_factory=WeakIdKeyDictionary)
    """The version of each tensor that a module held before the run."""
    _below: dict[str, list[torch.nn.Module]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for module in self.instances.by_id.values():
            below = distinct_modules(module)
            self._below.update((path, below) for path in self.instances.paths(module))
            self._unchanged.update((tensor, version_of(tensor)) for _, tensor in held_by(module))

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

    @contextmanager
    def _recording(self) -> Iterator[None]:
        self.is_recording = True
        try:
            yield
        finally:
            self.is_recording = False

    def entered(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the inputs of a call."""
        with self._recording():
            found = list(walk((args, kwargs)))
            inputs, tensors, places = self._numbers_of(found)
            captured, _, more = self._numbers_of(self._captured(call.path))
            settings = inputs.keys() - tensors.keys() - captured.keys()
            seen = EagerCall(call, self._begun, self._bodies > 0, inputs | captured, {}, frozenset(), settings)
            seen = replace(seen, places=places | more)
            self._open[call.name] = _Running(seen, (args, kwargs), self._shared_with(found))
            self._begun += 1

    def left(self, call: Call, output: Any) -> None:
        """Record the outputs of a call."""
        with self._recording():
            running, found = self._open.pop(call.name), list(walk(output))
            seen = running.seen
            held, captured = list(walk(running.holders)), list(self._captured(call.path))
            if self.passing is not None:
                for tensor in (part for _, part in (*found, *held, *captured) if isinstance(part, torch.Tensor)):
                    self.passing(tensor)
            numbers, returned, places = self._numbers_of(found)
            _, left, _ = self._numbers_of((*held, *captured))
            written = [each for each in running.shared if each.was_written]
            read = {self.values.add(each.found): "written" for each in written if each.found is not None}
            given, *_ = self._numbers_of(("", each.tensor) for each in written)
            seen = replace(seen, inputs=read | seen.inputs, settings=seen.settings | read.keys() - seen.inputs.keys())
            effects = frozenset((*numbers, *left, *given))
            kept = frozenset(left.keys() - returned.keys() - seen.inputs.keys())
            self.calls.append(replace(seen, returned=returned, returned_places=places, effects=effects, kept=kept))
            unwritten = list(self._with_wholes(running.parts))
            if call.parent in self._open:
                bases = {id(part._base) for _, part in found if isinstance(part, torch.Tensor)}
                passed_on = [part for part in unwritten if id(part.base) in bases]
                self._open[call.parent].parts.extend((*passed_on, *self._parts(found)))

    def _parts(self, found: Iterable[tuple[str, Any]]) -> Iterator[_Part]:
        """Yield the parts of tensors among what the last call returned; what a module holds, none writes to."""
        wholes: dict[int, list[Shared]] = {}
        for label, part in found:
            base = part._base if isinstance(part, torch.Tensor) else None
            if base is None or form_of(part) or isinstance(base, torch.nn.Parameter) or base in self._unchanged:
                continue
            if id(base) not in wholes:
                wholes[id(base)] = self._shared_with([(label, part)])
            yield _Part(len(self.calls) - 1, frozenset(self.number(part)), base, wholes[id(base)])

    def _with_wholes(self, parts: Iterable[_Part]) -> Iterator[_Part]:
        """Let calls give the whole of which they returned a part, if it was written to; yield the other parts.

        An exporter writes the part into the whole, and takes the parts anew:

            model    h = self.first(x); h /= 2; return h       # `first` returned z[:, 0]
            graph    h = Gather(z) [first]    d = Div(h, 2)    z2 = ScatterElements(z, d)    r = Gather(z2)
        """
        for part in parts:
            if not any(each.was_written for each in part.whole):
                yield part
                continue
            seen = self.calls[part.call]
            whole = frozenset(self.values.add(each.found) for each in part.whole if each.found is not None)
            wholes = {**seen.wholes, **dict.fromkeys(part.numbers, whole)}
            self.calls[part.call] = replace(seen, effects=seen.effects | whole, wholes=wholes)

    def _captured(self, path: str) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors on a module or below it that this run has put there or changed.

        One module may pass a tensor to another in an attribute, such as the weights of its attention.
        """
        for module in self._below[path]:
            for name, tensor in held_by(module):
                if self._unchanged.get(tensor) != version_of(tensor):
                    yield f"captured {name}", tensor

    def _numbers_of(
        self, found: Iterable[tuple[str, Any]]
    ) -> tuple[dict[int, str], dict[int, str], dict[str, frozenset[int]]]:
        """Return the values of what was found, of the tensors among it, each with its first place, and all places."""
        all_of_them: dict[int, str] = {}
        tensors: dict[int, str] = {}
        places: dict[str, frozenset[int]] = {}
        for label, part in found:
            numbers = self.number(part)
            places[label] = frozenset(numbers)
            for number in numbers:
                all_of_them.setdefault(number, label)
                if isinstance(part, torch.Tensor):
                    tensors.setdefault(number, label)
        return all_of_them, tensors, places

    def number(self, part: Any) -> list[int]:
        """Return the numbers of a tensor's value as it is now, or those of a Python number."""
        if not isinstance(part, torch.Tensor):
            return [self.values.add(found) for found in fingerprints_of_number(part, self.values.precision)]
        version = version_of(part)
        known, numbers = self._seen.get(part, (None, []))
        if known != version:
            found = fingerprint_of(part, self.values.precision)
            numbers = [] if found is None else [self.values.add(found)]
            self._seen[part] = version, numbers
            if (viewed := form_of(part)) is not None:
                self._forms.setdefault(viewed[0], set()).add(viewed[1])
            if self.keep is not None:
                for number in numbers:
                    self.keep(number, part)
        return list(numbers)

    def _shared_with(self, found: Iterable[tuple[str, Any]]) -> list[Shared]:
        return shared_with(found, self._seen, self._forms, self._fingerprint)

    def _fingerprint(self, tensor: torch.Tensor) -> Fingerprint | None:
        """Return the fingerprint of a tensor; that of its value, where the value has a number."""
        known, numbers = self._seen.get(tensor, (None, []))
        if numbers and known == version_of(tensor):
            return self.values[numbers[0]]
        return fingerprint_of(tensor, self.values.precision)
