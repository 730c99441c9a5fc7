"""Defines a case: a factory of a model and its example inputs, which is called anew for each use."""

from __future__ import annotations

import datetime as dt
import inspect
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from pytest_hierexport._cases.example import Example, check_model, parts_of
from pytest_hierexport._cases.factories import folder_as_found
from pytest_hierexport._cases.inputs import describe, example_inputs
from pytest_hierexport._cases.weights import randomise
from pytest_hierexport._errors import CollectError, UsageError, gist, pass_on, refuse_coroutine
from pytest_hierexport._export.choices import as_inputs
from pytest_hierexport._stages import load_torch, stage

if TYPE_CHECKING:
    import torch

Weights = Literal["full", "none", "thin"]
SEED = 0
_PROMISE = (
    "a model, (model, args), (model, args, kwargs), (model, args, kwargs, dynamic_shapes), a mapping with these keys, "
    "or an Example"
)


@dataclass(frozen=True)
class KnownFailure:
    """A rule that a model is known to break. An error where the rule passes, or after the last day."""

    rule: str
    until: dt.date
    """The last day on which the failure is accepted."""
    reason: str

    @property
    def expired(self) -> bool:
        """Whether its last day has passed."""
        return dt.datetime.now(tz=dt.timezone.utc).date() > self.until


@dataclass(frozen=True)
class Step:
    """One step from the exported file to the one that is shipped, and what is stated of its result."""

    name: str
    """`onnxruntime:LEVEL`, or `package.module:function`, called with the path to read and the path to write."""
    tolerances: Mapping[str, float] = field(default_factory=dict)
    """Relative tolerances by dtype where the step changes values; they replace the case's."""
    allow_derived: int = 0
    """The number of nodes of the result that may have a `derived` origin."""
    known_failures: tuple[KnownFailure, ...] = ()


