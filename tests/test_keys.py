"""Keys of segments: random edits of random models never give the tag of an instance to another one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field

import pytest

from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.keys import sibling_keys
from pytest_hierexport._calls.names import is_torch_nn

SEQUENTIAL, MODULE_LIST = "torch.nn.modules.container.Sequential", "torch.nn.modules.container.ModuleList"
LISTS = (SEQUENTIAL, MODULE_LIST, "m.Tower")
"""Classes whose children are numbered; a `ModuleList` is never called, and a `Tower` has a segment."""
CLASSES = (*LISTS, "m.Block", "m.Block", "other.Block", "m.Stack", "torch.nn.modules.linear.Linear")
NAMES = ("a", "b", "c", "0", "1")
MOST = 14
"""How many modules a model may have before some are removed."""


class TestSiblingKeys:
    def test_the_only_one_needs_no_key(self) -> None:
        assert sibling_keys("Head", "body", ["body.head"]) == {"body.head": ""}

    def test_items_of_one_list_have_their_index(self) -> None:
        assert sibling_keys("Block", "body", ["body.a.0", "body.a.2"]) == {"body.a.0": "0", "body.a.2": "2"}

    def test_instances_in_two_lists_all_have_their_path(self) -> None:
        assert list(sibling_keys("Block", "", ["encoder.0", "encoder.1", "decoder.0"]).values()) == [
            "encoder.0",
            "encoder.1",
            "decoder.0",
        ]

    def test_item_beside_a_list_has_its_path_below_the_holder(self) -> None:
        assert list(sibling_keys("Block", "body", ["body.first", "body.rest.0"]).values()) == ["first", "rest.0"]

    def test_an_item_of_the_holder_never_reads_like_an_index(self) -> None:
        assert sibling_keys("Block", "t", ["t.more.0"]) == {"t.more.0": "0"}
        assert sibling_keys("Block", "t", ["t.0", "t.more.0"]) == {"t.0": ".t.0", "t.more.0": "more.0"}

    def test_digits_of_another_script_are_no_index(self) -> None:
        assert sibling_keys("Block", "", ["\u0663", "\u0664"]) == {"\u0663": "\u0663", "\u0664": "\u0664"}


@dataclass
class Node:
    """A module of a random model."""

    cls: str
    children: dict[str, Node] = field(default_factory=dict)
    times: int = 1

    def all(self, path: str = "") -> Iterator[tuple[str, Node]]:
        yield path, self
        for name, child in self.children.items():
            yield from child.all(f"{path}.{name}" if path else name)

    def insert(self, child: Node, rng: random.Random) -> None:
        """Give a child a place: anywhere in a list, where the others move on; else under a name that is free."""
        free = [name for name in NAMES if name not in self.children]
        if self.cls in LISTS:
            items = list(self.children.values())
            items.insert(rng.randint(0, len(items)), child)
            self.number(items)
        elif free:
            self.children[rng.choice(free)] = child

    def remove(self, child: Node) -> None:
        self.children = {name: kept for name, kept in self.children.items() if kept is not child}
        if self.cls in LISTS:
            self.number(list(self.children.values()))

    def number(self, items: list[Node]) -> None:
        self.children = {str(i): item for i, item in enumerate(items)}


@dataclass
class Model:
    """A tree of modules, and which modules call which others that they do not hold."""

    root: Node
    lent: list[tuple[Node, Node]] = field(default_factory=list)

    def hierarchy(self) -> Hierarchy:
        self.calls: list[Call] = []
        self.seen: Counter[str] = Counter()
        self.paths = {id(node): path for path, node in self.root.all()}
        self.run(self.root, None, with_lent=True)
        return Hierarchy(self.calls)

    def run(self, node: Node, parent: str | None, *, with_lent: bool) -> None:
        if node.cls == MODULE_LIST and parent is not None:
            for child in node.children.values():
                self.run(child, parent, with_lent=with_lent)
            return
        for _ in range(1 if parent is None else node.times):
            path = self.paths[id(node)]
            call = Call(path, self.seen[path], node.cls, parent)
            self.seen[path] += 1
            self.calls.append(call)
            for child in node.children.values():
                self.run(child, call.name, with_lent=with_lent)
            for caller, called in self.lent if with_lent else ():
                if caller is node and id(called) in self.paths:
                    self.run(called, call.name, with_lent=False)

    def edited(self, rng: random.Random) -> Model:
        """Return a copy with a module added, removed, moved or duplicated, or called by one more or fewer."""
        model = deepcopy(self)
        nodes = [node for _, node in model.root.all()]
        holder = {id(child): node for node in nodes for child in node.children.values()}
        node, other = rng.choice(nodes), rng.choice(nodes)
        large = len(nodes) > MOST
        edit = (
            "remove"
            if large
            else rng.choice(["add", "add", "remove", "move", "move", "duplicate", "lend", "take back", "replace"])
        )
        inside = any(below is other for _, below in node.all())
        if edit == "add":
            node.insert(Node(rng.choice(CLASSES), times=rng.choice([1, 1, 1, 2])), rng)
        elif edit == "lend" and node.cls != MODULE_LIST:
            model.lent.append((node, other))
        elif edit == "take back" and model.lent:
            model.lent.pop()
        elif edit == "replace":
            node.cls = rng.choice(CLASSES)
            if node.cls in LISTS:
                node.number(list(node.children.values()))
        elif node is not model.root and edit in {"remove", "move"} and not inside:
            holder[id(node)].remove(node)
            if edit == "move":
                other.insert(node, rng)
        elif edit == "duplicate":
            other.insert(deepcopy(node), rng)
        return model


def instances(hierarchy: Hierarchy) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return what each path with a segment is: its class name and those of all that hold it, with their paths."""
    classes = {call.path: call.class_name for name, call in hierarchy.items() if hierarchy.is_kept(name)}
    return {path: tuple((at, classes[at]) for at in _prefixes(path) if at in classes) for path in classes}


