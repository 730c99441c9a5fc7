"""Random graphs and what tools do to them, with the owners known: how often does carry name a wrong call?

    python -m benchmarks.random_transformations [--count 1000] [--first SEED] [--list]

    before   v0 = Relu(x) [a]    v1 = Identity(v0) [b]    y = Exp(v1) [c]
    after    v0 = Relu(x) [a]    y = Exp(v0) [c]          the Identity was dropped

Each graph goes through one to four transformations, which tell the owners of every node that they leave. An owner is
wrong if the node computes nothing of that call, and missing if it does and carry names others; origins that are
`derived` claim nothing. Some are wrong by necessity: where a tool renames all, equal nodes of two calls are one.
To see what a change moves, run it on both versions: `--list` prints the transformations and the graphs.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import onnx_ir as ir

from pytest_hierexport import carry
from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.hierarchy import Call, Hierarchy

_HEAD = '<ir_version: 10, opset_import: ["": 20, "local": 1]>'
_CALLS = "abcd"
_HIERARCHY = Hierarchy([Call("", 0, "m.Root", None), *(Call(name, 0, f"m.{name.upper()}", "") for name in _CALLS)])
_UNARY = ("Relu", "Neg", "Exp", "Tanh", "Sin", "Softmax", "Identity", "Transpose", "Transpose", "Bernoulli")
_BINARY = ("Add", "Mul", "Sub", "Div", "MatMul")
_FOLDED: dict[str, Callable[[float], float]] = {"Neg": lambda x: -x, "Exp": math.exp}


@dataclass(frozen=True)
class Step:
    """A node of one output, which has its name, and the calls that it computes for."""

    operator: str
    inputs: tuple[str, ...]
    name: str
    owners: frozenset[str]

    def __str__(self) -> str:
        """Return it as onnx writes it."""
        attributes = "<perm = [1, 0]>" if self.operator == "Transpose" else ""
        return f"{self.name} = {self.operator}{attributes}({', '.join(self.inputs)})"


@dataclass(frozen=True)
class Drawn:
    """A graph of one input `x` and one output `y`; its values have two rows and two columns."""

    steps: tuple[Step, ...]
    stored: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it as onnx writes it."""
        used = {name for step in self.steps for name in step.inputs}
        held = (
            f"float[2, 2] {name} = {{{', '.join(map(str, xs))}}}" for name, xs in self.stored.items() if name in used
        )
        constants = ", ".join(held)
        stored = f" <{constants}>" if constants else ""
        return f"g (float[2, 2] x) => (float[2, 2] y){stored} {{ {' '.join(map(str, self.steps))} }}"

    def step(self, name: str) -> Step | None:
        """Return the step that gives a value."""
        return next((step for step in self.steps if step.name == name), None)

    def taken(self, name: str) -> list[Step]:
        """Return the steps that take a value."""
        return [step for step in self.steps if name in step.inputs]

    def without(self, step: Step, other: str) -> Drawn:
        """Return it without a step, whose consumers take another value."""
        steps = (replace(each, inputs=_swapped(each.inputs, step.name, other)) for each in self.steps if each != step)
        return replace(self, steps=tuple(steps))

    def with_one(self, step: Step) -> Drawn:
        """Return it with a step in place of the one of its name."""
        return self.with_each(lambda each: [step if each.name == step.name else each])

    def with_each(self, change: Callable[[Step], Sequence[Step]]) -> Drawn:
        """Return it with other steps in place of each."""
        return replace(self, steps=tuple(new for step in self.steps for new in change(step)))


