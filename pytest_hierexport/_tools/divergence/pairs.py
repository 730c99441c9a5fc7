"""Pairs the values of a graph with those of the reference.

`Matching` knows pairs by the structure and the names of both graphs, as carry matches them. `nearest_pair` finds them
by value. In a graph that changed, even the nearest value may be another one; two rules drop such pairs:

    value      nearest    apart
    h_quant    h          0.1         kept
    h_sum      h          0.7         dropped: h_quant is nearer to h (`without_rivals`)
    m_quant    m          0.9         dropped: y = Relu(m) is equal in both graphs (`without_false`)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_hierexport._carry.aliases import number_values
from pytest_hierexport._carry.copying import flat_copy
from pytest_hierexport._carry.flat import Flat, Value
from pytest_hierexport._carry.numbering import Numbering
from pytest_hierexport._errors import UsageError
from pytest_hierexport._proof.tolerance import Array
from pytest_hierexport._tools.divergence.gaps import nearness
from pytest_hierexport._tools.divergence.results import Gap

if TYPE_CHECKING:
    import onnx_ir as ir

    from pytest_hierexport._tools.divergence.sides import Side

KeyT = TypeVar("KeyT")


@dataclass(frozen=True)
class Pair(Generic[KeyT]):
    """A value of the graph and one of the reference."""

    value: str
    key: KeyT
    """Identifies the value of the reference."""
    gap: Gap
    dtype: str
    """The dtype of the value in the graph."""
    nearness: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the value can be replaced by that of the reference."""
        return not self.gap.reshaped


def nearest_pair(
    value: str, array: Array, keys: Iterable[KeyT], arrays: Mapping[KeyT, Array], side: Side
) -> Pair[KeyT] | None:
    """Pair a value of a graph with the nearest of some of the reference; None where none has its shape and kind."""
    found = [(near, key) for key in keys if key in arrays and (near := nearness(arrays[key], array)) is not None]
    if not found:
        return None
    near, key = min(found, key=lambda each: each[0])
    return Pair(value, key, side.gap(value, arrays[key], array), array.dtype.name, near)


def without_rivals(pairs: Sequence[Pair[KeyT]]) -> list[Pair[KeyT]]:
    """Drop the pairs beyond the tolerance whose reference value has a nearer one in the graph."""
    best: dict[KeyT, float] = {}
    for pair in pairs:
        best[pair.key] = min(pair.nearness, best.get(pair.key, pair.nearness))
    return [pair for pair in pairs if not pair.gap.parted or pair.nearness <= best[pair.key]]


def without_false(reference: ir.Model, pairs: Iterable[Pair[str]]) -> list[Pair[str]]:
    """Drop the pairs beyond the tolerance on which a value within it depends: an error would show there too.

    Under another name, a value is known by its call and its place alone. It may be another value of the call, such as
    the MatMul before a bias that a fusion took away (bert_dynamic and mamba, optimized by ONNX Runtime).
    """
    pairs = list(pairs)
    sound = {pair.key for pair in pairs if not pair.gap.parted}
    values = {value.name: value for node in reference.graph.all_nodes() for value in node.outputs}
    return [
        pair
        for pair in pairs
        if not pair.gap.parted or pair.value == pair.key or sound.isdisjoint(_dependents(values[pair.key]))
    ]


def _dependents(value: ir.Value) -> Iterator[str | None]:
    """Yield the names of all values that are computed from a value, the nearest first."""
    seen, pending = {value}, [value]
    for at in pending:
        for output in (output for consumer, _ in at.uses() for output in consumer.outputs):
            if output not in seen:
                seen.add(output)
                pending.append(output)
                yield output.name


class Matching:
    """Matches the values of two graphs, once for all inputs on which both take the same branches."""

    def __init__(self) -> None:
        """Match nothing yet."""
        self._known: dict[tuple[str | None, ...], dict[str, str]] = {}

    def same_values(self, before: ir.Model, after: ir.Model, wanted: Iterable[str]) -> dict[str, str]:
        """Return the names that values have in another graph, as carry matches both; lost values are left out.

        Args:
            before: The one graph, functions and taken branches inlined.
            after: The other graph, inlined too.
            wanted: The names of the values, the same for the same branches.

        Raises:
            UsageError: External data is missing or damaged.
        """
        # A value of a branch has the branch in its name.
        branches = tuple(value.name for model in (before, after) for node in model.graph for value in node.outputs)
        if branches not in self._known:
            self._known[branches] = _same_values(before, after, wanted)
        return self._known[branches]


def _same_values(before: ir.Model, after: ir.Model, wanted: Iterable[str]) -> dict[str, str]:
    try:
        one, two = flat_copy(before), flat_copy(after)
        names = _names(one), _names(two)  # matching may rename outputs
        numbering = number_values(one, two)
    except (OSError, ValueError) as error:
        raise UsageError(
            "graphs with all their tensors", found=str(error), do="put external data beside them"
        ) from error
    values = {name: value for value, name in names[0].items()}
    found: dict[str, str] = {}
    for name in wanted:
        equal = numbering.by_number_after.get(numbering.before[values[name]], ())
        candidates = [names[1][value] for value in equal if value in names[1]]
        if candidates:
            found[name] = name if name in candidates else candidates[0]
        elif _is_reshaped(values[name], one, two, numbering):
            found[name] = name
    return found


def _is_reshaped(value: Value, before: Flat, after: Flat, numbering: Numbering) -> bool:
    """Whether the same operator computes a value of that name after, which equals no other value before.

    Carry does not match values of different shapes.
    """
    new = after.named.get(value.name)
    if new is None or new not in after.producer or numbering.after[new] in numbering.known:
        return False
    return before.producer[value].operator == after.producer[new].operator


def _names(flat: Flat) -> dict[Value, str]:
    """Return the names of the values that nodes of the main graph compute."""
    nodes = (node for node in flat.nodes if node.parent is None)
    pairs = (pair for node in nodes for pair in zip(node.outputs, node.source.outputs, strict=False))
    return {value: source.name for value, source in pairs if source.name}
