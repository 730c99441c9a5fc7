"""Random programs: every choice is a draw from a `random.Random`, the simplest alternative first.

A Hypothesis `randoms()` strategy serves as one, and then failures shrink: to fewer modules, fewer steps, plainer
leaves and names. A seeded `random.Random` serves for long runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from architectures.leaves import LEAVES
from architectures.program import (
    Block,
    Call,
    Chain,
    Child,
    Dict,
    Held,
    Leaf,
    List,
    Loop,
    New,
    Operation,
    Program,
    Same,
    Share,
    Shared,
    Step,
    Target,
)

__all__ = ["generate"]

T = TypeVar("T")

CALLS = 60
"""Module calls of a whole program, about: enough for three levels of blocks, few enough to export in a second."""
ATTRIBUTES = ("a", "b", "c", "layers", "block", "attention", "norm", "embedding")
ODD_ATTRIBUTES = ("0", "größe", "x/y", "a@1", "50%", "it's", "a b", "%41")
KEYS = ("left", "right", "mean", "0", "x/y")
NAMES = ("Layer", "Block", "Attention")
ODD_NAMES = ("Größe", "a.b", "x/y@1", "<locals>")
# Values that are equal by accident belong to no call. So no leaf flattens: repeated often enough, that gives one value,
# whatever it began with. None gives back its input, as the maximum or the mean of two equal values does, or a mean
# that is subtracted twice. None scales or shifts all elements equally, which a linear module may follow as well as
# precede, and which a norm undoes. A leaf of two inputs bends one of them, also where a maximum always takes the first:
# scales and shifts alone commute.
UNARY = (
    "torch.tanh({0}) + 0.4 * {0}",
    "0.5 * torch.sin({0}) + 0.1 * torch.arange(8).sin()",
    "torch.sin({0}.flip(-1)) * 0.9 - 0.1 * torch.arange(8).sin()",
    "{0} + 0.1 * torch.arange(8).sin()",
    "{0} - 0.5 * {0}.mean(-2, keepdim=True)",
    "{0}.transpose(1, 2).contiguous().transpose(1, 2)",
)
BINARY = (
    "0.6 * torch.tanh({0}) + 0.5 * {1} - 0.2 * torch.arange(8).sin()",
    "{0} * torch.sigmoid({1})",
    "torch.maximum({0}, torch.sin({1}) - 0.7) - 0.1 * {0} * torch.cos({1}) + 0.2 * torch.arange(8).sin()",
    "{0} - 0.3 * torch.tanh({1}) + 0.3 * torch.arange(8).sin()",
)


@dataclass(frozen=True)
class Signature:
    """How a module is called, and how many calls that makes in all."""

    inputs: int = 1
    results: int = 1
    calls: int = 1
    named: bool = False
    """Whether its parameters are `x`, `y`, `z`."""

    @property
    def chains(self) -> bool:
        """Whether it takes one value and gives one."""
        return self.inputs == self.results == 1


@dataclass
class Scope:
    """What a block under construction can call, and the values that it has."""

    inputs: int
    limit: int
    holds: list[Held] = field(default_factory=list)
    callees: list[tuple[Target, Signature]] = field(default_factory=list)
    loops: list[tuple[Target, str, int]] = field(default_factory=list)
    """Containers that can be run through: the expression after it, the calls that makes."""
    steps: list[Step] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    calls: int = 1

    @property
    def values(self) -> int:
        """How many values there are."""
        return self.inputs + sum(step.results for step in self.steps)

    def fresh(self) -> list[int]:
        """Return the values that nothing has used yet, the latest first."""
        return [value for value in range(self.values - 1, -1, -1) if value not in self.used]


class Generator:
    """One program in the making."""

    def __init__(self, random: Random, calls: int) -> None:
        """Draw every choice from `random`, for as many module calls as that."""
        self.random, self.calls = random, calls
        self.declarations: list[Block | Shared] = []
        self.blocks: dict[str, Signature] = {}
        self.shares: dict[str, Signature] = {}
        self.borrowed: list[str] = []

    def program(self) -> Program:
        """Make some blocks, each of what came before it, and a root of them."""
        for level in range(self.most(0, 3)):
            if self.one_in(2):
                self.share()
            self.block(inputs=self.random.randint(1, 2), limit=4 + 4 * level, steps=4)
        if self.one_in(2):
            self.share()
        inputs = self.random.randint(1, 3)
        root = self.block(inputs, limit=self.calls, steps=10, whole=True)
        child: Child = New(root.identifier)
        if self.signature(child).chains and not root.keys and self.one_in(6):
            child = Chain((child, self.leaf()))
        return Program(tuple(self.declarations), child, inputs)

    def one_in(self, n: int) -> bool:
        """Return True once in `n` draws; False is the simpler."""
        return self.random.randint(0, n - 1) == n - 1

    def pick(self, alternatives: Sequence[T]) -> T:
        """Return one of the alternatives, the first being the simplest."""
        return alternatives[self.random.randint(0, len(alternatives) - 1)]

    def most(self, low: int, high: int) -> int:
        """Return the larger of two numbers: a high one as a rule, and the lowest where a failure shrinks."""
        return max(self.random.randint(low, high), self.random.randint(low, high))

    def leaf(self) -> Leaf:
        """Return a leaf."""
        return Leaf(self.pick(LEAVES))

    def share(self) -> None:
        """Declare an instance that others can hold."""
        child: Leaf | New = New(self.pick(list(self.blocks))) if self.blocks and self.one_in(2) else self.leaf()
        shared = Shared(f"shared{len(self.shares)}", child)
        self.shares[shared.name] = self.signature(child)
        self.declarations.append(shared)

    def signature(self, child: Child) -> Signature:
        """Return how a module that is no bare container is called."""
        match child:
            case New(block):
                return self.blocks[block]
            case Share(name):
                return self.shares[name]
            case Chain(items):
                return Signature(calls=1 + sum(self.signature(item).calls for item in items))
        return Signature()

    def block(self, inputs: int, limit: int, steps: int, *, whole: bool = False) -> Block:
        """Declare a block."""
        scope = Scope(inputs, limit)
        for _ in range(self.random.randint(1, 5)):
            self.hold(scope)
        if whole:
            for name in dict.fromkeys(self.borrowed):
                held = Held(f"owner_of_{name}", Share(name))
                scope.holds.append(held)
        for _ in range(self.most(1, steps)):
            self.step(scope)
        if not self.one_in(8):
            self.settle(scope)
        identifier = "Model" if whole else f"Block{len(self.blocks)}"
        returns = self.returns(scope, most=3 if whole else 2)
        keys = tuple(f"out{i}" for i in returns) if whole and self.one_in(3) else ()
        made = Block(identifier, self.name(identifier), inputs, tuple(scope.holds), tuple(scope.steps), returns, keys)
        self.declarations.append(made)
        self.blocks[identifier] = Signature(inputs, len(returns), scope.calls, named=True)
        return made

    def name(self, identifier: str) -> str:
        """Return a class's name: its identifier, one that another class may have too, or an odd one."""
        if self.one_in(12):
            return self.pick(ODD_NAMES)
        return self.pick(NAMES) if self.one_in(3) else identifier

    def returns(self, scope: Scope, most: int) -> tuple[int, ...]:
        """Return the values that a block returns, the last one first."""
        last = scope.values - 1
        others = list(range(scope.inputs, last))
        more = self.random.randint(1, most) - 1 if self.one_in(3) else 0
        return (last, *sorted({self.pick(others) for _ in range(more)})) if others else (last,)

    def hold(self, scope: Scope) -> None:
        """Give the block an attribute."""
        taken = {held.attribute for held in scope.holds}
        pool = ODD_ATTRIBUTES if self.one_in(8) else ATTRIBUTES
        attribute = self.pick([name for name in pool if name not in taken])
        held = Held(attribute, self.child(scope))
        if isinstance(held.child, Share) and self.signature(held.child).chains and self.one_in(4):
            self.borrowed.append(held.child.name)
            held = Held(f"borrowed{len(scope.holds)}", held.child, registered=False)
        scope.holds.append(held)
        self.offer(scope, Target(held.attribute, () if held.registered else (0,)), held.child)

    def child(self, scope: Scope) -> Child:
        """Return what an attribute holds."""
        again = [held.attribute for held in scope.holds if held.registered and not isinstance(held.child, Same)]
        kinds = ["leaf", "item", "item", "list", "dict", "chain", *(["same"] if again else [])]
        match self.pick(kinds):
            case "leaf":
                return self.leaf()
            case "item":
                return self.item()
            case "list":
                return List(self.items(nested=True))
            case "dict":
                keys = KEYS[: self.random.randint(1, 3)]
                return Dict(tuple((key, self.item()) for key in keys))
            case "chain":
                return Chain(tuple(item for item in self.items() if self.signature(item).chains) or (self.leaf(),))
        return Same(self.pick(again))

    def item(self) -> Leaf | New | Share:
        """Return a leaf, a block or a shared instance."""
        if self.blocks and not self.one_in(3):
            return New(self.pick(list(self.blocks)))
        return Share(self.pick(list(self.shares))) if self.shares and not self.one_in(3) else self.leaf()

    def items(self, *, nested: bool = False) -> tuple[Child, ...]:
        """Return one to three items, of one kind as often as not; a list may hold a list."""
        first, count = self.item(), self.random.randint(1, 3)
        items: list[Child] = [first] * count if self.one_in(2) else [first, *(self.item() for _ in range(count - 1))]
        if nested and self.one_in(6):
            items.append(List((self.item(),)))
        return tuple(items)

    def offer(self, scope: Scope, target: Target, child: Child) -> None:
        """Let the block call a module and, of a container, those in it."""
        match child:
            case Same(attribute):
                original = next(held for held in scope.holds if held.attribute == attribute)
                self.offer(scope, target, original.child)
            case List(items):
                self.offer_items(scope, target, dict(enumerate(items)), values="")
            case Dict(items):
                self.offer_items(scope, target, dict(items), values=".values()")
            case _:
                scope.callees.append((target, self.signature(child)))

    def offer_items(self, scope: Scope, target: Target, items: Mapping[Any, Child], values: str) -> None:
        """Let the block call what a container holds, one by one or in a loop."""
        for key, item in items.items():
            self.offer(scope, Target(target.attribute, (*target.path, key)), item)
        if not any(isinstance(item, List) for item in items.values()):
            signatures = [self.signature(item) for item in items.values()]
            if all(signature.chains for signature in signatures):
                scope.loops.append((target, values, sum(signature.calls for signature in signatures)))

    def step(self, scope: Scope) -> None:
        """Add a statement to the block's forward pass; nothing where the calls that it may make are used up."""
        left = scope.limit - scope.calls
        callees = [(target, signature) for target, signature in scope.callees if signature.calls <= left]
        loops = [loop for loop in scope.loops if loop[2] <= left]
        kinds = [
            *["call"] * 6 * bool(callees),
            *["loop"] * 3 * bool(loops),
            "unary",
            *["binary"] * 2 * (scope.values > 1),
        ]
        match self.pick(kinds):
            case "call":
                target, signature = self.pick(callees)
                arguments = tuple(self.value(scope) for _ in range(signature.inputs))
                keyword = signature.named and signature.inputs > 1 and self.one_in(3)
                scope.steps.append(Call(target, arguments, signature.results, keyword))
                scope.calls += signature.calls
            case "loop":
                target, values, calls = self.pick(loops)
                scope.steps.append(Loop(target, (self.value(scope),), values))
                scope.calls += calls
            case "binary":
                self.combine(scope)
            case _:
                scope.steps.append(Operation(self.pick(UNARY), (self.value(scope),)))

    def combine(self, scope: Scope) -> None:
        """Compute a value of two others."""
        first = self.value(scope)
        scope.steps.append(Operation(self.pick(BINARY), (first, self.value(scope, but=first))))

    def settle(self, scope: Scope) -> None:
        """Use every value, so that none of the modules above was called in vain."""
        while len(fresh := scope.fresh()) > 1:
            scope.used.update(fresh[:2])
            scope.steps.append(Operation(self.pick(BINARY), (fresh[0], fresh[1])))

    def value(self, scope: Scope, but: int | None = None) -> int:
        """Return a value: one that nothing has used yet more often than not, and the latest of them."""
        values = [value for value in range(scope.values - 1, -1, -1) if value != but]
        fresh = [value for value in scope.fresh() if value != but]
        chosen = self.pick(values if self.one_in(3) else fresh or values)
        scope.used.add(chosen)
        return chosen


def generate(random: Random, calls: int = CALLS) -> Program:
    """Return a program of about so many module calls, drawn from `random`; equal draws give equal programs."""
    return Generator(random, calls).program()