def _swapped(names: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    return tuple(new if name == old else name for name in names)


def drawn(random: Random) -> Drawn:
    """Draw a graph; each of four calls computes several steps."""
    values, steps, stored, call = ["x"], list[Step](), dict[str, tuple[float, ...]](), "a"
    for i in range(random.randint(4, 14)):
        call = random.choice(_CALLS) if random.random() < 0.35 else call
        owner, kind, name = frozenset(call), random.random(), f"v{i}"
        near = values[-1] if random.random() < 0.6 else random.choice(values[-5:])
        if kind < 0.5:
            steps.append(Step(random.choice(_UNARY), (near,), name, owner))
        elif kind < 0.8:
            stored[f"w{i}"] = tuple(round(random.uniform(0.1, 3), 2) for _ in range(4))
            constant = f"w{i}"
            if random.random() < 0.4:
                constant = f"c{i}"
                steps.append(Step(random.choice(list(_FOLDED)), (f"w{i}",), constant, owner))
            steps.append(Step(random.choice(_BINARY), (near, constant), name, owner))
        else:
            steps.append(Step(random.choice(_BINARY), (near, random.choice(values)), name, owner))
        values.append(name)
    unused = [value for value in values if not any(value in step.inputs for step in steps)]
    steps.append(Step("Sum", tuple(unused), "last", frozenset(random.choice(_CALLS))))
    steps.append(Step("Tanh", ("last",), "y", frozenset(random.choice(_CALLS))))
    return Drawn(tuple(steps), stored)


def drop(graph: Drawn, random: Random) -> Drawn:
    """Drop operations that pass a value through."""
    for name in [step.name for step in graph.steps if step.operator == "Identity"]:
        step = graph.step(name)
        if step is not None and random.random() < 0.8:
            graph = graph.without(step, step.inputs[0])
    return graph


def merge(graph: Drawn, _random: Random) -> Drawn:
    """Merge equal operations into the first."""
    kept: dict[tuple[str, tuple[str, ...]], str] = {}
    for name in [step.name for step in graph.steps]:
        step = graph.step(name)
        assert step is not None, "a step is removed at its own turn"  # noqa: S101
        first = graph.step(kept.setdefault((step.operator, step.inputs), name))
        if first is not None and first != step and step.operator != "Bernoulli":
            graph = graph.without(step, first.name).with_one(replace(first, owners=first.owners | step.owners))
    return graph


def fold(graph: Drawn, _random: Random) -> Drawn:
    """Compute what depends on constants alone."""
    folded = [step for step in graph.steps if step.inputs[0] in graph.stored and step.operator in _FOLDED]
    new = {step.name: tuple(map(_FOLDED[step.operator], graph.stored[step.inputs[0]])) for step in folded}
    return Drawn(tuple(step for step in graph.steps if step not in folded), {**graph.stored, **new})


def swap(graph: Drawn, random: Random) -> Drawn:
    """Exchange the operands of sums and products."""
    swapped = {step.name for step in graph.steps if step.operator in {"Add", "Mul"} and random.random() < 0.5}
    return graph.with_each(lambda step: [replace(step, inputs=step.inputs[::-1]) if step.name in swapped else step])


def fuse(graph: Drawn, random: Random) -> Drawn:
    """Make one operation of two, where nothing else takes the first."""
    for name in [step.name for step in graph.steps]:
        step = graph.step(name)
        producer = None if step is None else graph.step(step.inputs[0])
        if step is None or producer is None or "Bernoulli" in {step.operator, producer.operator}:
            continue
        if graph.taken(producer.name) == [step] and step.inputs.count(producer.name) == 1 and random.random() < 0.5:
            operator = "local." + "".join(each.operator.removeprefix("local.") for each in (producer, step))
            inputs = (*producer.inputs, *step.inputs[1:])
            fused = Step(operator, inputs, name, step.owners | producer.owners)
            graph = graph.without(producer, producer.name).with_one(fused)
    return graph


def split(graph: Drawn, random: Random) -> Drawn:
    """Make two operations of one."""
    chosen = {step.name for step in graph.steps if step.operator in {"Sub", "Div", "Softmax"} and random.random() < 0.5}

    def halves(step: Step) -> list[Step]:
        if step.name not in chosen:
            return [step]
        first = replace(step, operator=f"local.Before{step.operator}", name=f"{step.name}_half")
        return [first, replace(step, operator=f"local.After{step.operator}", inputs=(first.name,))]

    return graph.with_each(halves)


def rename(graph: Drawn, random: Random) -> Drawn:
    """Name some or all values anew, or give the names of values to others."""
    inner = [step.name for step in graph.steps if step.name != "y"]
    share, number = random.choice([(0.3, "n{}"), (1.0, "n{}"), (1.0, "v{}")])
    names = {name: number.format(i) for i, name in enumerate(inner) if random.random() < share}
    return graph.with_each(
        lambda step: [
            replace(
                step, name=names.get(step.name, step.name), inputs=tuple(names.get(each, each) for each in step.inputs)
            )
        ]
    )


TRANSFORMATIONS = (drop, merge, fold, swap, fuse, split, rename)


@dataclass(frozen=True)
class Outcome:
    """A pair of graphs, and the nodes with wrong or missing owners."""

    seed: int
    names: tuple[str, ...]
    before: Drawn
    after: Drawn
    wrong: tuple[str, ...]
    missing: tuple[str, ...]
    derived: int


def outcome(seed: int) -> Outcome:
    """Draw the pair of a seed, and carry the origins of the one to the other."""
    random = Random(seed)
    before = after = drawn(random)
    chosen = random.sample(TRANSFORMATIONS, random.randint(1, 4))
    ordered = [each for each in TRANSFORMATIONS if each in chosen]
    for transformation in ordered:
        after = transformation(after, random)
    source = ir.from_onnx_text(f"{_HEAD} {before}")
    nodes = {step.name: tuple(Origin(call, Evidence.TRACED) for call in step.owners) for step in before.steps}
    found = carry(source, Attribution(_HIERARCHY, nodes), ir.from_onnx_text(f"{_HEAD} {after}")).nodes
    claimed = {key: {o.call for o in origins if o.evidence is not Evidence.DERIVED} for key, origins in found.items()}
    wrong = tuple(step.name for step in after.steps if claimed[step.name] - step.owners)
    missing = tuple(step.name for step in after.steps if claimed[step.name] and step.owners - claimed[step.name])
    derived = sum(not calls for calls in claimed.values())
    return Outcome(seed, tuple(each.__name__ for each in ordered), before, after, wrong, missing, derived)


def report(outcomes: Sequence[Outcome], *, listed: bool) -> Iterator[str]:
    """Yield the lines of a report."""
    if listed:
        for each in (each for each in outcomes if each.wrong or each.missing):
            yield f"seed {each.seed}: {' '.join(each.names)}"
            yield f"  wrong   {', '.join(each.wrong)}; missing {', '.join(each.missing)}"
            owners = [f"{step.name}={''.join(sorted(step.owners))}" for step in each.after.steps]
            yield from (f"  before  {each.before}", f"  after   {each.after}", f"  owners  {' '.join(owners)}")
    nodes = sum(len(each.after.steps) for each in outcomes)
    counts = [sum(len(each.wrong) for each in outcomes), sum(len(each.missing) for each in outcomes)]
    derived = sum(each.derived for each in outcomes)
    yield f"{len(outcomes)} pairs of graphs, {nodes} nodes:"
    yield f"{counts[0]} with a wrong owner, {counts[1]} with one missing, {derived} derived."
    by_name: Counter[str] = Counter()
    for each in outcomes:
        by_name.update(dict.fromkeys(each.names, len(each.wrong)))
    yield "Wrong owners in pairs with " + ", ".join(f"{name} {count}" for name, count in by_name.most_common()) + "."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="pairs of graphs (default: 1000)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (default: 0)")
    parser.add_argument("--list", action="store_true", help="also print each pair with a wrong or missing owner")
    options = parser.parse_args(arguments)
    print("\n".join(report([outcome(options.first + i) for i in range(options.count)], listed=options.list)))


if __name__ == "__main__":
    main()
