"""Makes a model thin: every module stays, and the sizes of a configuration are halved as often as the model runs.

    LlamaConfig(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, …)      70 billion parameters
    LlamaConfig(hidden_size=64, intermediate_size=224, num_hidden_layers=80, …)          8 million, the same modules

Which numbers of a configuration are widths is found by trial: with half the number, the model has fewer parameters and
still the same modules, which call the same operators; axes that differ in a call still differ, since a graph depends
on which are equal. The models of trials have no weights, so they take no memory.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_hierexport._cases.example import Example
from pytest_hierexport._cases.weightless import without_weights

ENOUGH = 8_000_000
"""The number of parameters at which a model is thin."""
_MOST_PAIRS = 60
"""How many pairs of numbers are tried together, of those that cannot be halved alone."""
_LEAST = 4
"""The smallest number that is halved: sizes of one change what a graph looks like."""
_PAIRED = 3
"""From this rank on, equal axes of two tensors mean that they are paired; a matrix product has them by accident."""

Place = tuple[str, ...]
"""Where a configuration has a number: the names on the way through nested configurations."""
Call = tuple[str, tuple[tuple[int, ...], ...]]
Module = tuple[str, str, tuple[tuple[str, int], ...]]


def structure(model: torch.nn.Module) -> list[Module]:
    """Return the modules of a model: path, class, and its own parameters with their ranks."""
    return [
        (path, _class_name(module), tuple((name, each.dim()) for name, each in module.named_parameters(recurse=False)))
        for path, module in model.named_modules()
    ]


def _class_name(module: torch.nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


@dataclass(frozen=True)
class Sizes:
    """The numbers of a configuration that were cut, for those who want to know what was proven."""

    config: Any
    parameters: int
    """How many the model has with it."""
    cut: dict[str, tuple[Any, Any]]
    """By the place of the number: what it was and what it is."""


def thin_config(example: Example, config: Any) -> Sizes:
    """Return the configuration of a model with its widths cut.

    Args:
        example: The model, which may have no weights, and the inputs that it runs on.
        config: Its configuration, which its class takes as the only argument.
    """
    trials = _Trials(example, config)
    active = trials.widths()
    while active and trials.parameters > ENOUGH:
        if trials.cut([place for unit in active for place in unit]):
            continue
        active = [unit for unit in active if trials.parameters > ENOUGH and trials.cut(unit)]
    return trials.restored()


class _Trials:
    """Builds a model again and again, with other numbers in its configuration."""

    def __init__(self, example: Example, config: Any) -> None:
        self._example, self._original, self.config = example, config, config
        self._class: Callable[[Any], torch.nn.Module] = type(example.model)
        self._structure = structure(example.model)
        self.parameters = _count(example.model)
        self._cuts: list[list[Place]] = []
        self._calls: list[Call] | None = None
        """What the model calls; None where it does not run without weights, whatever its sizes."""
        with suppress(Exception):
            self._calls = self._called(self._without_weights(self._original))
        self._work = _work(self._calls or [])

    def widths(self) -> list[list[Place]]:
        """Return the numbers that can be halved: each alone, or two of them together."""
        places = [place for place in _places(self._original) if _halved(_at(self._original, place)) is not None]
        alone = [[place] for place in places if self._tried([place]) is not None]
        others = [place for place in places if [place] not in alone]
        pairs = [list(pair) for pair in list(combinations(others, 2))[:_MOST_PAIRS]]
        return [*alone, *(pair for pair in pairs if self._tried(pair) is not None)]

    def cut(self, places: Sequence[Place]) -> bool:
        """Halve numbers of the configuration; return whether the model allows it."""
        tried = self._tried(places)
        if tried is None:
            return False
        self.config, self.parameters = tried
        self._cuts.append(list(places))
        return True

    def restored(self) -> Sizes:
        """Return the sizes with which the model runs on its inputs; numbers that this needs are as they were."""
        places = sorted({place for cut in self._cuts for place in cut})
        kept = self._needed(places)
        config = _with(self.config, {place: _at(self._original, place) for place in kept})
        cut = {
            ".".join(place): (_at(self._original, place), _at(config, place)) for place in places if place not in kept
        }
        return Sizes(config, _count(self._without_weights(config)), cut)

    def _needed(self, places: Sequence[Place]) -> Sequence[Place]:
        """Return the numbers that must be as they were, so that the model runs: as few as possible."""
        few = [(), *((place,) for place in places), *combinations(places, 2)]
        for kept in few:
            config = _with(self.config, {place: _at(self._original, place) for place in kept})
            with suppress(Exception):
                if _count(self._without_weights(config)) <= self.parameters + _count(self._example.model) // 2:
                    self._run(self._built(config))
                    return kept
        return places

    def _tried(self, places: Sequence[Place]) -> tuple[Any, int] | None:
        """Return the configuration with halved numbers, and how many parameters that leaves; None where it fails."""
        changes = {place: _halved(_at(self.config, place)) for place in places}
        if None in changes.values():
            return None
        try:
            config = _with(self.config, changes)
            model = self._without_weights(config)
            if structure(model) != self._structure or _count(model) >= self.parameters:
                return None
            if self._calls is not None and not self._runs_as_before(model):
                return None
        except Exception:  # noqa: BLE001  # the model's own code says in its own way what it cannot be
            return None
        return config, _count(model)

    def _runs_as_before(self, model: torch.nn.Module) -> bool:
        """Whether the same operators run on no more numbers: a smaller patch makes more of them."""
        calls, before = self._called(model), self._calls or []
        return len(calls) == len(before) and all(map(_same_relations, calls, before)) and _work(calls) <= self._work

    def _built(self, config: Any) -> torch.nn.Module:
        return self._class(copy.deepcopy(config)).eval()

    def _without_weights(self, config: Any) -> torch.nn.Module:
        with without_weights() as strip:
            model = self._built(config)
            strip(model)
        return model

    def _called(self, model: torch.nn.Module) -> list[Call]:
        operators = _Operators()
        with operators:
            self._run(model)
        return operators.calls

    def _run(self, model: torch.nn.Module) -> None:
        args, kwargs = copy.deepcopy((self._example.args, self._example.kwargs))
        with torch.no_grad():
            model(*args, **kwargs)


class _Operators(TorchDispatchMode):
    """Records the operators that are called, in their order, with the shapes of the tensors that they take."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        taken = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        self.calls.append((str(func), tuple(tuple(each.shape) for each in taken)))
        return func(*args, **(kwargs or {}))


