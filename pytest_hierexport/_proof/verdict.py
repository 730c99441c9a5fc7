"""Judges a call by the values that enter and leave its nodes: :func:`judge`.

    model    h = a(x); y = b(h)
    graph    t = Exp(x) [a]    h = Neg(t) [a]    y = Sin(h) [b]

Both runs agree on x, h and y; t is no value of a call. For `b`, S is {y = Sin(h)}:

    1  b returned y                 S produces y
    2  h enters S                   b was given h
    3  y leaves S                   b returned y                         -> proven

With the tags [b] [a] [b], S of `b` is {t, y} and it is unproven: x enters S, and `b` was not given x.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain

from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._proof.both_runs import BothRuns
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.lost_values import ends_before, lost_inputs, lost_outputs
from pytest_hierexport._proof.owners import Node

OTHER_OUTPUTS = "the graph does not give what the model returned"
"""The reason of the model's own call whose numbers differ, whatever the tags are."""


class VerdictKind(str, Enum):
    """What the values show about a call's tags."""

    PROVEN = "proven"
    """Its nodes turn its inputs into its outputs."""
    UNPROVEN = "unproven"
    """A value does not fit."""
    AMBIGUOUS = "ambiguous"
    """Anything would match, because its tensors are constant-valued, or rounding confuses its values with others."""
    PASS_THROUGH = "pass-through"  # noqa: S105  # a verdict, not a password
    """It returns what it was given."""
    FOLDED = "folded"
    """The file stores its outputs as constants."""
    DISSOLVED = "dissolved"
    """Its outputs no longer exist; or an input or output was fused away with the call that gave or took it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on a call's tags, and its reason."""

    kind: VerdictKind
    reason: str = ""
    """Why it is not proven, in a sentence."""
    value: str | None = None
    """The value that does not fit or that vanished: its name in the graph, or its place among the call's tensors."""
    tag: str | None = None
    """The tag of the node that produces the value; where the value vanished, of the call that gave or took it."""

    def __repr__(self) -> str:
        """Return the kind and what explains it."""
        where = f", {self.value} of {self.tag}" if self.value and self.tag else f", {self.value}" if self.value else ""
        return f"<{self.kind.value}{f': {self.reason}' if self.reason else ''}{where}>"


def judge(runs: BothRuns, call: str) -> Verdict | None:
    """Return the verdict on a call of the eager run; None where it returned no tensor that has elements.

    The model's own call is then unproven if the graph has an output that it did not give: with nothing to compare, any
    tags would pass.

    The verdict is also None where another call lost a tensor to rounding: see :func:`_is_lost_to_rounding`.
    """
    seen = runs.calls[call]
    if not seen.returned:
        strange = next((v for v in runs.graph.outputs if call == ROOT and not runs.gave(ROOT, v)), None)
        reason = "the model returned nothing that can be compared with what the graph gives"
        return None if strange is None else Verdict(VerdictKind.UNPROVEN, reason, strange, runs.tag(ROOT))
    outputs = [number for number in seen.returned if number not in seen.inputs]
    missing = next((number for number in outputs if call == ROOT and not _is_graph_output(runs, number)), None)
    if missing is not None:
        return Verdict(VerdictKind.UNPROVEN, OTHER_OUTPUTS, f"output{seen.returned[missing]}", runs.tag(ROOT))
    if call != ROOT and _is_lost_to_rounding(runs, seen):
        return None
    # A call that only rearranged its input left nothing, though another form of what it returned is there: its input.
    rearranged = {form for number in seen.inputs for form in runs.other_forms.get(number, ())}
    present = [number for number in outputs if number in runs.computed and number not in rearranged]
    nodes = runs.graph.members.get(call, [])
    # A value may lie within rounding of one that the file stores: a mean of equal rows (maskformer).
    is_folded = not nodes and runs.stored.issuperset(outputs)
    if (present and not is_folded) or not outputs:
        return _Call(runs, call, seen, nodes).judge(present)
    vanished = next((number for number in outputs if number not in runs.stored), None)
    if vanished is None:
        found = _Call(runs, call, seen, nodes).judge(())
        # The file may store a constant-valued output by accident: what the call gave was then fused away.
        is_shown = found.kind is VerdictKind.UNPROVEN and not all(runs.values[number].constant for number in outputs)
        return found if is_shown else Verdict(VerdictKind.FOLDED)
    place = f"output{seen.returned[vanished]}"
    return Verdict(VerdictKind.DISSOLVED, f"no value of the graph equals {place}", place, runs.tag(call))


def _is_lost_to_rounding(runs: BothRuns, seen: EagerCall) -> bool:
    """Whether the graph lacks a quantized value of the model, and a tensor that the call was given or returned.

    torch multiplies integers, the graph the floating numbers that they stand for. Of the sums, which are rounded to
    integers again, a few may lie on the other side of a half; what is computed from them then differs.
    """
    tensors = (seen.inputs.keys() - seen.settings) | seen.returned.keys()
    return not runs.names.keys() >= runs.values.quantized and not runs.names.keys() >= tensors


