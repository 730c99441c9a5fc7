"""Finds which origins of a node inside a function belong to each call of the function.

A node of a function carries the origins of all calls of the function, in order. Those below the origins of the calling
node belong to one call:

    y = twice(x)  [layer.0]      function twice: t = Neg(v)  [layer.0.act, layer.1.act]
    z = twice(y)  [layer.1]      owner of t at z:             layer.1.act

Origins without a counterpart are owners, too, so that they are judged: `layer.2.act` of `t` at each call of the
function, `layer.2` of `y` at all nodes of that call.

In go the origins of a node and the calls of functions that it is in; out come its own, by :meth:`InFunctions.of`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache, cached_property
from itertools import chain

import onnx_ir as ir

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins
from pytest_hierexport._calls.hierarchy import ROOT
from pytest_hierexport._grouping import grouped
from pytest_hierexport._proof.inlining import calling_nodes, function_calls

FunctionCalls = tuple[tuple[str, str], ...]
"""The calls of functions around a node, the outermost first: the function's prefix and the key of the calling node."""


class InFunctions:
    """The origins inside the functions of a model that is inlined.

    Args:
        model: The model, functions and branches inlined.
        attribution: The origins of its nodes, by node key.
        lineage: Returns a call with those above it.
    """

    def __init__(self, model: ir.Model, attribution: Attribution, lineage: Callable[[str], frozenset[str]]) -> None:
        """Look at nothing yet."""
        self._model, self._origins, self._lineage = model, attribution.nodes, lineage
        self._position = attribution.hierarchy.position
        self._own = cache(lambda calls: self.of(self._origins.get(calls[-1][1], ()), calls[:-1]))

    def of(self, origins: Origins, calls: FunctionCalls) -> Origins:
        """Return those of a node's origins that belong to these calls of functions, each inside the one before it."""
        if not calls:
            return origins
        *outer, (function, _) = calls
        origins, own = self.of(origins, tuple(outer)), self._own(calls)
        if not own:  # the calling node is untagged: nothing tells which origins belong to it
            return origins
        unpaired = self._unpaired(function, origins, own)
        callers = {origin.call for origin in own}
        inside = [o for o in origins if not callers.isdisjoint(self._lineage(o.call))]
        if not callers.isdisjoint(origin.call for origin in inside):
            # A function that a module and its parent both call: the module's own calls of it explain its origin.
            nearer = self._callers[_function_of(calls)] - frozenset().union(*map(self._lineage, callers))
            inside = [o for o in inside if nearer.isdisjoint(self._lineage(o.call))]
        siblings = self._siblings[self._place(calls)]
        share, rest = divmod(len(inside), len(siblings))
        if len(siblings) == 1 or rest or callers == {origin.call for origin in inside}:
            return (*inside, *unpaired)
        # One caller made all these calls: each has an equal share of the calls below it.
        inside.sort(key=lambda origin: self._position[origin.call])
        place = siblings.index(calls)
        return (*inside[place * share : (place + 1) * share], *unpaired)

    def _unpaired(self, function: str, origins: Origins, own: Origins) -> Iterator[Origin]:
        """Yield origins inside a function that are below none of its calls, and a call's own with none below inside."""
        known, inner = self._all_callers[function], self._inner[function]
        yield from (origin for origin in origins if known.isdisjoint(self._lineage(origin.call)))
        yield from (origin for origin in own if inner and origin.call not in inner)

    @cached_property
    def _all_callers(self) -> Mapping[str, frozenset[str]]:
        """The module calls that call each function anywhere; the root, which explains all, for an untagged node."""
        untagged = (Origin(ROOT, Evidence.TRACED),)
        return {
            function: frozenset(origin.call for node in nodes for origin in self._origins.get(node) or untagged)
            for function, nodes in calling_nodes(self._model).items()
        }

    @cached_property
    def _inner(self) -> Mapping[str, frozenset[str]]:
        """The module calls of the nodes inside each function, and those above them."""
        found: dict[str, frozenset[str]] = dict.fromkeys(self._all_callers, frozenset())
        for name, origins in self._origins.items():
            function = f"{name.partition('//')[0]}//"
            if function in found and origins:
                found[function] |= frozenset().union(*(self._lineage(origin.call) for origin in origins))
        return found

    def _place(self, calls: FunctionCalls) -> Hashable:
        """Return what siblings share: the calls around them, the function and its callers."""
        return *_function_of(calls), frozenset(self._origins.get(calls[-1][1], ()))

    @cached_property
    def _callers(self) -> Mapping[Hashable, frozenset[str]]:
        """The module calls that call each function at a place."""
        callers: dict[Hashable, frozenset[str]] = defaultdict(frozenset)
        for calls in chain.from_iterable(self._siblings.values()):
            callers[_function_of(calls)] |= {origin.call for origin in self._origins.get(calls[-1][1], ())}
        return callers

    @cached_property
    def _siblings(self) -> Mapping[Hashable, list[FunctionCalls]]:
        """The calls of functions that were inlined, in order, by place."""
        nested = map(function_calls, self._model.graph.all_nodes())
        return grouped(dict.fromkeys(each[: i + 1] for each in nested for i in range(len(each))), self._place)


def _function_of(calls: FunctionCalls) -> tuple[Hashable, ...]:
    """Return the calls around a call of a function, and the function."""
    *outer, (function, _) = calls
    return *outer, function
