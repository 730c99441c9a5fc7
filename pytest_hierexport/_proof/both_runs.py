"""Puts the eager run and the graph's run beside each other: which calls have which values of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from pytest_hierexport._proof.eager import EagerCall
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.values import Candidates, Values

__all__ = ["BothRuns"]


@dataclass(frozen=True)
class BothRuns:
    """The evidence of a proof."""

    graph: Graph
    calls: Mapping[str, EagerCall]
    """The calls of the eager run by their names in the graph."""
    values: Values
    """The values of the eager run."""
    candidates: Mapping[str, Candidates]
    """The candidates of each value of the graph that could be computed, by its name."""

    def is_among(self, value: str, numbers: AbstractSet[int]) -> bool:
        """Whether a value of the graph, each tensor of a sequence, is one of these or could not be computed."""
        return all(not part.isdisjoint(numbers) for part in self.candidates.get(value, ()))

    def numbers(self, value: str) -> Iterator[int]:
        """Yield the numbers that a value of the graph may have."""
        return chain.from_iterable(self.candidates.get(value, ()))

    def gave(self, call: str, value: str) -> bool:
        """Whether others may have a value of the graph from a call; unknown calls may have given anything."""
        seen = self.calls.get(call)
        return seen is None or self.is_among(value, seen.given)

    def computes_with(self, call: str, value: str) -> bool:
        """Whether a call was given a value of the graph, or owns the producer of it."""
        seen = self.calls.get(call)
        given = seen is not None and self.is_among(value, seen.inputs.keys())
        return given or self.graph.producer.get(value) in self.graph.members.get(call, ())

    def reads(self, call: str) -> AbstractSet[int]:
        """Return the values that the nodes of a call read and do not produce."""
        if call not in self._reads:
            nodes = [self.graph.nodes[i] for i in self.graph.members.get(call, ())]
            produced = {value for node in nodes for value in node.outputs}
            read = {value for node in nodes for value in node.elements if value not in produced}
            self._reads[call] = {number for value in read for number in self.numbers(value)}
        return self._reads[call]

    @cached_property
    def _reads(self) -> dict[str, AbstractSet[int]]:
        return {}

    def tag(self, call: str) -> str | None:
        """Return the tag of a call of the graph."""
        return self.graph.hierarchy.tag(call) if call in self.graph.hierarchy else None

    @cached_property
    def names(self) -> Mapping[int, str]:
        """A name in the graph for each value of the eager run that is an input there or is computed."""
        names: dict[int, str] = {}
        for value in self.candidates:
            if value not in self.graph.constants:
                names.update({number: value for number in self.numbers(value) if number not in names})
        return names

    @cached_property
    def folded(self) -> frozenset[int]:
        """The values of the eager run that the file stores as constants."""
        return frozenset(number for value in self.graph.constants for number in self.numbers(value))

    @cached_property
    def givers(self) -> Mapping[int, list[str]]:
        """The calls that returned each value and were not given it."""
        givers: dict[int, list[str]] = {}
        for call, seen in self.calls.items():
            for number in seen.returned:
                if number not in seen.inputs:
                    givers.setdefault(number, []).append(call)
        return givers