def _is_graph_output(runs: BothRuns, number: int) -> bool:
    """Whether an output of the graph has this number, or could not be computed."""
    return any(
        number in runs.numbers(value) or (value in runs.graph.producer and not runs.candidates.get(value))
        for value in runs.graph.outputs
    )


@dataclass(frozen=True)
class _Call:
    """A call of which the graph has outputs, or which returned its inputs."""

    runs: BothRuns
    name: str
    seen: EagerCall
    nodes: Sequence[int]
    """The nodes that it owns."""

    def judge(self, present: Sequence[int]) -> Verdict:
        # Any call may compute a constant, and what depends on sizes alone.
        by_elements = (n for n in sorted(self.seen.kept) if self.runs.names.get(n) in self.runs.graph.by_elements)
        kept = (number for number in by_elements if not self.runs.values[number].constant)
        found = list(chain(self._not_produced((*present, *kept)), self._not_given(), self._leaving()))
        if found:
            return next((verdict for verdict in found if verdict.kind is VerdictKind.UNPROVEN), found[0])
        if not present:
            return Verdict(VerdictKind.PASS_THROUGH)
        if all(self.runs.values[number].constant for number in present):
            reason = "every tensor that it returned and that is in the graph is constant-valued"
            return Verdict(VerdictKind.AMBIGUOUS, reason)
        value = next(self._not_told_apart(), None)
        if value is not None:
            reason = "rounding moves a value by as much as it differs from one that the call has nothing to do with"
            return Verdict(VerdictKind.AMBIGUOUS, reason, value)
        if all(map(self._is_like_an_input, present)):
            reason = "every tensor that it returned and that is in the graph may as well be one that it was given"
            return Verdict(VerdictKind.AMBIGUOUS, reason)
        return Verdict(VerdictKind.PROVEN)

    def _is_like_an_input(self, number: int) -> bool:
        """Whether rounding hides what the call changed: a layer scale of 1e-6. Then the nodes of any call would fit."""
        shown = set(self.runs.numbers(self.runs.names.get(number, "")))
        return any(each in shown and not self.runs.values[each].constant for each in self.seen.inputs)

    def _not_told_apart(self) -> Iterator[str]:
        """Yield the values that show the call, but that a measured rounding error confuses with others."""
        if not self.runs.values.bounds:
            return
        entering = ((value, self.seen.inputs.keys()) for _, value in self._entering())
        outputs = chain.from_iterable(self.runs.graph.nodes[i].outputs for i in self.nodes)
        for value, own in chain(entering, ((value, self.seen.available) for value in outputs)):
            numbers = set(self.runs.numbers(value))
            if numbers & own and not numbers <= own:
                yield value

    def _not_produced(self, present: Iterable[int]) -> Iterator[Verdict]:
        """Yield the outputs of the call, and what it left or a hook kept, that none of its nodes produces.

        ONNX Runtime makes one reshape of that behind a `Gemm` and one in the caller: the output is there in the shape
        of the `Gemm`, and once more in its own, from the caller, where a transposition moves nothing (CLAP).
        """
        for number in present:
            if number not in self._produced and number not in self.runs.stored and not self._is_taken_anew(number):
                reason = "the call gave a value that none of its nodes produces"
                yield self._unproven(reason, self.runs.names.get(number) or self.runs.computed[number])

    def _is_taken_anew(self, number: int) -> bool:
        """Whether a value is a part of what the call's nodes produce, taken from that after it was written to."""
        whole = self.seen.wholes.get(number, frozenset())
        taker = self.runs.graph.producer.get(self.runs.names.get(number, ""))
        read = () if taker is None else self.runs.graph.nodes[taker].elements
        return not whole.isdisjoint(self._produced) and all(whole.isdisjoint(self.runs.numbers(v)) for v in read)

    @cached_property
    def _produced(self) -> Mapping[int, int]:
        """The values that the call's nodes produce, in any form, each with the first of these nodes."""
        outputs = ((i, value) for i in reversed(self.nodes) for value in self.runs.graph.nodes[i].outputs)
        return {number: i for i, value in outputs for number in self.runs.numbers_in_any_form(value)}

    def _entering(self) -> Iterator[tuple[Node, str]]:
        """Yield the values that the call's nodes read and do not produce, each with the node."""
        graph, inside = self.runs.graph, set(self.nodes)
        for node in (graph.nodes[i] for i in self.nodes):
            read = (value for value in node.elements if value in graph.by_elements)
            yield from ((node, value) for value in read if graph.producer.get(value) not in inside)

    def _not_given(self) -> Iterator[Verdict]:
        """Yield the values that the call's nodes read and the call was not given.

        A copy of what they gave before may enter again: a result that the model drops is merged with one that another
        call computes behind it, from the copy (1 of 500 random architectures).
        """
        for node, value in self._entering():
            if not self._was_given(node, value) and not self._is_copy(value):
                reason = f"{node.operator} {node.key} of the call reads a value that the call was not given"
                yield self._dissolved(node, value) or self._unproven(reason, value)

    def _is_copy(self, value: str) -> bool:
        """Whether the call's nodes produced a result of it before another node produced the same value."""
        producer = self.runs.graph.producer.get(value, -1)
        numbers = self.seen.returned.keys() & set(self.runs.numbers_in_any_form(value))
        return any(self._produced.get(number, producer) < producer for number in numbers)

    def _was_given(self, node: Node, value: str) -> bool:
        """Whether the call was given a value that its node reads; in another form only if the node computes for it."""
        if self.runs.was_given(self.name, value, as_is=True):
            return True
        return self.runs.was_given(self.name, value) and not ends_before(self.runs, self.name, node)

    def _leaving(self) -> Iterator[Verdict]:
        """Yield the values that others read from the call's nodes and the call did not give."""
        graph, inside = self.runs.graph, set(self.nodes)
        for node in (graph.nodes[i] for i in self.nodes):
            for value in node.outputs:
                if value not in graph.by_elements or self.runs.gave(self.name, value):
                    continue
                consumers = graph.consumers.get(value, ())
                # Any call may read the shape of what the call's nodes read (Llama with dynamic axes, after onnxscript).
                is_read = any(value in graph.nodes[i].elements for i in inside.intersection(consumers))
                others = (graph.nodes[i] for i in consumers if i not in inside)
                readers = (other for other in others if value in other.elements or not is_read)
                consumer = next((other for other in readers if not self._has_giver(value, node, other.calls)), None)
                if consumer is not None:
                    by = f"{consumer.operator} {consumer.key}"
                    yield self._unproven(f"{by} outside the call reads a value that the call did not give", value)
                elif self._is_result(value) and not self._has_giver(value, node, {ROOT}):
                    yield self._unproven("the model returns a value that the call did not give", value)

    def _is_result(self, value: str) -> bool:
        """Whether the model returns a value from inside a call.

        A tool that cuts a part out of a model makes other values outputs of the graph: these go to no call.
        """
        return value in self.runs.graph.outputs and self.runs.gave(ROOT, value)

    def _has_giver(self, value: str, producer: Node, consumer: AbstractSet[str]) -> bool:
        """Whether another call that owns the producer gave the value to the consumer's calls.

        Merged nodes need it: the mask of layer 0 and layer 1 leaves layer 0 for layer 1, which owns it as well.
        """
        around = (owner.calls - consumer for owner in producer.owners)  # this call, which did not give it, is no giver
        return any(all(self.runs.gave(call, value) for call in calls) for calls in around)

    def _dissolved(self, node: Node, value: str) -> Verdict | None:
        """Return the input or output that the call lost to the fusion at a node, where it explains what that reads."""
        for number, giver in lost_inputs(self.runs, self.name, node, value):
            place = self.seen.inputs[number]
            fused = f"{node.operator} {node.key} was fused of the call and the one that gave it"
            gone = "is not read there any more" if number in self.runs.names else "no longer exists"
            return Verdict(VerdictKind.DISSOLVED, f"input {place} {gone}: {fused}", place, self.runs.tag(giver))
        for number, taker in lost_outputs(self.runs, self.name, node, value):
            place = f"output{self.seen.returned[number]}"
            fused = f"{node.operator} {node.key} was fused of the call and the one that took it"
            return Verdict(VerdictKind.DISSOLVED, f"{place} no longer exists: {fused}", place, self.runs.tag(taker))
        return None

    def _unproven(self, reason: str, value: str) -> Verdict:
        producer = self.runs.graph.producer.get(value)
        owners = () if producer is None else self.runs.graph.nodes[producer].owners
        tag = self.runs.tag(owners[0].origin.call) if owners else None
        return Verdict(VerdictKind.UNPROVEN, reason, value, tag)


