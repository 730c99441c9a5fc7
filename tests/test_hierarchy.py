"""Tags: one per call, read by people, resolved back by programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_hierexport._calls.hierarchy import ROOT, Call, Hierarchy
from pytest_hierexport._calls.names import is_torch_nn, join_path, qualified_class

LINEAR = "torch.nn.modules.linear.Linear"
SEQUENTIAL = "torch.nn.modules.container.Sequential"
MODULE_LIST = "torch.nn.modules.container.ModuleList"


def calls(*listed: tuple[str, str, str | None]) -> list[Call]:
    """Return calls from (path, class, parent call name), their indices counted."""
    seen: Counter[str] = Counter()
    made = []
    for path, cls, parent in listed:
        made.append(Call(path, seen[path], cls, parent))
        seen[path] += 1
    return made


def tags(*listed: tuple[str, str, str | None], keep: Sequence[str] = ()) -> list[str]:
    hierarchy = Hierarchy(calls(*listed), keep)
    return [hierarchy.tag(name) for name in hierarchy]


class TestSegments:
    def test_class_name_alone_suffices_without_equal_siblings(self) -> None:
        assert tags(("", "m.Net", None), ("body", "m.Encoder", ""), ("tail", "m.Head", "")) == [
            "/Net",
            "/Net/Encoder",
            "/Net/Head",
        ]

    def test_siblings_of_one_class_are_told_apart_by_their_attribute(self) -> None:
        assert tags(("", "m.Net", None), ("q_proj", "m.LoRALinear", ""), ("v_proj", "m.LoRALinear", "")) == [
            "/Net",
            "/Net/LoRALinear.q_proj",
            "/Net/LoRALinear.v_proj",
        ]

    def test_lone_instance_in_a_list_keeps_its_index(self) -> None:
        assert tags(("", "m.Net", None), ("layer.0", "m.BertLayer", ""))[1] == "/Net/BertLayer.0"

    def test_instances_in_several_lists_all_carry_their_path(self) -> None:
        paths = ["encoder.0", "encoder.1", "decoder.0"]
        found = tags(("", "m.Net", None), *((path, "m.Block", "") for path in paths))
        assert found[1:] == ["/Net/Block.encoder.0", "/Net/Block.encoder.1", "/Net/Block.decoder.0"]

    def test_items_of_a_dictionary_carry_their_path(self) -> None:
        found = tags(("", "m.Net", None), ("heads.left", "m.Head", ""), ("heads.right/wing", "m.Head", ""))
        assert found[1] == "/Net/Head.heads.left"

    def test_equal_class_names_of_two_packages_are_siblings(self) -> None:
        found = tags(("", "m.Net", None), ("a", "one.Block", ""), ("b", "two.Block", ""))
        assert found[1:] == ["/Net/Block.a", "/Net/Block.b"]

    def test_the_order_of_the_calls_changes_no_tag(self) -> None:
        held = [("b.x", "m.Block", ""), ("a.x", "m.Block", ""), ("c", "m.Head", "")]
        assert set(tags(("", "m.Net", None), *held)) == set(tags(("", "m.Net", None), *reversed(held)))

    def test_what_lies_below_different_parents_needs_no_key(self) -> None:
        found = tags(
            ("", "m.Net", None),
            ("layer.0", "m.Layer", ""),
            ("layer.0.mlp", "m.MLP", "layer.0"),
            ("layer.1", "m.Layer", ""),
            ("layer.1.mlp", "m.MLP", "layer.1"),
        )
        assert found[2::2] == ["/Net/Layer.0/MLP", "/Net/Layer.1/MLP"]


class TestRepeatedAndSharedModules:
    def test_repeated_call_and_its_callees_carry_the_index(self) -> None:
        found = tags(
            ("", "m.AlbertModel", None),
            ("groups.0", "m.AlbertLayerGroup", ""),
            ("groups.0.layers.0", "m.AlbertLayer", "groups.0"),
            ("groups.0", "m.AlbertLayerGroup", ""),
            ("groups.0.layers.0", "m.AlbertLayer", "groups.0@1"),
        )
        assert found[3:] == [
            "/AlbertModel/AlbertLayerGroup.0@1",
            "/AlbertModel/AlbertLayerGroup.0@1/AlbertLayer.0@1",
        ]

    def test_module_called_from_elsewhere_is_named_by_its_root_path(self) -> None:
        found = tags(("", "m.Net", None), ("a", "m.Block", ""), ("b.inner", "m.Norm", "a"), ("a.norm", "m.Norm", "a"))
        assert found[2:] == ["/Net/Block/Norm..b.inner", "/Net/Block/Norm"]

    def test_a_module_called_past_its_holder_carries_its_path(self) -> None:
        found = tags(("", "m.Net", None), ("a", "m.Block", ""), ("a.norm", "m.Norm", ""), ("a.norm", "m.Norm", "a"))
        assert found[2:] == ["/Net/Norm..a.norm", "/Net/Block/Norm@1"]

    def test_borrowed_module_and_equal_path_tail_differ(self) -> None:
        found = tags(("", "m.Net", None), ("x", "m.Block", ""), ("x.a", "m.Norm", "x"), ("a", "m.Norm", "x"))
        assert len(set(found)) == 4

    def test_recursive_module_has_a_tag_per_call(self) -> None:
        found = tags(("", "m.Net", None), ("tree", "m.Tree", ""), ("tree", "m.Tree", "tree"), ("", "m.Net", "tree@1"))
        assert len(set(found)) == 4

    def test_an_attribute_named_like_a_second_call_is_not_one(self) -> None:
        assert tags(("", "m.Net", None), ("a", "m.B", ""), ("a%401", "m.B", ""), ("a", "m.B", ""))[1:] == [
            "/Net/B.a",
            "/Net/B.a%401",
            "/Net/B.a@1",
        ]


class TestFilter:
    def test_torch_nn_modules_share_the_tag_of_their_holder(self) -> None:
        found = tags(("", "m.Net", None), ("mlp", SEQUENTIAL, ""), ("mlp.0", LINEAR, "mlp"), ("mlp.1", "m.Gate", "mlp"))
        assert found == ["/Net", "/Net", "/Net", "/Net/Gate.1"]

    def test_a_root_from_torch_nn_gives_a_slash(self) -> None:
        hierarchy = Hierarchy(calls(("", SEQUENTIAL, None), ("0", LINEAR, ""), ("1", "m.Block", "")))
        assert [hierarchy.tag(name) for name in hierarchy] == ["/", "/", "/Block.1"]
        assert hierarchy.resolve("/").name == ROOT

    def test_slash_is_no_tag_where_the_root_has_a_segment(self) -> None:
        with pytest.raises(KeyError):
            Hierarchy(calls(("", "m.Net", None))).resolve("/")

    def test_nameless_class_differs_from_root_without_segment(self) -> None:
        assert tags(("", SEQUENTIAL, None), ("a", "m.", "")) == ["/", "/.a"]

    def test_classes_that_the_user_keeps_have_segments(self) -> None:
        listed = (("", SEQUENTIAL, None), ("0", LINEAR, ""), ("1", SEQUENTIAL, ""), ("1.0", LINEAR, "1"))
        assert tags(*listed, keep=[LINEAR]) == ["/", "/Linear..0", "/", "/Linear.1.0"]

    def test_user_class_named_like_torch_nn_is_kept(self) -> None:
        assert tags(("", "m.Net", None), ("fc", "mine.Linear", ""))[1] == "/Net/Linear"


class TestHierarchy:
    def test_it_knows_who_called_whom(self) -> None:
        hierarchy = Hierarchy(calls(("", "m.Net", None), ("a", LINEAR, ""), ("b", "m.B", ""), ("b.c", LINEAR, "b")))
        assert hierarchy.children[""] == ("a", "b")
        assert list(hierarchy.lineage("b.c")) == ["b.c", "b", ""]
        assert hierarchy.within("b.c", "b")
        assert not hierarchy.within("b", "b.c")
        assert hierarchy.kept("b.c") == "b"
        assert hierarchy.position["b"] == 2

    def test_equal_calls_in_another_order_are_another_hierarchy(self) -> None:
        listed = calls(("", "m.Net", None), ("a", LINEAR, ""), ("b", LINEAR, ""))
        assert Hierarchy(listed) == Hierarchy(listed)
        assert Hierarchy(listed) != Hierarchy([listed[0], listed[2], listed[1]])
        assert Hierarchy(listed) != Hierarchy(listed, keep=[LINEAR])

    @pytest.mark.parametrize(
        ("listed", "message"),
        [
            ([Call("", 0, "m.Net", None), Call("a", 0, LINEAR, ""), Call("a", 0, LINEAR, "")], "two calls are named"),
            ([Call("", 0, "m.Net", None), Call("a.b", 0, LINEAR, "a")], "before its parent"),
            ([Call("a", 0, LINEAR, None)], "the root's own"),
            ([Call("", 0, "m.Net", None), Call("a", 0, LINEAR, None)], "the root's own"),
            ([Call("", 0, "m.Net", "a")], "the root's own"),
        ],
    )
    def test_calls_that_no_forward_pass_can_make_are_refused(self, listed: list[Call], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Hierarchy(listed)

    def test_ten_thousand_siblings_have_a_tag_each(self) -> None:
        hierarchy = Hierarchy([Call("", 0, "m.N", None), *(Call(f"l.{i}", 0, "m.B", "") for i in range(10_000))])
        assert [hierarchy.tag(name) for name in hierarchy][1:] == [f"/N/B.{i}" for i in range(10_000)]

    def test_call_chain_deeper_than_the_python_stack_has_tags(self) -> None:
        path = ["b"] * 2_000
        chain = [Call(".".join(path[:depth]), 0, LINEAR, ".".join(path[: depth - 1])) for depth in range(1, 2_000)]
        hierarchy = Hierarchy([Call("", 0, "m.N", None), *chain])
        assert {hierarchy.tag(name) for name in hierarchy} == {"/N"}


@dataclass(frozen=True)
class Instance:
    path: tuple[str, ...]
    cls: str


NAMES = st.one_of(
    st.sampled_from(["a", "b", "0", "1", "a@1", "a.b", "a/b", "%", "%2E", "q'\"", "größe", "\n", "..", "@", "\ud800"]),
    st.text(st.characters(), min_size=1, max_size=4),
)
CLASSES = st.one_of(
    st.sampled_from(
        [
            LINEAR,
            SEQUENTIAL,
            MODULE_LIST,
            qualified_class("one", "Block", "Block"),
            qualified_class("two", "Block", "Block"),
            qualified_class("two", "f.<locals>.Block", "Block"),
            qualified_class("m", "Linear", "Linear"),
            qualified_class("m", "", ""),
            qualified_class("m", "A.0", "A.0"),
            qualified_class("m", "A", "A"),
            qualified_class("m", "A@1", "A@1"),
            qualified_class("m", "A/Block", "A/Block"),
        ]
    ),
    st.builds(lambda name: qualified_class("any", name, name), st.text(st.characters(), max_size=4)),
)


@st.composite
def hierarchies(draw: st.DrawFn) -> Hierarchy:
    """Any forward pass: every module may call every other, itself included, any number of times."""
    modules = [Instance((), draw(CLASSES))]
    for _ in range(draw(st.integers(0, 8))):
        holder = draw(st.sampled_from(modules))
        instance = Instance((*holder.path, draw(NAMES)), draw(CLASSES))
        if all(instance.path != module.path for module in modules):
            modules.append(instance)
    made = [Call(ROOT, 0, modules[0].cls, None)]
    seen = Counter([ROOT])
    for _ in range(draw(st.integers(0, 15))):
        caller, called = draw(st.sampled_from(made)), draw(st.sampled_from(modules))
        path = join_path(called.path)
        made.append(Call(path, seen[path], called.cls, caller.name))
        seen[path] += 1
    return Hierarchy(made, draw(st.sampled_from([(), (LINEAR,), (SEQUENTIAL, MODULE_LIST)])))


@settings(deadline=None)
@given(hierarchies())
def test_no_two_kept_calls_share_a_tag(hierarchy: Hierarchy) -> None:
    kept = [name for name in hierarchy if hierarchy.is_kept(name)]
    assert len({hierarchy.tag(name) for name in kept}) == len(kept)


@settings(deadline=None)
@given(hierarchies())
def test_every_tag_resolves_back_to_the_nearest_kept_call(hierarchy: Hierarchy) -> None:
    for name in hierarchy:
        assert hierarchy.resolve(hierarchy.tag(name)).name == (hierarchy.kept(name) or ROOT)


@settings(deadline=None)
@given(hierarchies())
def test_a_tag_spells_the_kept_calls_on_the_way_down(hierarchy: Hierarchy) -> None:
    for name in hierarchy:
        way = [hierarchy[at] for at in reversed(list(hierarchy.lineage(name))) if hierarchy.is_kept(at)]
        segments = hierarchy.tag(name).split("/")[1:] if way else []
        assert [segment.partition("@")[0].partition(".")[0] for segment in segments] == [c.class_name for c in way]
        assert [segment.partition("@")[2] for segment in segments] == [str(c.index or "") for c in way]


@settings(deadline=None)
@given(hierarchies())
def test_torch_nn_class_is_in_a_tag_only_if_kept(hierarchy: Hierarchy) -> None:
    for name in hierarchy:
        kept = hierarchy.kept(name)
        assert kept is None or not is_torch_nn(hierarchy[kept].cls) or hierarchy[kept].cls in hierarchy.keep


@settings(deadline=None)
@given(hierarchies())
def test_tags_are_single_lines_of_utf_8(hierarchy: Hierarchy) -> None:
    for name in hierarchy:
        tag = hierarchy.tag(name)
        tag.encode("utf-8")
        assert len(tag.splitlines()) == 1


@settings(deadline=None)
@given(hierarchies())
def test_renaming_every_class_renames_the_segments_and_nothing_else(made: Hierarchy) -> None:
    def stays(call: Call) -> bool:
        # A class without a name gains one by renaming, and needs a key no longer.
        return is_torch_nn(call.cls) or not call.class_name

    hierarchy = Hierarchy(made.values())
    renamed = Hierarchy(
        call if stays(call) else replace(call, cls=f"{call.cls.rpartition('.')[0]}.Z{call.class_name}")
        for call in made.values()
    )
    for name in hierarchy:
        way = [at for at in reversed(list(hierarchy.lineage(name))) if hierarchy.is_kept(at)]
        before, after = hierarchy.tag(name).split("/")[1:], renamed.tag(name).split("/")[1:]
        expected = [
            segment if stays(hierarchy[at]) else f"Z{segment}"
            for at, segment in zip(way, before if way else [], strict=True)
        ]
        assert (after if way else []) == expected