def _work(calls: Sequence[Call]) -> int:
    """Return how many numbers the operators take."""
    return sum(math.prod(shape) for _, shapes in calls for shape in shapes)


def _same_relations(call: Call, original: Call) -> bool:
    """Whether the same operator is called, no axis became one, and no axes of two tensors became equal."""
    (name, shapes), (before, originals) = call, original
    if name != before or [*map(len, shapes)] != [*map(len, originals)]:
        return False
    if any(size == 1 != was for pair in zip(shapes, originals, strict=True) for size, was in zip(*pair, strict=True)):
        return False
    pairs = combinations([pair for pair in zip(shapes, originals, strict=True) if len(pair[0]) >= _PAIRED], 2)
    return not any(
        size == other and was != other_was
        for (one, old), (two, older) in pairs
        for size, other, was, other_was in zip(one, two, old, older, strict=False)
    )


def _count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _places(config: Any) -> Iterator[Place]:
    """Yield the places of all numbers, and lists of numbers, in a configuration and those inside it."""
    for name, value in vars(config).items():
        if hasattr(type(value), "model_type"):
            yield from ((name, *place) for place in _places(value))
        elif not name.startswith("_"):
            yield (name,)


def _at(config: Any, place: Place) -> Any:
    for name in place:
        config = getattr(config, name)
    return config


def _with(config: Any, changes: dict[Place, Any]) -> Any:
    made = copy.deepcopy(config)
    for place, value in changes.items():
        setattr(_at(made, place[:-1]), place[-1], value)
    return made


def _halved(value: Any) -> Any:
    """Return half of an even number, or of each in a list; None for anything else."""
    if isinstance(value, (list, tuple)) and value:
        halves = [_halved(each) for each in value]
        return None if None in halves else type(value)(halves)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value // 2 if whole and value >= _LEAST and value % 2 == 0 else None
