"""Makes inputs for a model that has none: from a stated shape, or by trials."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import CollectError, in_words, pass_on

if TYPE_CHECKING:
    import torch

_BATCH, _LENGTH = 2, 8
_MOST_TRIES = 200
_MOST_OPTIONAL = 2
"""How many optional inputs are tried together."""


@dataclass(frozen=True)
class InputSpec:
    """An input that is stated by its shape."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    """The name of a torch dtype."""
    low: int = 0
    high: int = 2
    """Integers are drawn from low (inclusive) to high (exclusive)."""

    def tensor(self, name: str = "an input") -> torch.Tensor:
        """Draw the input: normal values for floats, uniform ones for integers and booleans.

        Raises:
            CollectError: torch has no such dtype, or cannot draw such a tensor; the error names the input.
        """
        import torch

        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise CollectError(
                f"a dtype of torch for {name}", found=repr(self.dtype), do="write float32, int64, bool or the like"
            )
        try:
            return self._drawn(dtype)
        except (OverflowError, RuntimeError, TypeError, ValueError) as error:
            raise CollectError(
                f"{name} to be a tensor that torch can draw: {self.dtype}{list(self.shape)}",
                found=in_words(error),
                do="state another shape, dtype or range",
            ) from None

    def _drawn(self, dtype: torch.dtype) -> torch.Tensor:
        import torch

        is_inexact = dtype.is_floating_point or dtype.is_complex
        if (is_inexact or dtype is torch.bool) and (self.low, self.high) != (0, 2):
            raise ValueError(f"a range from {self.low} to {self.high - 1}, which integers alone have")
        if is_inexact:
            return torch.randn(self.shape, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
        if dtype is torch.bool:
            return torch.randint(0, 2, self.shape).to(dtype)
        limits = torch.iinfo(dtype)
        if self.low < limits.min or self.high - 1 > limits.max:
            raise ValueError(f"numbers from {self.low} to {self.high - 1}, of which {self.dtype} cannot hold all")
        return torch.randint(self.low, self.high, self.shape).to(dtype)


def example_inputs(model: torch.nn.Module, name: str) -> dict[str, Any]:
    """Return the first keyword inputs that the model runs on.

    Its `dummy_inputs` are tried first, then tensors for the required parameters of its forward, in shapes from its
    configuration.

    Raises:
        CollectError: The model runs on none of them.
    """
    import torch

    from pytest_hierexport._export.state import as_found, in_eval_mode

    first: BaseException | None = None
    with as_found(model), in_eval_mode(model), torch.no_grad():
        for kwargs in itertools.islice(_candidates(model), _MOST_TRIES):
            try:
                model(**kwargs)
            except BaseException as error:  # noqa: BLE001  # a model may raise anything on unsuitable inputs
                pass_on(error)
                # The simplest inputs come first, so the first error is the most useful one.
                first = first or error
            else:
                return kwargs
    found = f"the first: {in_words(first)}" if first is not None else "none to try"
    raise CollectError(
        f"example inputs that {name} runs on",
        found=f"none of those tried ({found})",
        do="return (model, args, kwargs) from a factory, or state [models.NAME.inputs] in a manifest",
    )


def describe(inputs: Mapping[str, Any]) -> str:
    """Return inputs as text: the name, shape and type of each."""
    return ", ".join(f"{name} {_kind(value)}" for name, value in inputs.items()) or "none"


def _kind(value: object) -> str:
    shape, dtype = getattr(value, "shape", None), str(getattr(value, "dtype", "")).rpartition(".")[2]
    return type(value).__name__ if shape is None else f"{list(shape)} {dtype}"


def _candidates(model: torch.nn.Module) -> Iterator[dict[str, Any]]:
    own = getattr(model, "dummy_inputs", None)
    if isinstance(own, Mapping):
        yield dict(own)
    parameters = inspect.signature(model.forward).parameters
    sizes = _Sizes(getattr(model, "config", None))
    for names in _input_sets(model, parameters):
        choices = [[(name, spec) for spec in _specs(parameters[name], sizes)] for name in names]
        for chosen in itertools.product(*choices):
            yield {name: spec.tensor() for name, spec in chosen}


def _input_sets(model: torch.nn.Module, parameters: Mapping[str, inspect.Parameter]) -> Iterator[tuple[str, ...]]:
    """Yield the sets of inputs to try: what the model requires, then with optional ids, values or features."""
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    main = getattr(model, "main_input_name", ())
    stated = [name for name in ([main] if isinstance(main, str) else main) if name in parameters]
    least = dict.fromkeys([*stated, *required])
    others = [name for name in parameters if name not in least and name.endswith(("_ids", "_values", "_features"))]
    for count in range(_MOST_OPTIONAL + 1):
        yield from ((*least, *extra) for extra in itertools.combinations(others, count))


def _specs(parameter: inspect.Parameter, sizes: _Sizes) -> list[InputSpec]:
    """Return the tensors to try: integers if the annotation or the name says so, else floats."""
    if parameter.name.endswith("_mask"):
        return [InputSpec((_BATCH, _LENGTH), "int64", 1, 2)]
    # Ids below the smallest vocabulary are valid in every part of the model.
    vocabulary = min(sizes.all("vocab_size"), default=2)
    whole = [InputSpec((_BATCH, _LENGTH), "int64", 1, max(2, vocabulary))]
    annotation = str(parameter.annotation)
    if "LongTensor" in annotation or "IntTensor" in annotation or parameter.name.endswith("_ids"):
        return whole
    return [*(InputSpec(shape) for shape in sizes.float_shapes()), *whole]


class _Sizes:
    """The sizes in a configuration and its nested configurations."""

    def __init__(self, config: object) -> None:
        self._configs = list(_nested(config))

    def float_shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes to try for a float input: images, videos, spectra, waves, states."""
        return [*self._images(), *self._spectra(), *self._waves(), *self._states()]

    def _images(self) -> Iterator[tuple[int, ...]]:
        channels = self._first("num_channels", 3)
        for config in self._configs:
            size = getattr(config, "image_size", None)
            pair = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
            if len(pair) == 2 and all(isinstance(side, int) for side in pair):
                yield (_BATCH, channels, *pair)
                yield (_BATCH, self._first("num_frames", 2), channels, *pair)
        for side in (32, 64, 224) if self.all("num_channels") or self.all("image_size") else ():
            yield (_BATCH, channels, side, side)

    def _spectra(self) -> Iterator[tuple[int, ...]]:
        for bins in dict.fromkeys(self.all("num_mel_bins", "input_feat_per_channel", "feature_size", "input_dim")):
            for frames in dict.fromkeys(
                [*(2 * n for n in self.all("max_source_positions")), 64, self._first("max_length", 64)]
            ):
                yield (_BATCH, bins, frames)
                yield (_BATCH, frames, bins)

    def _waves(self) -> Iterator[tuple[int, ...]]:
        if self.all("conv_kernel", "conv_dim", "sampling_rate", "audio_channels"):
            channels = self._first("audio_channels", 1)
            for samples in (2048, 16000):
                yield (_BATCH, samples)
                yield (_BATCH, channels, samples)

    def _states(self) -> Iterator[tuple[int, ...]]:
        for width in dict.fromkeys(self.all("hidden_size", "d_model", "in_channels", "sample_size")):
            yield (_BATCH, _LENGTH, width)
            yield (_BATCH, width)
        for length in self.all("context_length", "prediction_length"):
            yield (_BATCH, length)
            yield (_BATCH, length, self._first("input_size", 1))

    def all(self, *names: str) -> list[int]:
        """Return the sizes of these names, of the outer configuration first."""
        found = (getattr(config, name, None) for name in names for config in self._configs)
        return [value for each in found for value in _integers(each)]

    def _first(self, name: str, otherwise: int) -> int:
        return next(iter(self.all(name)), otherwise)


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        yield value


def _nested(config: object, depth: int = 3) -> Iterator[object]:
    """Yield a configuration and its nested configurations."""
    if config is None or depth == 0:
        return
    yield config
    for name, value in getattr(config, "__dict__", {}).items():
        if name.endswith("_config") and hasattr(value, "__dict__"):
            yield from _nested(value, depth - 1)