def contaminated(runs: BothRuns) -> dict[str, tuple[str, ...]]:
    """Return the nodes that produce a value which calls return, where no producer of it belongs to such a call.

    Each node's key comes with these calls. Constant-valued tensors and values that depend on no input's elements are
    left out: any call may compute them.
    """
    returned = [(node, list(_returned_by_calls(runs, node))) for node in runs.graph.nodes]
    pairs = ((node, number) for node, numbers in returned for number in numbers)
    proper = {number for node, number in pairs if not node.calls.isdisjoint(runs.givers[number])}
    found: dict[str, dict[str, None]] = {}
    for node, numbers in returned:
        for call in (call for number in numbers if number not in proper for call in runs.givers[number]):
            found.setdefault(node.key, {})[call] = None
    return {key: tuple(calls) for key, calls in found.items()}


def _returned_by_calls(runs: BothRuns, node: Node) -> Iterator[int]:
    produced = (value for value in node.outputs if value in runs.graph.by_elements)
    numbers = chain.from_iterable(map(runs.numbers, produced))
    returned = (number for number in numbers if number in runs.givers and not runs.values[number].constant)
    # What is taken anew from a tensor that was written to belongs to the call that takes it.
    return (n for n in returned if not any(n in runs.calls[call].wholes for call in runs.givers[n]))
