"""Puts the eager run and the graph's run beside each other: which calls have which values of the graph.

eager run                    graph                  candidates of the graph's values
a: given 0, returned 1       t = Exp(x) [a]         t: none
b: given 1, returned 2       h = Neg(t) [a]         h: 1, which `a` returned and `b` was given
                             y = Sin(h) [b]         y: 2, which `b` returned

`prove` makes a :class:`BothRuns` for each attempt; `verdict`, `lost_values` and `loose` ask it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from pytest_hierexport._grouping import by_key
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.owners import Graph
from pytest_hierexport._proof.values import Candidates, Values


@dataclass(frozen=True)
class BothRuns:
    """The evidence of a proof."""

    graph: Graph
    calls: Mapping[str, EagerCall]
    """The calls of the eager run by their names in the graph."""
    values: Values
    """The values of the eager run."""
    candidates: Mapping[str, Candidates]
    """The candidates of each value of the graph by its name; none of one that could not be computed."""
    rearranged: Mapping[str, Candidates] = field(default_factory=dict)
    """Those of each value that a fusion may have transposed or reshaped, by its name."""

    def numbers(self, value: str) -> Iterator[int]:
        """Yield the numbers that a value of the graph may have."""
        return chain.from_iterable(self.candidates.get(value, ()))

    def numbers_in_any_form(self, value: str) -> Iterator[int]:
        """Yield the numbers that a value of the graph may have, also after a transposition or in another shape."""
        return chain.from_iterable((*self.candidates.get(value, ()), *self.rearranged.get(value, ())))

    def given(self, call: str) -> AbstractSet[int]:
        """Return the values that a call was given; of one in a loop, none is known."""
        return self.calls[call].inputs.keys() if call in self.calls else frozenset()

    def was_given(self, call: str, value: str, *, as_is: bool = False) -> bool:
        """Whether a call of the eager run was given a value of the graph, in any form unless `as_is`."""
        is_among = self._is_among if as_is else self._is_in_any_form
        return is_among(value, self.given(call))

    def gave(self, call: str, value: str) -> bool:
        """Whether others may have a value of the graph from a call; one in a loop may have given anything."""
        if call not in self.calls:
            return True
        return self._is_in_any_form(value, self.calls[call].available) or self._is_among(value, self._kept[call])

    def _is_among(self, value: str, numbers: AbstractSet[int]) -> bool:
        """Whether a value of the graph, each tensor of a sequence, is one of these or could not be computed."""
        return all(not part.isdisjoint(numbers) for part in self.candidates.get(value, ()))

    def _is_in_any_form(self, value: str, numbers: AbstractSet[int]) -> bool:
        """Whether a value of the graph is one of these, as it is or, at a fused node, transposed or reshaped."""
        rearranged: Candidates = self.rearranged.get(value, (frozenset(),))
        return self._is_among(value, numbers) or all(not part.isdisjoint(numbers) for part in rearranged)

    @cached_property
    def _kept(self) -> Mapping[str, AbstractSet[int]]:
        """The values of calls below each call that calls above it returned and were not given: a hook kept them.

        transformers takes the hidden states of a model so, which the call of its layers does not return (xcodec).
        """
        below: dict[str, set[int]] = defaultdict(set)
        above: dict[str, set[int]] = defaultdict(set)
        for call, seen in self.calls.items():
            for caller in self.lineage(call)[1:]:
                below[caller] |= seen.available
                if caller in self.calls:
                    above[call] |= self.calls[caller].returned.keys() - self.calls[caller].inputs.keys()
        return {call: below[call] & above[call] for call in self.calls}

    def lineage(self, call: str) -> Sequence[str]:
        """Return a call and those above it; one that the graph lacks alone."""
        hierarchy = self.graph.hierarchy
        return list(hierarchy.lineage(call)) if call in hierarchy else [call]

    def tag(self, call: str) -> str | None:
        """Return the tag of a call of the graph."""
        return self.graph.hierarchy.tag(call) if call in self.graph.hierarchy else None

    @cached_property
    def names(self) -> Mapping[int, str]:
        """A name in the graph for each value of the eager run that is there."""
        return {number: value for value in reversed(list(self.candidates)) for number in self.numbers(value)}

    @cached_property
    def computed(self) -> Mapping[int, str]:
        """A name in the graph for each value of the eager run that is an input of it or that it computes, in any form.

        What it stores alone shows no call: nothing says which one computed it (the position bias of a layer of T5).
        """
        names = (value for value in reversed(list(self.candidates)) if value not in self.graph.constants)
        return {number: value for value in names for number in self.numbers_in_any_form(value)}

    @cached_property
    def other_forms(self) -> Mapping[int, AbstractSet[int]]:
        """The values of which the graph has another form alone, by each value that the graph has in their place."""
        found: dict[int, set[int]] = defaultdict(set)
        for value in self.rearranged:
            forms = set(self.numbers_in_any_form(value)) - self.names.keys()
            for number in self.numbers(value):
                found[number] |= forms
        return dict(found)

    @cached_property
    def stored(self) -> frozenset[int]:
        """The values of the eager run that the file stores as constants."""
        return frozenset(number for value in self.graph.constants for number in self.numbers_in_any_form(value))

    @cached_property
    def givers(self) -> Mapping[int, list[str]]:
        """The calls that returned each value and were not given it."""
        calls = self.calls.items()
        return by_key((number, call) for call, seen in calls for number in seen.returned.keys() - seen.inputs.keys())