@dataclass(frozen=True)
class Case:
    """A model with its example inputs, on which the rules run, and how it is exported."""

    name: str
    factory: Callable[[], object] = field(repr=False)
    """Makes the model and its inputs; heavy imports happen in the call."""
    source: str = ""
    """The selector that gives this case."""
    anchor: Path | None = None
    """The manifest or the factory's file, if any."""
    manifest: Path | None = None
    """The manifest that states the case."""
    exporter: str = "auto"
    opset: int | None = None
    dynamic_shapes: Any = None
    randomise: bool = True
    """Whether weights are made generic: PyTorch's initialisation makes equal values, which prove nothing."""
    tolerances: Mapping[str, float] = field(default_factory=dict)
    """Relative tolerance by dtype (`float32`), instead of the rules' defaults."""
    allow_derived: int = 0
    """The number of nodes that may have a `derived` origin."""
    known_failures: tuple[KnownFailure, ...] = ()
    strict: bool | None = None
    """Whether `auto` fails instead of falling back to an exporter that records one run; None: as the run says."""
    keep: tuple[str, ...] = ()
    """`torch.nn` classes that appear in tags, as `package.Class`."""
    files: tuple[Path, ...] = ()
    """Files besides Python code that the model is built from."""
    after: tuple[Step, ...] = ()
    """The steps that turn the exported file into the one that is shipped."""
    previous: Case | None = None
    """Where this case is the result of a step: the case that the step takes."""
    step: str = ""
    """Where this case is the result of a step: the name of the step."""
    timeout: float | None = field(default=None, repr=False)
    """The seconds that each of its tests may take, 0 for any number; None: as the run says."""
    details: bool | None = None
    """Whether the snapshot has shapes, parameters and modules of `torch.nn`, too; None: as the run says."""
    weights: Weights = "full"
    """`full`, `none` for parameters that take no memory, or `thin` for the same modules with smaller widths."""
    thin: Case | None = None
    """For `thin`: the case of the smaller model; None to cut the numbers of its configuration."""
    entry: str = ""
    """What a manifest states of the factory and its inputs; the other fields do not tell it."""
    stated: frozenset[str] = field(default=frozenset(), repr=False)
    """The keys that a manifest states of it: they override the ini also where they state the default."""

    @stage("building the model")
    def load(self) -> Example:
        """Build the model and its inputs under a fixed seed, with generic weights if `randomise` is set.

        Raises:
            CollectError: The factory fails or returns something that is no model.
        """
        load_torch()
        if self.weights == "thin":
            return thinned(self).load()
        with _seeded():
            if self.weights == "none":
                from pytest_hierexport._cases.weightless import without_weights

                with without_weights() as strip:
                    return self._as_example(self._made(), strip)
            example = self._as_example(self._made())
            if self.randomise:
                _run_lazy(example)
                randomise(example.model, SEED)
        return example

    def _made(self) -> object:
        try:
            with folder_as_found():
                made = self.factory()
            refuse_coroutine(made, f"the factory of {self.name} ({self.source})")
        except BaseException as error:
            pass_on(error)
            without = "; here it is called without weights: let it read no numbers of a parameter"
            raise CollectError(
                f"the factory of {self.name} ({self.source}) to make a model",
                found=gist(error),
                do="call the factory without arguments, and fix the error that it raises"
                + (without if self.weights == "none" else ""),
            ) from error
        return made

    def known_failure(self, rule: str) -> KnownFailure | None:
        """Return the known failure of a rule on this case, expired or not; None if there is none."""
        return next((known for known in self.known_failures if known.rule == rule), None)

    def _as_example(self, made: object, prepare: Callable[[torch.nn.Module], None] = lambda _: None) -> Example:
        """Return what the factory made as an example; `prepare` is given the model before its inputs are guessed."""
        parts = parts_of(made)
        promise = f"the factory of {self.name} ({self.source}) to return {_PROMISE}"
        model = check_model(parts.get("model"), promise, _describe(made))
        prepare(model)
        notes = made.notes if isinstance(made, Example) else ()
        if "args" not in parts and "kwargs" not in parts:
            parts["kwargs"] = example_inputs(model, self.name)
            do = "return them as well, or state them in a manifest"
            notes = (f"its inputs were guessed: {describe(parts['kwargs'])}; to choose others, {do}",)
        shapes = self.dynamic_shapes if self.dynamic_shapes is not None else parts.get("dynamic_shapes")
        args, kwargs = self._inputs(parts.get("args", ()), parts.get("kwargs"))
        inputs = self._bound(model, args, kwargs)
        return Example(model, args, kwargs, self._complete(shapes, inputs), notes)

    def _inputs(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the inputs by position and by name."""
        if not isinstance(kwargs, (Mapping, NoneType)):
            raise CollectError(
                f"the keyword inputs of {self.name} ({self.source}) as a mapping",
                found=_describe(kwargs),
                do="return (model, args, kwargs), kwargs being a dict of inputs by name",
            )
        return as_inputs(args, kwargs)

    def _bound(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> inspect.BoundArguments | None:
        """Bind the inputs to the parameters of `forward`; None where that cannot be known: hooks may change inputs."""
        try:
            signature = inspect.signature(model.forward)
            return None if model._forward_pre_hooks else signature.bind(*args, **kwargs)
        except ValueError:
            return None
        except TypeError as error:
            named = f"{', '.join(map(str, kwargs))} by name"
            given = "; ".join([*([f"{len(args)} by position"] * bool(args)), *([named] * bool(kwargs))])
            by_name = "; a dictionary that is one of them goes into a tuple: (model, (dictionary,))"
            raise CollectError(
                f"inputs of {self.name} that {type(model).__name__}.forward takes",
                found=f"{error}; given: {given or 'none'}",
                do=f"give the inputs of forward{signature}{by_name if kwargs and not args else ''}",
            ) from None

    def _complete(self, shapes: Any, inputs: inspect.BoundArguments | None) -> Any:
        """Return the dynamic shapes with an entry for each input."""
        from pytest_hierexport._export.dynamic_shapes import complete_shapes

        try:
            return complete_shapes(shapes, inputs, self.name)
        except UsageError as error:
            stated = self.manifest is not None and self.dynamic_shapes is not None
            place = f" at models.{self.name}.dynamic in {self.manifest}" if stated else ""
            raise CollectError(error.expected, found=f"{error.found}{place}", do=error.do) from None


def thinned(case: Case) -> Case:
    """Return the case of the thin model of a case, which has weights.

    Its factory raises a CollectError where the model cannot be made thin, or the smaller model has other modules.
    """
    return replace(case, factory=partial(_thin_example, case), weights="full", thin=None)


def _thin_example(case: Case) -> Example:
    from pytest_hierexport._cases.thin import cut_example, of_same_structure

    real = replace(case, weights="none", thin=None).load
    if case.thin is None:
        return cut_example(case.name, case.source, real)
    # The case itself says what becomes of the weights.
    thin = replace(case.thin, randomise=False).load()
    return of_same_structure(case.name, case.source, real(), case.thin.source, thin)


def _describe(made: object) -> str:
    if isinstance(made, Example):
        return f"an Example of {_describe(made.model)}"
    if isinstance(made, Mapping):
        return f"a mapping with the keys {', '.join(map(str, made)) or '(none)'}"
    if isinstance(made, (tuple, list)):
        return f"a {type(made).__name__} of {', '.join(type(item).__name__ for item in made) or 'nothing'}"
    return f"a {type(made).__name__}"


def _run_lazy(example: Example) -> None:
    """Run a model with lazy modules, whose parameters have no elements before; the export tells of an error."""
    from torch.nn.parameter import is_lazy

    if any(map(is_lazy, (*example.model.parameters(), *example.model.buffers()))):
        from pytest_hierexport._proof.eager import Mode, run_model

        with suppress(UsageError):
            run_model(example, Mode.PLAIN)


@contextmanager
def _seeded() -> Iterator[None]:
    """Seed all random number generators; restore their states at the end."""
    import numpy as np
    import torch

    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # a factory may use the global state
    with torch.random.fork_rng(devices=[]):
        random.seed(SEED)
        np.random.seed(SEED)  # noqa: NPY002
        torch.manual_seed(SEED)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
