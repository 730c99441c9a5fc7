"""Pairs the module instances of two hierarchies, and tells which were added, removed, moved, renamed or changed.

An instance is a path with a segment in tags; all its calls count together, and its own nodes are those whose primary
call is nearest to it.

    before                   after
    encoder.0  m.Block       encoder.0  m.Unit        same path: the class was renamed
    tail       m.Head        top        m.Head        equal class, operators and modules below: moved
    -                        encoder.1  m.Unit        added
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._calls.hierarchy import ROOT, Call
from pytest_hierexport._errors import UsageError
from pytest_hierexport._grouping import grouped
from pytest_hierexport._snapshot.renames import displaced

_DEEPEST = 300
"""The most levels of modules: each difference has its tag, so the text would grow with the square of the levels."""


@dataclass(eq=False)
class Instance:
    """A module instance with a segment in tags."""

    path: str
    cls: str
    tag: str
    callers: list[Call] = field(default_factory=list)
    """The call with a segment above each of its calls, in order; the root's first call has none."""
    operators: Counter[str] = field(default_factory=Counter)
    """The number of its own nodes, by operator."""
    children: list[Instance] = field(default_factory=list)
    """In the order of their first calls."""

    @property
    def calls(self) -> int:
        """The number of its calls."""
        return len(self.callers) + (self.path == ROOT)

    def below(self) -> Iterator[Instance]:
        """Yield the instance and all below it."""
        pending = [self]
        while pending:
            instance = pending.pop()
            yield instance
            pending += reversed(instance.children)

    def all_operators(self) -> Counter[str]:
        """Count the operators of the instance and of all below it."""
        return sum((instance.operators for instance in self.below()), Counter())


class Tree:
    """The module instances of a file by path, with the operators of their nodes.

    Raises:
        UsageError: The modules have too many levels.
    """

    def __init__(self, attribution: Attribution, operators: Mapping[str, str]) -> None:
        """Build the tree; `operators` gives the operator of every node by its key."""
        hierarchy = attribution.hierarchy
        if hierarchy.height > _DEEPEST:
            raise UsageError(
                f"at most {_DEEPEST} levels of modules in files to compare",
                found=f"{hierarchy.height:,} levels",
                do="look at each file with hierexport analyze, whose table takes any depth",
            )
        self.hierarchy = hierarchy
        self.instances: dict[str, Instance] = {}
        for name in hierarchy:
            if name == ROOT or hierarchy.is_kept(name):
                self._add_call(name)
        self.untagged: Counter[str] = Counter()
        for key, operator in operators.items():
            origins = attribution.nodes.get(key)
            own = self.instances[self.counted(origins[0].call).path].operators if origins else self.untagged
            own[operator] += 1

    def _add_call(self, name: str) -> None:
        call = self.hierarchy[name]
        caller = None if call.parent is None else self.counted(call.parent)
        if call.path not in self.instances:
            self.instances[call.path] = Instance(call.path, call.cls, self.hierarchy.tag(name))
            if caller is not None:
                self.instances[caller.path].children.append(self.instances[call.path])
        if caller is not None:
            self.instances[call.path].callers.append(caller)

    def counted(self, call: str) -> Call:
        """Return the call whose tag a call has: the nearest one with a segment, else the root's."""
        return self.hierarchy[self.hierarchy.kept(call) or ROOT]


@dataclass(frozen=True)
class ModuleChanges:
    """The differences between two trees."""

    added: Sequence[Instance]
    """The topmost added instances; all instances below them are added too."""
    removed: Sequence[Instance]
    moved: Sequence[tuple[Instance, Instance]]
    renamed: Sequence[tuple[Instance, Instance]]
    """The instances whose class has another name."""
    changed: Sequence[tuple[Instance, Instance]]
    """The instances whose own operators, number of calls or callers changed."""
    callers: Mapping[str, tuple[str, str]]
    """By the path of an instance that did not move itself: the callers' tags of its first call with another caller."""
    reordered: Sequence[tuple[Instance, Instance]]
    """Siblings whose order changed: the second ran before the first and now runs after it."""
    pairs: Mapping[str, str]
    """The paths before that have a counterpart, each with the path after."""


