"""The origins of a transformed graph, from those of the graph before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin, Origins, Primary, order_origins
from pytest_hierexport._carry.flat import Flat, Node, Value, same_type
from pytest_hierexport._carry.numbering import Form, namesake, number, passed_on
from pytest_hierexport._carry.regions import Region, leading_from, read_by, read_on, regions, walk_back
from pytest_hierexport._onnx.models import as_ir

if TYPE_CHECKING:
    from pytest_hierexport._calls.hierarchy import Hierarchy
    from pytest_hierexport._onnx.models import Model

__all__ = ["Known", "carry", "carry_known"]


def carry(before: Model, attribution: Attribution, after: Model, *, primary: Primary = "first") -> Attribution:
    """Compute the attribution of a transformed model from that of the model before it.

    Args:
        before: The model before the transformation: a path, a protobuf message or an onnx_ir model.
        attribution: The origins of each of its nodes and initializers, as :func:`pytest_hierexport.read` gives them.
        after: The model after, in any of the same forms; it shares no nodes with the one before.
        primary: How the first of several origins is chosen; see :class:`pytest_hierexport.Attribution`.

    Returns:
        The origins of each node and initializer of `after`.

    Raises:
        UsageError: A path leads to no ONNX file.
    """
    flat = Flat.of(as_ir(before))
    nodes = {node: attribution.nodes.get(node.key, ()) for node in flat.nodes}
    known = Known(attribution.hierarchy, flat, nodes, attribution.initializers)
    return carry_known(known, Flat.of(as_ir(after)), primary)


class Known:
    """A graph with the origins of its nodes, a function's counted apart for every call of it."""

    def __init__(
        self, hierarchy: Hierarchy, flat: Flat, nodes: Mapping[Node, Origins], initializers: Mapping[str, Origins]
    ) -> None:
        """Hold them together."""
        self.hierarchy, self.flat, self.nodes, self.initializers = hierarchy, flat, nodes, initializers


def carry_known(known: Known, after: Flat, primary: Primary = "first") -> Attribution:
    """Compute the attribution of `after`, as :func:`carry` does, from what is known of the graph before."""
    return _Carrier(known, after, primary).run()