def _prefixes(path: str) -> list[str]:
    parts = path.split(".") if path else []
    return [".".join(parts[:i]) for i in range(len(parts) + 1)]


def moved_tags(before: Hierarchy, after: Hierarchy) -> list[tuple[str, str, str]]:
    """Return the tags that name another path after an edit, although the instance that they named is still there."""
    named, now_named, was, now = paths(before), paths(after), instances(before), instances(after)
    return [
        (tag, path, now_named[tag])
        for tag, path in named.items()
        if now_named.get(tag, path) != path and now.get(path) == was[path]
    ]


def paths(hierarchy: Hierarchy) -> dict[str, str]:
    """Return the path that each tag names."""
    return {hierarchy.tag(name): call.path for name, call in hierarchy.items() if hierarchy.is_kept(name)}


@pytest.mark.parametrize("seed", range(10))
def test_random_edits_move_no_tag_of_an_instance_that_stays(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        model = Model(Node(rng.choice(["m.Net", "m.Net", "m.Tower", SEQUENTIAL])))
        versions = [model.hierarchy()]
        for _ in range(50):
            model = model.edited(rng)
            hierarchy = model.hierarchy()
            assert moved_tags(versions[-1], hierarchy) == []
            # Any two models are one change apart, however large.
            assert moved_tags(rng.choice(versions), hierarchy) == []
            for name, call in hierarchy.items():
                assert not hierarchy.is_kept(name) or hierarchy.resolve(hierarchy.tag(name)) is call
            versions.append(hierarchy)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(["enc.0", "dec.0"], ["enc.0", "dec.0", "dec.1"], id="a list grows"),
        pytest.param(["enc.0", "enc.1"], ["dec.0", "enc.0", "enc.1"], id="a second list comes first"),
        pytest.param(["more.0"], ["0", "more.0"], id="the holder becomes a list"),
        pytest.param(["head"], ["tail", "head"], id="a second one beside the only one"),
        pytest.param(["0.0", "0.1"], ["0.0", "0.1", "1.0"], id="lists in lists"),
    ],
)
def test_no_tag_passes_to_what_an_edit_adds(before: list[str], after: list[str]) -> None:
    models = [
        Hierarchy([Call("", 0, "m.Net", None), *(Call(path, 0, "m.Block", "") for path in listed)])
        for listed in (before, after)
    ]
    assert moved_tags(*models) == []
    assert moved_tags(*reversed(models)) == []


def test_a_module_that_another_one_calls_still_counts_as_held() -> None:
    net = Call("", 0, "m.Net", None)
    before = Hierarchy([net, Call("b", 0, "m.Stack", ""), Call("a", 0, "m.Block", "")])
    after = Hierarchy([net, Call("b", 0, "m.Stack", ""), Call("a", 0, "m.Block", "b"), Call("c", 0, "m.Block", "")])
    assert before.tag("a") == "/Net/Block"
    assert [after.tag("a"), after.tag("c")] == ["/Net/Stack/Block..a", "/Net/Block.c"]


def test_random_models_hold_what_the_property_is_about() -> None:
    rng, forms = random.Random(0), Counter[str]()
    model = Model(Node("m.Net"))
    for _ in range(300):
        model = model.edited(rng)
        hierarchy = model.hierarchy()
        for segment in (hierarchy.tag(name).rpartition("/")[2] for name in hierarchy):
            key, index = segment.partition("@")[0].partition(".")[2], "@" in segment
            form = "" if not key else "index" if key.isdecimal() else "root" if key.startswith(".") else "path"
            forms[form] += 1
            forms["repeated"] += index
    assert min(forms[form] for form in ("", "index", "path", "root", "repeated")) > 50
    assert any(is_torch_nn(node.cls) for _, node in model.root.all())
