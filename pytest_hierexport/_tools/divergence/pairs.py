"""Pairs the values of a graph with those of the reference.

`same_values` knows pairs by the structure and the names of both graphs, as carry matches them. `possible_pairs` finds
them by value. In a graph that changed, even the nearest value may be another one; three rules avoid such pairs:

    value      nearest    apart
    h_quant    h          0.1         kept
    h_sum      h          0.7         dropped: h_quant is nearer to h (`chosen_pairs`)
    z_wrong    x, then z  0.3, 0.5    z: another value equals x (`chosen_pairs`)
    m_quant    m          0.9         dropped: y = Relu(m) is equal in both graphs (`without_false`)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_hierexport._calls.names import encode
from pytest_hierexport._carry.aliases import number_values
from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._carry.flat import Flat, Value
from pytest_hierexport._carry.numbering import Numbering
from pytest_hierexport._errors import UsageError
from pytest_hierexport._proof.inlining import function_calls
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._tools.divergence.gaps import nearness
from pytest_hierexport._tools.divergence.results import Gap

if TYPE_CHECKING:
    import onnx_ir as ir

    from pytest_hierexport._proof.owners import Graph
    from pytest_hierexport._tools.divergence.sides import Side

Key = int | str
"""The name of a value of the reference, the number of a value of its eager run, or the place of a tensor that this
returned."""
Matched = dict[tuple[str | None, ...], dict[str, str]]
"""The names that values have in another graph, by the branches that both take."""


@dataclass(frozen=True)
class Pair:
    """A value of the graph and one of the reference."""

    value: str
    key: Key
    """Identifies the value of the reference."""
    gap: Gap
    dtype: str
    """The dtype of the value in the graph."""
    nearness: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the value can be replaced by that of the reference."""
        return not self.gap.reshaped


def measured_pair(value: str, array: Array, key: Key, arrays: Mapping[Key, Array], side: Side) -> Pair:
    """Pair a value of a graph with one of the reference."""
    return Pair(value, key, side.gap(value, arrays[key], array), array.dtype.name)


def possible_pairs(
    value: str, array: Array, votes: Mapping[Key, int], arrays: Mapping[Key, Array], side: Side
) -> list[Pair]:
    """Pair a value of a graph with those of the reference that have its shape and kind, the most probable first.

    That is the nearest where it lies within the tolerance, and is then the only one; else the one with the most votes,
    of several the nearest. Votes come first because a wrong result may be nearer to most other values than to the right
    one, such as a negated one. `votes` has how many calls tell of each value of the reference that it may be this one.
    """
    near = {key: nearness(arrays[key], array) for key in votes if key in arrays}
    found = {key: each for key, each in near.items() if each is not None}

    def pair(key: Key) -> Pair:
        return replace(measured_pair(value, array, key, arrays, side), nearness=found[key])

    if found and not (nearest := pair(min(found, key=found.__getitem__))).gap.parted:
        return [nearest]
    return [pair(key) for key in sorted(found, key=lambda key: (-votes[key], found[key]))]


def chosen_pairs(candidates: Iterable[Sequence[Pair]]) -> list[Pair]:
    """Choose a pair for each value of a graph, of those that it may have, the most probable first.

    A value within the tolerance keeps its pair. Any other has the first whose value of the reference no value of the
    graph equals: in a residual network, a wrong result may be nearer to what its call was given than to the right one.
    It is dropped where that value of the reference has a nearer one in the graph.
    """
    several = [pairs for pairs in candidates if pairs]
    equal = {pair.key for pairs in several for pair in pairs if not pair.gap.parted}
    left = (next((pair for pair in pairs if pair.key not in equal or not pair.gap.parted), None) for pairs in several)
    chosen = [pair for pair in left if pair is not None]
    best: dict[Key, float] = {}
    for pair in chosen:
        best[pair.key] = min(pair.nearness, best.get(pair.key, pair.nearness))
    return [pair for pair in chosen if not pair.gap.parted or pair.nearness <= best[pair.key]]


def without_false(reference: Graph, pairs: Sequence[Pair]) -> list[Pair]:
    """Drop the pairs beyond the tolerance on which a value within it depends: an error would show there too.

    Under another name, a value is known by its call and its place alone. It may be another value of the call, such as
    the MatMul before a bias that a fusion took away (bert_dynamic and mamba, optimized by ONNX Runtime).
    """
    sound = [str(pair.key) for pair in pairs if not pair.gap.parted and pair.key in reference.producer]
    needed = {value for node in reference.upstream(sound, ()) for value in reference.nodes[node].inputs}
    return [pair for pair in pairs if not pair.gap.parted or pair.value == pair.key or pair.key not in needed]


def same_values(before: ir.Model, after: ir.Model, known: Matched) -> dict[str, str]:
    """Return the names that values have in another graph, as carry matches both; lost values are left out.

    Functions and taken branches are inlined in both. `known` has what was returned before, on other inputs: the values
    are the same for the same branches.

    Raises:
        UsageError: External data is missing or damaged.
    """
    # A value of a branch has the branch in its name.
    branches = tuple(value.name for model in (before, after) for node in model.graph for value in node.outputs)
    if branches in known:
        return known[branches]
    try:
        one, two = flat_copy(before), flat_copy(after)
        names = _names(one), _names(two)  # matching may rename outputs
        _forget_inner_names(one, two)
        numbering = number_values(one, two)
    except (OSError, ValueError) as error:
        raise UsageError(
            "graphs with all their tensors", found=str(error), do="put external data beside them"
        ) from error
    found = known[branches] = {}
    for value, name in names[0].items():
        equal = numbering.by_number_after.get(numbering.old[value], ())
        candidates = [names[1][value] for value in equal if value in names[1]]
        if candidates:
            found[name] = name if name in candidates else candidates[0]
        elif _is_reshaped(value, one, two, numbering):
            found[name] = name
    return found


def _is_reshaped(value: Value, before: Flat, after: Flat, numbering: Numbering) -> bool:
    """Whether the same operator computes a value of that name after, which equals no other value before.

    Carry does not match values of different shapes.
    """
    new = after.named.get(value.name)
    if new is None or new not in after.producer or numbering.new[new] in numbering.first_before:
        return False
    return before.producer[value].operator == after.producer[new].operator


def _forget_inner_names(before: Flat, after: Flat) -> None:
    """Forget the names of values that are in other calls of functions in the other graph.

    A name in a function means nothing outside: all calls of the function have its values.
    """
    for name in before.named.keys() & after.named.keys():
        values = before.named[name], after.named[name]
        nodes = before.producer.get(values[0]), after.producer.get(values[1])
        places = {function_calls(node.source) for node in nodes if node is not None and node.parent is None}
        if len(places) > 1:
            del before.named[name], after.named[name]
            values[0].name = values[1].name = ""


def _names(flat: Flat) -> dict[Value, str]:
    """Return the names of the values that nodes of the main graph compute."""
    names = (output.name for node in flat.nodes if node.parent is None for output in node.source.outputs)
    return {flat.named[encode(name)]: name for name in names if name and encode(name) in flat.named}
