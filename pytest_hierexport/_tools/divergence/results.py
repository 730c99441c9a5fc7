"""Holds how far the values of two graphs, or of a graph and its model, lie apart, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pytest_hierexport._errors import UsageError

_NO_VALUE = "none of its values is compared by itself"


@dataclass(frozen=True)
class Gap:
    """How far a tensor lies from the reference.

    Numbers that are NaN, or the same infinity, in both are left out. The ratio, the cosine and the largest absolute
    difference also leave out those in which both agree where they dwarf all in which they do not: the -1e9 of a mask.
    """

    sqnr: float
    """The ratio of the reference to the difference (signal to quantization noise) in dB; `inf` where both are equal,
    `-inf` where they cannot be compared."""
    cosine: float
    """The cosine of the angle between both, 1 where both are zero; NaN where they cannot be compared."""
    max_abs: float
    """The largest absolute difference."""
    distance: float
    """The largest difference relative to the magnitude of the reference, which is compared with the tolerance."""
    tolerance: float
    """The tolerance of the coarser one of both dtypes, or the stated one."""
    reason: str = ""
    """Why both cannot be compared: another shape, NaN or infinity in one of them."""
    reshaped: bool = False
    """Whether the shapes differ."""

    @property
    def parted(self) -> bool:
        """Whether the distance exceeds the tolerance, and so does the noise relative to the signal.

        The distance alone would tell of rounding errors: `x * sigmoid(x)` is -3e-10 for x = -25, and doubles where x is
        rounded by 3 % of itself (transformers' X-CLIP).
        """
        return self.distance > self.tolerance and 10 ** (-self.sqnr / 20) > self.tolerance


@dataclass(frozen=True)
class ValueGap:
    """A value that leaves the own nodes of a call, in both graphs."""

    name: str
    """Its name in the graph whose tags tell the calls: the reference, or the graph that is compared with its model."""
    position: int
    """The place of its producer in the execution order."""
    other: str | None = None
    """What it was compared with: a value of the other graph, or the place among a call's tensors in the eager run."""
    accumulated: Gap | None = None
    """The error with all that comes before it; None where the value is unknown."""
    added: Gap | None = None
    """The error where everything that enters the call's own nodes is replaced by the reference's value."""
    includes: tuple[str, ...] = ()
    """Other calls whose errors count here as well: their values, from which this one is computed, are unknown."""
    reason: str = ""
    """Why the value is unknown."""
    is_output: bool = False
    """Whether it is an output of the graph."""


@dataclass(frozen=True)
class CallGap:
    """A call that owns nodes which no call inside it owns; also the root, if an output belongs to none of its nodes."""

    call: str
    tag: str
    cls: str
    depth: int
    """The number of calls above it."""
    end: int
    """The place of its last own node in the execution order."""
    nodes: tuple[str, ...]
    """The names of its own nodes that have one."""
    values: tuple[ValueGap, ...] = ()
    """The values that leave its own nodes, in execution order."""
    impact: Gap | None = None
    """The error of the model's outputs where the call alone is that of the other graph."""
    parts: tuple[str, ...] = ()
    """The names of the nodes by which ONNX Runtime's quantizers replace some of its own before they look at names."""

    @cached_property
    def parting(self) -> ValueGap | None:
        """The first of its values, in execution order, beyond its tolerance; None where none is."""
        parted = (value for value in self.values if value.accumulated is not None and value.accumulated.parted)
        return min(parted, key=lambda value: value.position, default=None)

    @cached_property
    def accumulated(self) -> Gap | None:
        """The worst accumulated error of its values; None where all are unknown."""
        return _worst(value.accumulated for value in self.values)

    @cached_property
    def added(self) -> Gap | None:
        """The worst error that its values have by this call alone; None where it is unknown."""
        return _worst(value.added for value in self.values)

    @cached_property
    def includes(self) -> tuple[str, ...]:
        """Other calls whose errors count for this one: their values are unknown."""
        return tuple(dict.fromkeys(name for value in self.values for name in value.includes if name != self.call))

    @property
    def reason(self) -> str:
        """Why nothing is known of the call; empty where something is."""
        if self.accumulated is not None:
            return ""
        return next((value.reason for value in self.values), _NO_VALUE)

    @cached_property
    def unknown(self) -> tuple[ValueGap, ...]:
        """Those of its values that are unknown."""
        return tuple(value for value in self.values if value.accumulated is None)


def _worst(gaps: Iterator[Gap | None]) -> Gap | None:
    return min((gap for gap in gaps if gap is not None), key=lambda gap: (gap.sqnr, -gap.distance), default=None)


@dataclass(frozen=True)
class Exclusion:
    """What to leave out of a quantization."""

    modules: tuple[str, ...]
    """Call names."""
    nodes: tuple[str, ...]
    """Node names of the reference graph, and of what ONNX Runtime's quantizers replace these nodes by beforehand."""


@dataclass(frozen=True)
class Divergence:
    """The calls of a graph with the errors of their values.

    They are in the graph's execution order: a call stands where its first value that parts is computed, else where the
    last of its own nodes runs. Where its first node runs says little: optimizers compute masks of all layers at once.
    """

    calls: tuple[CallGap, ...]

    def __post_init__(self) -> None:
        """Sort the calls; of those that part by one value, the deepest is first."""

        def place(call: CallGap) -> tuple[int, int]:
            return (call.parting.position if call.parting else call.end, -call.depth)

        object.__setattr__(self, "calls", tuple(sorted(self.calls, key=place)))

    @cached_property
    def first(self) -> CallGap | None:
        """The call that gives the first value, in execution order, beyond its tolerance; None where none is."""
        return next((call for call in self.calls if call.parting is not None), None)

    @cached_property
    def unknown_outputs(self) -> tuple[str, ...]:
        """The outputs of the graph that could not be compared: where one is unknown, "no call parts" is no verdict."""
        values = (value for call in self.calls for value in call.unknown if value.is_output)
        return tuple(dict.fromkeys(value.name for value in values))

    @cached_property
    def ranking(self) -> tuple[CallGap, ...]:
        """The calls that add an error, the largest first."""
        adding = [(gap, call) for call in self.calls if (gap := call.added) is not None and gap.sqnr < float("inf")]
        adding.sort(key=lambda each: ((each[1].impact or each[0]).sqnr, each[0].sqnr))
        return tuple(call for _, call in adding)

    def exclusion(self, count: int = 3) -> Exclusion:
        """Return the first calls of the ranking, and their nodes, as a list to exclude from quantization.

        Calls whose errors count for one of these are excluded with it.

        Raises:
            UsageError: The count is negative.
        """
        if count < 0:
            raise UsageError("a number of calls to exclude, 0 or more", found=str(count), do="give how many come first")
        known = {call.call: call for call in self.calls}
        top = dict.fromkeys(name for call in self.ranking[:count] for name in (call.call, *call.includes))
        nodes = dict.fromkeys(node for name in top for node in (*known[name].nodes, *known[name].parts))
        return Exclusion(tuple(top), tuple(nodes))
