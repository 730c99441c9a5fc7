"""Pairs the inputs of two graphs, and of their subgraphs: the numbering of their values begins there.

Example. A tool extracted one of two towers. The input `doc` is the first one now, and stays what it was:

    before: g (query, doc) => (u, v)    call    after: g (doc) => (v)    origins
    u = Tanh(query)                     a
    v = Tanh(doc)                       b       v = Tanh(doc)            b traced

1. An input with the name of a value before is that value: mostly an input; a computed value, where a tool extracted a
   part (`onnx.utils.extract_model`); an initializer, where weights became inputs. The name does not count in two
   cases. Consumers of the old input take this one now, at the same position: it is that input, with another's name
   (`input_names` of an exporter). Or the value had another type, or was no input, and its consumers, which kept their
   names, take something else now.
2. One without a namesake is the input that consumers took which kept their names. Else it is the first one of its type
   that is left and has a consumer of the same operator, or any consumers, where a tool renamed all inputs.
3. All others are new: a tool put them in front of the model, or beside it (`onnx.compose.merge_models`).

Out comes, for each input of the graph after that is not new, the value before that it is: :func:`pair_inputs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_hierexport._carry.flat import Flat, Node, Value, same_operator, types_may_agree


def pair_inputs(before: Flat, after: Flat, holders: Mapping[Node, Node]) -> dict[Value, Value]:
    """Map inputs after, and initializers after that were inputs, each to the value before that it is.

    Args:
        before: The graph before.
        after: The graph after.
        holders: Nodes after with subgraphs, each with the node before whose subgraphs they are.
    """
    pairs = _Pairing(before, after, before.inputs, after.inputs).run()
    for new, old in holders.items():
        pairs.update(_Pairing(before, after, old.body_inputs, new.body_inputs).run())
    # onnxsim and ONNX Runtime's tools fix an input, such as a flag, to a constant.
    known = {value.name: value for value in before.inputs}
    pairs.update((value, known[name]) for name, value in after.initializers.items() if name in known)
    return pairs


@dataclass
class _Pairing:
    """The inputs of one graph, which are paired."""

    before: Flat
    after: Flat
    old: Sequence[Value]
    new: Sequence[Value]
    pairs: dict[Value, Value] = field(default_factory=dict)
    """The inputs after, each with its counterpart."""
    free: dict[Value, None] = field(default_factory=dict)
    """The inputs after that have none yet, in order."""
    paired: set[Value] = field(default_factory=set)
    """The values before that are the counterpart of one."""

    def run(self) -> dict[Value, Value]:
        """Return the inputs after that are values before."""
        self.free = dict.fromkeys(self.new)
        for position, value in enumerate(self.new):
            found = self._named(position, value)
            if found is not None:
                self._pair(value, found)
        all_renamed = not self.pairs
        for old in self.old:
            found = next((value for value in self._taken_now(old) if value in self.free), None)
            if found is not None:
                self._pair(found, old)
        self._in_order(similar=True)
        if all_renamed:
            self._in_order(similar=False)
        return self.pairs

    def _pair(self, value: Value, old: Value) -> None:
        if old not in self.paired:
            self.pairs[value] = old
            self.paired.add(old)
            del self.free[value]

    def _named(self, position: int, value: Value) -> Value | None:
        """Return the value before with the name of an input after; None where other findings contradict the name."""
        namesake = self.before.named.get(value.name) if value.name else None
        if namesake is None:
            return None
        taken = self._taken_now(namesake)
        if value not in taken and len(self.old) == len(self.new):
            other = self.old[position]
            if value in self._taken_now(other):
                return other
        if namesake in self.old and (types_may_agree(namesake, value) or not taken):
            return namesake
        return namesake if types_may_agree(namesake, value) and (value in taken or not taken) else None

    def _taken_now(self, old: Value) -> list[Value]:
        """Return what consumers that kept name and operator take, and what outputs give, in place of a value before."""
        return list(dict.fromkeys(self._in_place_of(old)))

    def _in_place_of(self, old: Value) -> Iterator[Value]:
        for node in self.before.consumers.get(old, ()):
            namesake = self.after.producer_of(node.first_name)
            if namesake is None or not same_operator(node, namesake):
                continue
            for known, value in zip(node.inputs, namesake.inputs, strict=True):
                if known is old and value is not None:
                    yield self._passed(value)
        # torch gives the name of an input that the model returns to an Identity of it.
        for known, output in zip(self.before.outputs, self.after.outputs, strict=False):
            if known is old and (returned := self._passed(output)) in self.new:
                yield returned

    def _passed(self, value: Value) -> Value:
        """Return the value that Identities pass through."""
        while (node := self.after.producer.get(value)) is not None and (source := node.identity_input) is not None:
            value = source
        return value

    def _in_order(self, *, similar: bool) -> None:
        """Pair the inputs that are left in order, those of one type of which no consumer takes something else now."""
        for old in self.old:
            if old in self.paired or self._taken_now(old):
                continue
            fitting = (value for value in self.free if types_may_agree(old, value))
            found = next((value for value in fitting if not similar or self._have_similar_consumers(old, value)), None)
            if found is not None:
                self._pair(found, old)

    def _have_similar_consumers(self, old: Value, value: Value) -> bool:
        """Whether two inputs have a consumer of one operator, at the same place among its inputs."""
        pairs = ((a, b) for a in self.before.consumers.get(old, ()) for b in self.after.consumers.get(value, ()))
        return any(same_operator(a, b) and _places(a.inputs, old) & _places(b.inputs, value) for a, b in pairs)


def _places(inputs: Sequence[Value | None], value: Value) -> set[int]:
    return {i for i, each in enumerate(inputs) if each is value}
