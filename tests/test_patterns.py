"""Patterns name calls by path, tag or class, segment by segment."""

from __future__ import annotations

import difflib

import pytest

from named_models import CALLS
from pytest_hierexport._calls.hierarchy import Call, Hierarchy
from pytest_hierexport._calls.patterns import calls_below, matching_calls
from pytest_hierexport._errors import UsageError, similar

HIERARCHY = Hierarchy(CALLS)


@pytest.mark.parametrize(
    ("pattern", "calls"),
    [
        ("layer.1", ["layer.1", "layer.1@1"]),
        ("layer.1@0", ["layer.1"]),
        ("layer.1@1", ["layer.1@1"]),
        ("layer.*", ["layer.1", "layer.10", "layer.1@1"]),
        ("*", ["shared"]),
        ("layer.1?", ["layer.10"]),
        ("layer.[0-1]", ["layer.1", "layer.1@1"]),
        ("layer.*.proj", ["layer.1.proj"]),
        ("**.proj", ["layer.1.proj"]),
        ("layer.**", ["layer.1", "layer.1.proj", "layer.10", "layer.1@1", "layer.1.drop"]),
        ("**.1.**.proj", ["layer.1.proj"]),
        ("/Net", [""]),
        ("/Net/Layer.1", ["layer.1", "layer.1@1"]),
        ("/Net/Layer.1@1", ["layer.1@1"]),
        ("/Net/Layer.1@0", ["layer.1"]),
        ("/Net/Layer.10", ["layer.10"]),
        ("/Net/*", ["layer.1", "layer.10", "layer.1@1"]),
        ("/**/Drop", ["layer.1.drop"]),
        ("/Net/**", ["", "layer.1", "layer.10", "shared", "layer.1@1", "layer.1.drop"]),
        ("class:Layer", ["layer.1", "layer.10", "layer.1@1"]),
        ("class:Layer@1", ["layer.1@1"]),
        ("class:m.Norm", ["shared"]),
        ("class:torch.nn.*", ["layer.1.proj"]),
    ],
)
def test_a_pattern_names_calls(pattern: str, calls: list[str]) -> None:
    assert matching_calls(HIERARCHY, pattern) == calls


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("layer.2", "layer.1"),
        ("layer", "layer.1"),
        ("Layer.1", "layer.1"),
        ("proj", "layer.1.proj"),
        ("layer.1@2", "layer.1@1"),
        ("/Net/Layer.2", "/Net/Layer.1"),
        ("/Net/Layer", "/Net/Layer.1"),
        ("/", "/Net"),
        ("class:Layers", "class:Layer"),
        ("", "layer.1"),
        ("a..b", "layer.1"),
    ],
)
def test_a_pattern_without_calls_names_near_ones(pattern: str, near: str) -> None:
    with pytest.raises(UsageError) as raised:
        matching_calls(HIERARCHY, pattern)
    assert near in raised.value.do


def test_a_name_with_wildcards_is_matched_as_it_is_written() -> None:
    hierarchy = Hierarchy([Call("", 0, "m.Net", None), Call("a[0]", 0, "m.A", ""), Call("a0", 0, "m.A", "")])
    assert matching_calls(hierarchy, "a[0]") == ["a[0]", "a0"]
    assert matching_calls(hierarchy, "a[[]0]") == ["a[0]"]


def test_the_root_of_torch_nn_has_a_tag_too() -> None:
    hierarchy = Hierarchy([Call("", 0, "torch.nn.Sequential", None), Call("0", 0, "torch.nn.ReLU", "")])
    assert matching_calls(hierarchy, "/") == [""]


def test_calls_below_a_call_follow_callers_not_paths() -> None:
    assert calls_below(HIERARCHY, ["layer.10"]) == {"layer.10", "shared"}


def test_many_any_depths_take_linear_time() -> None:
    deep = Hierarchy([Call("", 0, "m.A", None), Call(".".join("a" * 400), 0, "m.A", "")])
    with pytest.raises(UsageError):
        matching_calls(deep, ".".join(["**", "a"] * 30 + ["b"]))


def test_similar_names_of_a_large_model_take_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    original = difflib.get_close_matches

    def counting(wanted: str, names: list[str], **options: float) -> list[str]:
        compared.append(len(names))
        return original(wanted, names, n=3, cutoff=options["cutoff"])

    monkeypatch.setattr(difflib, "get_close_matches", counting)
    names = {f"/Net/Encoder/Layer.{i}/Attention.{j}/Query" for i in range(100) for j in range(100)}
    assert "/Net/Encoder/Layer.77/Attention.3/Query" in similar("/Net/Encoder/Layer.77/Attention.3/Qery", names)
    assert compared[0] < 1_000


def test_index_of_many_digits_names_no_call() -> None:
    with pytest.raises(UsageError):
        matching_calls(HIERARCHY, f"encoder@{'1' * 5000}")