def compare_modules(before: Tree, after: Tree) -> ModuleChanges:
    """Pair the instances of two trees, by path, then by equal class, operators and modules below."""
    pairs = {path: path for path in before.instances if path in after.instances}
    gone = [before.instances[path] for path in before.instances if path not in pairs]
    new = [after.instances[path] for path in after.instances if path not in pairs]
    moved = _moved(gone, new)
    for old, other in moved:
        pairs.update((a.path, b.path) for a, b in zip(old.below(), other.below(), strict=True))
    paired = [(before.instances[a], after.instances[b]) for a, b in pairs.items()]
    tops = {old for old, _ in moved}
    stayed = [(old, new) for old, new in paired if old not in tops]
    callers = {
        new.path: (before.hierarchy.tag(found[0].name), after.hierarchy.tag(found[1].name))
        for old, new in stayed
        if (found := _other_caller(old, new, pairs))
    }
    reached = set(pairs.values())
    return ModuleChanges(
        added=_topmost(after.instances.values(), lambda each: each.path not in reached),
        removed=_topmost(before.instances.values(), lambda each: each.path not in pairs),
        moved=moved,
        renamed=[(old, other) for old, other in paired if old.cls != other.cls],
        changed=[
            (old, new)
            for old, new in paired
            if (old.operators, old.calls) != (new.operators, new.calls) or new.path in callers
        ],
        callers=callers,
        reordered=[pair for old, other in paired for pair in _reordered(old, other, pairs)],
        pairs=pairs,
    )


def _other_caller(old: Instance, new: Instance, pairs: Mapping[str, str]) -> tuple[Call, Call] | None:
    """Return the callers of the first call that another call makes now; calls are paired in order."""
    callers = zip(old.callers, new.callers, strict=False)
    moved = (pair for pair in callers if (pairs.get(pair[0].path), pair[0].index) != (pair[1].path, pair[1].index))
    return next(moved, None)


def _topmost(instances: Iterable[Instance], wanted: Callable[[Instance], bool]) -> list[Instance]:
    chosen = [instance for instance in instances if wanted(instance)]
    below = {child for instance in chosen for child in instance.children}
    return [instance for instance in chosen if instance not in below]


def _moved(gone: Sequence[Instance], new: Sequence[Instance]) -> list[tuple[Instance, Instance]]:
    """Pair whole subtrees with equal contents, each once."""
    numbers = _contents([*gone, *new])
    waiting = grouped((instance for instance in new if instance in numbers), numbers.__getitem__)
    taken: set[Instance] = set()
    found: dict[Instance, Instance] = {}
    # The largest first: a part that is paired alone would be missing from the whole.
    for instance in sorted(gone, key=lambda each: -sum(1 for _ in each.below())):
        candidates = waiting.get(numbers.get(instance, -1), [])
        while candidates and candidates[0] in taken:
            candidates.pop(0)
        if candidates and instance not in taken:
            other = found[instance] = candidates.pop(0)
            taken.update(instance.below(), other.below())
    return [(each, found[each]) for each in gone if each in found]


def _contents(instances: Sequence[Instance]) -> dict[Instance, int]:
    """Number the subtrees of instances by their contents: equal contents have equal numbers.

    A subtree without nodes has none, and neither has one with an instance that is not among `instances`.
    """
    known: dict[object, int] = {}
    numbers: dict[Instance, int] = {}
    # Callers come before their callees: in reverse order, all children have their numbers.
    for instance in reversed(instances):
        below = tuple(numbers.get(child) for child in instance.children)
        if None not in below and (below or instance.operators):
            key = (instance.cls, tuple(sorted(instance.operators.items())), below)
            numbers[instance] = known.setdefault(key, len(known))
    return numbers


def _reordered(old: Instance, other: Instance, pairs: Mapping[str, str]) -> Iterator[tuple[Instance, Instance]]:
    """Yield a pair for each child whose place among the children that both have is another one, as they run now."""
    position = {pairs[child.path]: i for i, child in enumerate(old.children) if child.path in pairs}
    shared = [child for child in other.children if child.path in position]
    for places in displaced([position[child.path] for child in shared]):
        yield shared[min(places)], shared[max(places)]
