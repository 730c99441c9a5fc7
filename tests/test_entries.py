"""The list of module instances that reports show."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_hierexport._calls.attribution import Attribution, Evidence, Origin
from pytest_hierexport._calls.entries import ModuleEntry, from_lines, module_entries, to_lines
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.modules import Module, Parameter

NET = (
    Call("", 0, "m.Net", None),
    Call("head", 0, "torch.nn.modules.linear.Linear", ""),
    Call("layers.0", 0, "m.Layer", ""),
    Call("layers.0", 1, "m.Layer", ""),
)
WEIGHT = Parameter("weight", (3, 4), "float32", trainable=True)
MEAN = Parameter("mean", (4,), "float32", trainable=False)
TIED = Parameter("weight", (3, 4), "float32", trainable=True, shared="head.weight")


def listed(attribution: Attribution, modules: Iterable[Module] = ()) -> dict[str, ModuleEntry]:
    operators = dict.fromkeys(attribution.nodes, "Add")
    sizes = dict.fromkeys(attribution.initializers, 48)
    return {entry.path: entry for entry in module_entries(attribution, modules, operators, sizes)}


def test_node_counts_for_its_primary_and_is_co_owned_elsewhere() -> None:
    origins = (
        Origin("head", Evidence.TRACED),
        Origin("layers.0", Evidence.MERGED),
        Origin("layers.0@1", Evidence.FUSED),
    )
    entries = listed(Attribution(Hierarchy(NET), {"node": origins}))
    assert (entries["head"].operators, entries["head"].evidence) == ({"Add": 1}, {"traced": 1})
    assert (entries["layers.0"].operators, entries["layers.0"].co_owned) == ({}, {"merged": 1})
    assert entries["layers.0"].calls == 2


def test_untagged_node_counts_for_no_module() -> None:
    entries = listed(Attribution(Hierarchy(NET), {"node": ()}))
    assert not any(entry.operators for entry in entries.values())


def test_modules_come_before_those_below_in_order_of_calls() -> None:
    modules = [Module(path, "") for path in ("", "layers", "layers.0", "layers.1", "head")]
    assert list(listed(Attribution(Hierarchy(NET)), modules)) == ["", "head", "layers", "layers.0", "layers.1"]


def test_path_between_two_modules_is_listed_without_a_class() -> None:
    assert listed(Attribution(Hierarchy(NET)))["layers"] == ModuleEntry("layers")


def test_tag_is_that_of_the_first_call_of_kept_classes() -> None:
    entries = listed(Attribution(Hierarchy(NET)))
    assert {path: entry.tag for path, entry in entries.items()} == {
        "": "/Net",
        "head": "",
        "layers": "",
        "layers.0": "/Net/Layer.0",
    }


def test_shared_tensor_and_buffer_count_for_no_second_module() -> None:
    modules = [Module("head", "m.Head", (WEIGHT, MEAN)), Module("layers.0", "m.Layer", (TIED,))]
    initializers = {"head.weight": (Origin("head", Evidence.TRACED), Origin("layers.0", Evidence.TRACED))}
    entries = listed(Attribution(Hierarchy(NET), {}, initializers), modules)
    assert {path: (entry.parameters, entry.bytes) for path, entry in entries.items() if entry.bytes} == {
        "head": (12, 48)
    }
    assert entries["layers.0"].parameters == 0


def test_entries_are_read_back_from_their_lines() -> None:
    entries = tuple(listed(Attribution(Hierarchy(NET), {"node": (Origin("head", Evidence.FUSED),)})).values())
    assert from_lines(to_lines(entries)) == entries