class _Carrier:
    def __init__(self, known: Known, after: Flat, primary: Primary) -> None:
        self.known, self.before, self.after, self.primary = known, known.flat, after, primary
        self.numbering = number(self.before, after)
        self.makers = _by_form(self.numbering.forms_before)
        self.origins: dict[Node, list[Origin]] = {node: [] for node in after.nodes}
        self.became: dict[Node, list[Node]] = {}  # the survivors that stand for a node before

    def run(self) -> Attribution:
        matched = self._match()
        for region in regions(self.after, self.before, self.numbering, matched, self.became):
            self._fuse(region)
        self._cancel()
        self._hand_on(matched)
        self._derive()
        nodes: dict[str, list[Origin]] = {}
        for node in self.after.nodes:
            nodes.setdefault(node.key, []).extend(self.origins[node])
        initializers = {name: self._initializer(name, value) for name, value in self.after.initializers.items()}
        return Attribution(self.known.hierarchy, self._ordered(nodes), self._ordered(initializers))

    def _ordered(self, origins: Mapping[str, Iterable[Origin]]) -> dict[str, Origins]:
        return {name: order_origins(self.known.hierarchy, found, self.primary) for name, found in origins.items()}

    # twins and merges

    def _match(self) -> set[Node]:
        """Give every node that is computed like nodes before their origins; return those nodes."""
        matched: set[Node] = set()
        merged: list[Node] = []
        for form, nodes in _by_form(self.numbering.forms_after).items():
            # What hands a value on is like everything that does so, and comes from none of it.
            survivors = [node for node in nodes if passed_on(node) is None]
            alike = self.makers.get(form, [])
            if alike and survivors:
                matched.update(survivors)
                merged += self._share(alike, survivors)
        self._merge(merged)
        unique = {node.key: node for node in self.before.nodes if not node.repeatable}
        for node in self.after.nodes:
            if node.repeatable and any(output.varying for output in node.outputs):
                continue
            # What cannot be repeated is known by its name alone, and equal constants say nothing of who made which.
            twin = None if node in matched else namesake(self.before, node) or unique.get(node.key)
            if twin is not None and twin.operator == node.operator:
                matched.add(node)
                self.origins[node] += self.known.nodes[twin]
        return matched

    def _share(self, alike: list[Node], survivors: list[Node]) -> list[Node]:
        """Give the survivors of one form the origins of those who stay; return those that went into them."""
        merged: list[Node] = []
        pairs = _paired(alike, survivors)
        for maker, survivor in pairs.items():
            self.became[maker] = [survivor]
            self.origins[survivor] += self.known.nodes[maker]
        for maker in alike:
            if maker in pairs:
                continue
            if any(output.varying for output in maker.outputs):
                self.became[maker] = self._heirs(maker, survivors)
                merged.append(maker)
        for survivor in set(survivors).difference(pairs.values()):
            self.origins[survivor] += _as(Evidence.FOLDED, self._computed_ahead(survivor))
        return merged

    def _merge(self, lost: list[Node]) -> None:
        """Give survivors the origins of what went into them: of several those that feed what its readers became."""
        for maker in sorted(lost, key=self.before.order.__getitem__, reverse=True):
            readers = [reader for output in maker.outputs for reader in self.before.readers.get(output, ())]
            became = {survivor for reader in readers for survivor in self.became.get(reader, ())}
            heirs = [node for node in self.became[maker] if not became.isdisjoint(self._readers(node))]
            self.became[maker] = heirs or self.became[maker]
            for survivor in self.became[maker]:
                self.origins[survivor] += _as(Evidence.MERGED, self.known.nodes[maker])

    def _readers(self, node: Node) -> Iterator[Node]:
        """Yield the nodes after that read what a node after gives."""
        return (reader for output in node.outputs for reader in self.after.readers.get(output, ()))

    def _computed_ahead(self, node: Node) -> Iterator[Origin]:
        """Yield the origins of what was computed by other means before, and became a node like many that hold it."""
        for output in node.outputs:
            named = self.before.named.get(output.name) if output.name else None
            maker = self.before.maker.get(named) if named is not None else None
            if named is None or maker is None or not same_type(named, output):
                continue
            if self.numbering.before[named] == self.numbering.after[output] or not self._lives_on(named):
                yield from self.known.nodes[maker]

    def _heirs(self, maker: Node, survivors: list[Node]) -> list[Node]:
        """The survivors that a lost maker went into.

        Those that feed its readers, else those fed like it; where neither tells, all of them - or none, where it went
        into nothing: what it made was undone behind it.
        """
        given = {name for output in maker.outputs for name in read_by(output, self.before)}
        heirs = [node for node in survivors if any(not given.isdisjoint(read_by(o, self.after)) for o in node.outputs)]
        heirs = heirs or [node for node in survivors if self._fed_alike(maker, node)]
        return heirs or ([] if self._undone(maker) else survivors)

    def _undone(self, maker: Node) -> bool:
        """Whether all that was computed from what a maker gave ends in values that stand for earlier ones."""
        at, seen, ends = list(maker.outputs), set(maker.outputs), 0
        while at:
            for reader in self.before.readers.get(at.pop(), ()):
                for output in reader.outputs:
                    if output in self.numbering.aliases:
                        ends += 1
                    elif output.name in self.after.named:
                        return False
                    elif output not in seen:
                        seen.add(output)
                        at.append(output)
        return ends > 0

    def _fed_alike(self, maker: Node, survivor: Node) -> bool:
        """Whether a survivor reads from what the nodes became that a lost maker read from, as far as that is known."""
        pairs = zip(maker.inputs, survivor.inputs, strict=True)
        makers = ((self.before.maker.get(lost), self.after.maker.get(read)) for lost, read in pairs if lost and read)
        return all(read in self.became[lost] for lost, read in makers if lost in self.became)

    # fusions

    def _fuse(self, region: Region) -> None:
        calls = [origin for maker in region.made_of for origin in self.known.nodes[maker]]
        for node in region.nodes:
            self.origins[node] += _as(Evidence.FUSED, calls)

    def _cancel(self) -> None:
        """Give what took the place of a value the origins of the operations that cancelled out between the two.

        Where one call turns a value and another turns it back, an optimizer drops both: the second call then reads
        what it was never given. Whoever makes that does the work of all three. So it is where a call turned a value of
        its own for the call above, which turned it back, if the one below stays with something else that it gave. What
        one call did and undid by itself is nobody else's affair, and what a survivor does all the same did not cancel.
        """
        for lost, source in self.numbering.aliases.items():
            if lost not in self.before.maker or self.became.get(self.before.maker[lost]):
                continue
            origins = [origin for node in self._between(source, lost) for origin in self.known.nodes[node]]
            last = {origin.call for origin in self.known.nodes[self.before.maker[lost]]}
            others = {origin.call for origin in origins if not self._lies_in(origin.call, last)}
            inner = {origin.call for origin in origins}.difference(last, others)
            if not self.before.readers.get(lost) or not (others or self._stays_without(lost, inner, source)):
                continue
            for node in self._making(source):
                held = {origin.call for origin in self.origins[node]}
                # What ran below the call above is not that call's own.
                within = any(self._lies_in(call, last) for call in held) if others else not held.isdisjoint(last)
                if not within:
                    self.origins[node] = _as(Evidence.FUSED, [*self.origins[node], *origins])

    def _stays_without(self, lost: Value, calls: set[str], source: Value) -> bool:
        """Whether no node hands the value on by its name, and a call that made it stays with what else it gave.

        A call of which nothing else is left has dissolved with what was undone.
        """
        maker = self.before.maker.get(source)
        if maker is None or lost.name in self.after.named:
            return False
        return any(self._stays(call, source) for call in calls & self._within(maker))

    def _stays(self, call: str, source: Value) -> bool:
        """Whether a call gave others something that lives on, and not this value."""
        numbers = self._left.get(call, set())
        return self.numbering.before[source] not in numbers and not numbers.isdisjoint(self.numbering.alive)

    @cached_property
    def _left(self) -> Mapping[str, set[int]]:
        """What a call computed before for others, by number; what nobody reads is the model's to give."""
        left: dict[str, set[int]] = {}
        for node in self.before.nodes:
            made = self._within(node)
            for value in node.outputs if made else ():
                readers = [self._within(reader) for reader in self.before.readers.get(value, ())]
                for call in made.difference(made.intersection(*readers or [set()])) if value.varying else ():
                    left.setdefault(call, set()).add(self.numbering.before[value])
        return left

    def _within(self, node: Node) -> set[str]:
        """Return the calls that a node before ran in."""
        return {call for origin in self.known.nodes[node] for call in self.known.hierarchy.lineage(origin.call)}

    def _between(self, source: Value, lost: Value) -> set[Node]:
        """Return the nodes through which a value goes to what it is again in the end; not what these read beside it."""
        wanted = self.numbering.before[source]
        back = walk_back(self.before, [lost], lambda value: self.numbering.before[value] == wanted)
        return leading_from({wanted}, self.before, self.numbering, back)

    def _lies_in(self, call: str, calls: set[str]) -> bool:
        return not calls.isdisjoint(self.known.hierarchy.lineage(call))

    def _making(self, value: Value) -> list[Node]:
        """Return the nodes after that make a value before: the one of its name, else all that make the same."""
        named = self.after.named.get(value.name) if value.name else None
        alike = self.numbering.by_number_after.get(self.numbering.before[value], [])
        values = [named] if named is not None else alike
        return [self.after.maker[value] for value in values if value in self.after.maker]

    def _hand_on(self, matched: set[Node]) -> None:
        """Give a new node that hands a value on the origins of what was called by its name, at the border the root's.

        An optimizer puts such a node where an output of the graph would be one of its inputs, or is left of a chain.
        """
        for node in self.after.nodes:
            if passed_on(node) is not None and node not in matched and not self.origins[node]:
                root = (Origin(next(iter(self.known.hierarchy)), Evidence.FUSED),)
                self.origins[node] += _as(Evidence.FUSED, self._named_so(node)) or root
                self.origins[node] += self._passing(node)

    def _named_so(self, node: Node) -> Iterator[Origin]:
        """Yield the origins of what gave the value of this name before, and of all that did so alike and is gone.

        What others read now in the place of one that is gone is not handed on here.
        """
        twin = namesake(self.before, node)
        given = {name for output in node.outputs for name in read_by(output, self.after)}
        for alike in () if twin is None else self.makers[self.numbering.forms_before[twin]]:
            gone = not any(output.name in self.after.named for output in alike.outputs)
            by = {name for output in alike.outputs for name in read_on(output, self.before, self.became)}
            elsewhere = by.isdisjoint(given) and not by.isdisjoint(self.after.named)
            if alike is twin or (gone and not elsewhere):
                yield from self.known.nodes[alike]
        for lost in () if twin is None else twin.outputs:
            source = self.numbering.aliases.get(lost)
            for between in () if source is None else self._between(source, lost):
                yield from self.known.nodes[between]

    def _passing(self, node: Node) -> list[Origin]:
        """Return the calls through which the value goes from its maker to a reader, so that it never leaves them."""
        hierarchy = self.known.hierarchy
        maker = self.after.maker.get(node.inputs[0]) if node.inputs[0] is not None else None
        readers = list(self._readers(node))
        calls = {
            hierarchy.common((made.call, read.call))
            for made in (self.origins[maker] if maker is not None else ())
            for reader in readers
            for read in self.origins[reader]
        }
        held = {call for origin in self.origins[node] for call in hierarchy.lineage(origin.call)}
        return [Origin(call, Evidence.FUSED) for call in sorted(calls - held)]

    def _derive(self) -> None:
        """Place what is left by its neighbours; a constant is its readers', for whom it was computed ahead."""
        for node in reversed(self.after.nodes):
            if not self.origins[node] and not any(output.varying for output in node.outputs):
                known = (origin for reader in self._readers(node) for origin in self.origins[reader])
                self.origins[node] += _as(Evidence.FOLDED, known)
        for node in self.after.nodes:
            if not self.origins[node]:
                near = [self.after.maker[value] for value in node.reads if value in self.after.maker]
                near += self._readers(node)
                found = next((self.origins[other] for other in near if self.origins[other]), None)
                root = Origin(next(iter(self.known.hierarchy)), Evidence.DERIVED)
                self.origins[node] += _as(Evidence.DERIVED, found[:1] if found else [root])

    # initializers

    def _initializer(self, name: str, value: Value) -> Iterator[Origin]:
        known = self.known.initializers.get(name)
        made = self.before.named.get(value.name)
        if known is not None:
            yield from known
        elif made is not None and made in self.before.maker:
            for maker in walk_back(self.before, [made], self._lives_on):
                yield from _as(Evidence.FOLDED, self.known.nodes[maker])
        else:
            for reader in self.after.readers.get(value, ()):
                yield from _as(Evidence.FOLDED, self.origins[reader])

    def _lives_on(self, value: Value) -> bool:
        return self.numbering.before[value] in self.numbering.alive


def _paired(alike: list[Node], survivors: list[Node]) -> dict[Node, Node]:
    """Pair makers with survivors: by name, and in order where a name was lost or means nothing."""
    named = {node.outputs[0].name: node for node in survivors if node.outputs and node.outputs[0].name}
    pairs = {maker: named[maker.outputs[0].name] for maker in alike if maker.outputs and maker.outputs[0].name in named}
    taken = set(pairs.values())
    left = (maker for maker in alike if maker not in pairs)
    pairs.update(zip(left, (node for node in survivors if node not in taken), strict=False))
    return pairs


def _by_form(forms: Mapping[Node, Form]) -> dict[Form, list[Node]]:
    by_form: dict[Form, list[Node]] = {}
    for node, form in forms.items():
        by_form.setdefault(form, []).append(node)
    return by_form


def _as(evidence: Evidence, origins: Iterable[Origin]) -> list[Origin]:
    """Weaken the evidence of origins to what the step can claim."""
    return [Origin(o.call, max(evidence, o.evidence, key=lambda e: e.strength)) for o in origins]
