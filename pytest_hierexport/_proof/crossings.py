"""Records the values that operations take from other calls by other ways than arguments and results.

    model     self.a.first.register_forward_hook(keep); y = self.a(x) * kept
    call a    gives y, and what `first` returned: an operation outside of `a` took it

A tensor that one call returns, or an operation of it takes, and that an operation of another call computed, was given
to the first call and to those above it, and given by the second and those above it, up to the call that both are in.
Feature maps that a hook keeps need it (DPT, perceptual losses), and so do weights that a hypernetwork computes and
`torch.func.functional_call` puts on a module, and tensors on a module that is not registered where they are taken.

In goes a call as it was recorded; out comes the call with these values, by :meth:`Crossings.added_to`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from pytest_hierexport._export.recorder import CallRecorder
from pytest_hierexport._proof.call_values import CallValues, EagerCall


class Crossings(TorchDispatchMode):
    """Watches, while it is entered, which call computes a tensor and which calls take it.

    Operations inside branches and loops that torch captures as one operator are not seen.
    """

    supports_higher_order_operators = True

    def __init__(self, recorder: CallRecorder, values: CallValues) -> None:
        """Watch a run.

        Args:
            recorder: Knows the calls that are open.
            values: Numbers the values; its own operations are not watched.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate its modes
        self._recorder = recorder
        self._values = values
        values.passing = lambda tensor: self._take(tensor, recorder.open_calls)
        self._computed_in: Any = WeakIdKeyDictionary()
        """The calls that were open when each tensor was computed, the outermost first."""
        self._taken: dict[str, set[int]] = defaultdict(set)
        self._given: dict[str, set[int]] = defaultdict(set)
        self._kept_in: dict[str, set[int]] = defaultdict(set)
        """Those given by each call that its own operations computed, not those of a call below."""

    def added_to(self, seen: EagerCall) -> EagerCall:
        """Return a call with the values that its operations took from elsewhere, and that others took from it."""
        name = seen.call.name
        taken = self._taken[name] - seen.inputs.keys()
        inputs = seen.inputs | dict.fromkeys(taken, "taken by an operation")
        kept = (seen.kept | self._kept_in[name]) - seen.returned.keys() - inputs.keys()
        return replace(seen, inputs=inputs, effects=seen.effects | self._given[name], kept=kept)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation."""
        options = kwargs or {}
        if self._values.is_recording:
            return func(*args, **options)
        calls = self._recorder.open_calls
        for tensor in _tensors((args, options)):
            self._take(tensor, calls)
        result = func(*args, **options)
        for tensor in _tensors(result):
            self._computed_in[tensor] = calls
        return result

    def _take(self, tensor: torch.Tensor, takers: tuple[str, ...]) -> None:
        """Record that calls take a tensor; parameters, which no operation of the run computed, are left out."""
        givers = self._computed_in.get(tensor)
        if givers is None or givers == takers:
            return
        both = sum(1 for giver, taker in zip(givers, takers, strict=False) if giver == taker)
        numbers = self._values.number(tensor) if takers else ()
        for taker in takers[both:]:
            self._taken[taker].update(numbers)
        for giver in givers[both:]:
            self._given[giver].update(numbers)
        if givers[both:]:
            self._kept_in[givers[-1]].update(numbers)


def _tensors(holder: Any) -> Iterator[torch.Tensor]:
    leaves: Iterable[Any] = pytree.tree_leaves(holder)
    return (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
