"""What a run shows about the tags of one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain

from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._proof.boundary import WHOLE, Graph, Node, Owner, Turn
from pytest_hierexport._proof.eager import EagerCall
from pytest_hierexport._proof.values import Shown, Values

__all__ = ["Judge", "Kind", "Verdict"]


class Kind(str, Enum):
    """How a call's tags fared."""

    PROVEN = "proven"
    """Its nodes turn its inputs into its outputs."""
    UNPROVEN = "unproven"
    """A value does not fit."""
    AMBIGUOUS = "ambiguous"
    """Its tensors are constant-valued, so that anything would match."""
    PASS_THROUGH = "pass-through"  # noqa: S105  # a verdict, not a password
    """It returns what it was given."""
    FOLDED = "folded"
    """Its outputs stand in the file as constants now, equal by value."""
    DISSOLVED = "dissolved"
    """Its outputs no longer exist; or none of its nodes reads an input, which was fused with the call that made it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a call's tags fared, and why."""

    kind: Kind
    reason: str = ""
    """Why it is not proven, in a sentence."""
    value: str | None = None
    """The value that does not fit or that vanished: its name in the graph, or its place among the call's tensors."""
    tag: str | None = None
    """The tag of the node that makes the value; of the call that made it where the value vanished."""


@dataclass(frozen=True)
class Judge:
    """The evidence: the graph, the calls that were seen to run, and the value of everything in the graph."""

    graph: Graph
    eager: Mapping[Turn, EagerCall]
    values: Values
    shown: Mapping[str, Shown]
    """What every value of the graph that could be fetched shows, by its name."""

    def judge(self, turn: Turn) -> Verdict | None:
        """Return the verdict on a call; None where it returned no tensor."""
        seen = self.eager[turn]
        if not seen.returned:
            return None
        asked = [number for number in seen.returned if number not in seen.inputs]
        lacking = next((number for number in asked if turn == WHOLE and not self._gives(number)), None)
        if lacking is not None:
            place = f"output{seen.returned[lacking]}"
            return Verdict(Kind.UNPROVEN, "the graph does not give what the model returned", place, self._tag(ROOT))
        present = [number for number in asked if number in self._names]
        if asked and not present:
            return self._without_outputs(turn, seen, asked)
        return self._with_outputs(turn, seen, asked, present)

    def _gives(self, number: int) -> bool:
        """Whether an output of the graph is this value, or could not be looked at."""
        return any(
            any(number in part for part in self.shown[value]) if value in self.shown else value in self.graph.maker
            for value in self.graph.outputs
        )

    def _without_outputs(self, turn: Turn, seen: EagerCall, asked: list[int]) -> Verdict:
        if all(number in self._folded for number in asked):
            return Verdict(Kind.FOLDED)
        vanished = next(number for number in asked if number not in self._folded)
        place = f"output{seen.returned[vanished]}"
        return Verdict(Kind.DISSOLVED, f"no value of the graph equals {place}", place, self._tag(turn.call))

    def _with_outputs(self, turn: Turn, seen: EagerCall, asked: list[int], present: list[int]) -> Verdict:
        nodes = self.graph.members.get(turn, [])
        dissolved: Verdict | None = None
        checks = (self._outputs(nodes, present), self._entering(turn, seen, nodes), self._leaving(turn, seen, nodes))
        for found in chain.from_iterable(checks):
            if found.kind is Kind.UNPROVEN:
                return found
            dissolved = dissolved or found
        if dissolved is not None:
            return dissolved
        if not asked:
            return Verdict(Kind.PASS_THROUGH)
        if all(self.values[number].constant for number in present):
            return Verdict(Kind.AMBIGUOUS, "every tensor that it returns is constant-valued")
        return Verdict(Kind.PROVEN)

    def _outputs(self, nodes: Iterable[int], present: Iterable[int]) -> Iterator[Verdict]:
        """What the call returned and its nodes do not make."""
        made = {number for i in nodes for value in self.graph.nodes[i].outputs for number in self._numbers(value)}
        for number in present:
            if number not in made and number not in self._folded:
                value = self._names[number]
                yield self._unproven("the call returned a value that none of its nodes makes", value)

    def _entering(self, turn: Turn, seen: EagerCall, nodes: Iterable[int]) -> Iterator[Verdict]:
        """What the call's nodes read and the call was not given."""
        inside = set(nodes)
        for i in sorted(inside):
            node = self.graph.nodes[i]
            for value in node.elements:
                if self.graph.maker.get(value) in inside or value not in self.graph.by_elements:
                    continue
                if not self._is_among(value, seen.inputs.keys()):
                    yield self._vanished(turn, node, value) or self._unproven(
                        f"{node.operator} {node.key} of the call reads a value that the call was not given", value
                    )

    def _leaving(self, turn: Turn, seen: EagerCall, nodes: Iterable[int]) -> Iterator[Verdict]:
        """What others read from the call's nodes and the call did not give."""
        inside = set(nodes)
        for i in sorted(inside):
            node = self.graph.nodes[i]
            for value in node.outputs:
                if value not in self.graph.by_elements or self._is_among(value, seen.given):
                    continue
                readers = [self.graph.nodes[r] for r in self.graph.readers.get(value, ()) if r not in inside]
                reader = next((r for r in readers if not self._may_come(value, node, turn, r.turns)), None)
                if reader is not None:
                    by = f"{reader.operator} {reader.key}"
                    yield self._unproven(f"{by} outside the call reads a value that the call did not give", value)
                elif turn != WHOLE and value in self.graph.outputs and not self._may_come(value, node, turn, {WHOLE}):
                    yield self._unproven("the model returns a value that the call did not give", value)

    def _may_come(self, value: str, maker: Node, turn: Turn, reader: AbstractSet[Turn]) -> bool:
        """Whether another call that owns the maker has the value to give to this reader."""
        return any(
            all(self._gave(passed, value) for passed in owner.turns - reader)
            for owner in self.graph.outside(maker, turn)
        )

    def _gave(self, turn: Turn, value: str) -> bool:
        seen = self.eager.get(turn)
        return seen is None or self._is_among(value, seen.given)

    def _vanished(self, turn: Turn, node: Node, value: str) -> Verdict | None:
        """Return the input of the call that a fusion at this node made vanish, if that explains what it reads there.

        It need not be gone for everyone: a value that others read lives on, and the call computes it within itself.
        """
        for number, maker in self._lost(turn, list(self.graph.fused_with(node, turn)), value):
            place = self.eager[turn].inputs[number]
            fused = f"{node.operator} {node.key} was fused of the call and the one that made it"
            gone = "is read no more" if number in self._names else "no longer exists"
            return Verdict(Kind.DISSOLVED, f"input {place} {gone}: {fused}", place, self._tag(maker.call))
        return None

    def _lost(
        self, turn: Turn, partners: list[Owner], value: str, through: AbstractSet[Turn] = frozenset()
    ) -> Iterator[tuple[int, Turn]]:
        """Yield inputs that no node of the call reads, with the partner that made each of this value.

        Where several fused into one, the partner may itself have lost the input that was made of the value.
        """
        seen = self.eager.get(turn)
        if seen is None or not partners:
            return
        for number in seen.inputs:
            if number in seen.settings or number in self._folded or number in self._read_by(turn):
                continue
            for maker in self._makers(turn, number, partners):
                further = maker not in through and any(self._lost(maker, partners, value, through | {turn}))
                if further or self._computes_with(maker, value):
                    yield number, maker

    def _makers(self, turn: Turn, number: int, partners: list[Owner]) -> Iterator[Turn]:
        """Yield those of the partners that made a call's input: calls that gave it, or else one above, by itself."""
        givers = self._givers.get(number)
        if givers:
            yield from (giver for giver in givers if any(giver in partner.turns for partner in partners))
            return
        above = self.graph.above.get(turn)
        while above is not None and above in self.eager and number in self.eager[above].inputs:
            above = self.graph.above.get(above)
        if above is not None and any(partner.origin.call == above.call for partner in partners):
            yield above

    def _computes_with(self, turn: Turn, value: str) -> bool:
        """Whether a call was given a value, or makes it itself."""
        seen = self.eager.get(turn)
        given = seen is not None and self._is_among(value, seen.inputs.keys())
        return given or self.graph.maker.get(value) in self.graph.members.get(turn, ())

    def _read_by(self, turn: Turn) -> AbstractSet[int]:
        """Return what the nodes of a call read and do not make."""
        if turn not in self._read:
            nodes = [self.graph.nodes[i] for i in self.graph.members.get(turn, ())]
            made = {value for node in nodes for value in node.outputs}
            read = {value for node in nodes for value in node.elements if value not in made}
            self._read[turn] = {number for value in read for number in self._numbers(value)}
        return self._read[turn]

    def _unproven(self, reason: str, value: str) -> Verdict:
        maker = self.graph.maker.get(value)
        node = None if maker is None else self.graph.nodes[maker]
        tag = self._tag(node.owners[0].origin.call) if node is not None and node.owners else None
        return Verdict(Kind.UNPROVEN, reason, value, tag)

    def _tag(self, call: str) -> str | None:
        return self.graph.hierarchy.tag(call) if call in self.graph.hierarchy else None

    def _is_among(self, value: str, numbers: AbstractSet[int]) -> bool:
        """Whether a value of the graph, or each tensor of a sequence, is one of these; so is what was not fetched."""
        return all(not part.isdisjoint(numbers) for part in self.shown.get(value, ()))

    def _numbers(self, value: str) -> Iterator[int]:
        return chain.from_iterable(self.shown.get(value, ()))

    @cached_property
    def _read(self) -> dict[Turn, AbstractSet[int]]:
        """What `_read_by` found."""
        return {}

    @cached_property
    def _names(self) -> Mapping[int, str]:
        """A name in the graph for each number that is computed there or comes in."""
        names: dict[int, str] = {}
        for value in self.shown:
            if value not in self.graph.constants:
                names.update({number: value for number in self._numbers(value) if number not in names})
        return names

    @cached_property
    def _folded(self) -> frozenset[int]:
        return frozenset(number for value in self.graph.constants for number in self._numbers(value))

    @cached_property
    def _givers(self) -> Mapping[int, list[Turn]]:
        """The calls that returned each value without having been given it."""
        givers: dict[int, list[Turn]] = {}
        for turn, seen in self.eager.items():
            for number in seen.returned:
                if number not in seen.inputs:
                    givers.setdefault(number, []).append(turn)
        return givers

    def contaminated(self) -> list[str]:
        """Return the keys of nodes that make a value which calls return, none of the makers tagged with such a call.

        Constant-valued tensors and values that depend on no input's elements are left out: anyone may make them.
        """
        makers: dict[int, list[Node]] = {}
        for node in self.graph.nodes:
            for number in self._given_by_calls(node):
                makers.setdefault(number, []).append(node)
        proper = {number for number, nodes in makers.items() if self._is_theirs(number, nodes)}
        stray = (node.key for node in self.graph.nodes if not proper.issuperset(self._given_by_calls(node)))
        return list(dict.fromkeys(stray))

    def _given_by_calls(self, node: Node) -> list[int]:
        made = (value for value in node.outputs if value in self.graph.by_elements)
        numbers = chain.from_iterable(map(self._numbers, made))
        return [number for number in numbers if number in self._givers and not self.values[number].constant]

    def _is_theirs(self, number: int, makers: Iterable[Node]) -> bool:
        """Whether one of a value's makers is tagged with a call that returned it."""
        return any(giver in node.turns for node in makers for giver in self._givers[number])
