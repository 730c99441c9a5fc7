from __future__ import annotations

import pytest

from pytest_hierexport._snapshot.diff import compare, diff, headline
from pytest_hierexport._snapshot.tree_diff import tree_diff


def test_equal_texts_have_no_difference() -> None:
    assert diff("/A\n", "/A\n") == []


def test_a_change_is_told_by_module() -> None:
    old = "/A: Add 1\n/A/Gone: Mul 2\n/A/Stays: Relu 1\n/A/Other: Add 1, Mul 2\n"
    new = "/A: Add 1\n/A/New\n/A/Stays: Relu 1\n/A/Other: Add 3, Sub 1\n"
    assert diff(old, new) == [
        "- /A/Gone: Mul 2",
        "+ /A/New",
        "~ /A/Other: Add 1 → 3, Mul 2 → 0, Sub 0 → 1",
    ]


def test_one_changed_layer_of_twelve_is_one_change() -> None:
    old = "/A\n/A/L.{0..11} ×12: Add 1\n/A/L.{0..11}/M: Relu 1\n"
    new = (
        "/A\n/A/L.{0..4} ×5: Add 1\n/A/L.{0..4}/M: Relu 1\n/A/L.5: Add 1\n/A/L.5/M: Gelu 1\n"
        "/A/L.{6..11} ×6: Add 1\n/A/L.{6..11}/M: Relu 1\n"
    )
    assert diff(old, new) == ["~ /A/L.5/M: Gelu 0 → 1, Relu 1 → 0"]


def test_a_change_in_every_layer_is_one_change() -> None:
    assert diff("/A/L.{0..11} ×12: Add 1\n", "/A/L.{0..11} ×12: Add 2\n") == ["~ /A/L.{0..11}: Add 1 → 2"]


def test_a_layer_more_is_told_as_that_layer_alone() -> None:
    assert diff("/A\n/A/L.{0..1} ×2: Add 1\n", "/A\n/A/L.{0..2} ×3: Add 1\n") == ["+ /A/L.2: Add 1"]


def test_a_renamed_class_is_one_line() -> None:
    old = "/A\n/A/Old.{0..11} ×12: Add 1\n/A/Old.{0..11}/Older: Relu 1\n/A/Head: Gemm 1\n"
    new = old.replace("Older", "NewHead").replace("Old", "New")
    assert diff(old, new) == [
        "= renamed Old → New (12 instances, operators equal)",
        "= renamed Older → NewHead (12 instances, operators equal)",
    ]


def test_class_below_several_renamed_ones_is_one_line() -> None:
    old = "/A\n/A/Embed: Add 1\n/A/Embed/Norm: Exp 1\n/A/Layer.{0..5} ×6: Add 2\n/A/Layer.{0..5}/Norm: Exp 1\n"
    assert diff(old, old.replace("Embed", "NewEmbed").replace("Layer", "NewLayer").replace("Norm", "NewNorm")) == [
        "= renamed Embed → NewEmbed (1 instance, operators equal)",
        "= renamed Layer → NewLayer (6 instances, operators equal)",
        "= renamed Norm → NewNorm (7 instances, operators equal)",
    ]


def test_renamed_class_with_a_change_shows_that_too() -> None:
    old = "/A\n/A/Old.encoder: Add 1\n/A/Old.decoder@1: Add 2\n/A/Old.head: Add 1\n"
    new = "/A\n/A/New.encoder: Add 1\n/A/New.decoder@1: Add 2\n/A/New.head: Mul 1\n"
    assert diff(old, new) == [
        "= renamed Old → New (3 instances, operators differ)",
        "~ /A/New.head: Add 1 → 0, Mul 0 → 1",
    ]


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("/Net/New.{0..5} ×6: Add 1, Gemm 2", ["~ /Net/New.{0..5}: Gemm 1 → 2"]),
        (
            "/Net/New.{0..2} ×3: Add 1, Gemm 1\n/Net/New.3: Add 2, Gemm 1\n/Net/New.{4..5} ×2: Add 1, Gemm 1",
            ["~ /Net/New.3: Add 1 → 2"],
        ),
        ("/Net/New.{0..6} ×7: Add 1, Gemm 1", ["+ /Net/New.6: Add 1, Gemm 1"]),
        (
            "/Net/New.{0..5} ×6: Add 1, Gemm 1\n/Net/New.{0..5}/Part ×6: Relu 1",
            ["+ /Net/New.{0..5}/Part: Relu 1"],
        ),
    ],
    ids=["every layer", "one layer", "a layer more", "a part more"],
)
def test_renamed_class_of_a_folded_run_shows_its_change(after: str, told: list[str]) -> None:
    (first, *others) = diff(
        "/Net\n/Net/Old.{0..5} ×6: Add 1, Gemm 1\n/Net/Head: Gemm 1\n", f"/Net\n{after}\n/Net/Head: Gemm 1\n"
    )
    assert first.startswith("= renamed Old → New (")
    assert first.endswith("instances, operators differ)")
    assert others == told


def test_caller_of_other_modules_is_not_renamed() -> None:
    old, new = "/Old\n/Old/A: Add 1\n/Old/B: Exp 1\n", "/New\n/New/A: Mul 1\n/New/B: Log 1\n"
    assert diff(old, new)[:2] == ["- /Old", "- /Old/A: Add 1"]
    assert diff(old, old.replace("Old", "New").replace("/A", "/C")) == [
        "= renamed Old → New (1 instance, operators equal)",
        "= renamed A → C (1 instance, operators equal)",
    ]


def test_class_that_replaces_another_is_not_a_rename() -> None:
    assert diff("/A\n/A/Old: Add 1\n", "/A\n/A/New: Mul 1\n") == ["- /A/Old: Add 1", "+ /A/New: Mul 1"]


def test_changed_run_of_a_shared_layer_keeps_its_modules() -> None:
    old = "/A\n/A/L@{0..3} ×4: Add 1\n/A/L@{0..3}/S: Relu 1\n"
    new = "/A\n/A/L@{0..2} ×3: Add 1\n/A/L@{0..2}/S: Relu 1\n/A/L@3: Add 1, Tanh 1\n/A/L@3/S@3: Relu 1\n"
    assert diff(old, new) == ["~ /A/L@3: Tanh 0 → 1"]
    assert diff(new, new.replace("/S@3: Relu 1", "/S@3: Relu 2")) == ["~ /A/L@3/S@3: Relu 1 → 2"]


def test_one_call_more_moves_no_later_call_of_an_instance() -> None:
    old = "/A\n/A/B: Add 1\n/A/B/S: Relu 1\n/A/C: Mul 1\n/A/C/S@1: Relu 1\n"
    new = "/A\n/A/B: Add 1\n/A/B/S@{0..1} ×2: Relu 1\n/A/C: Mul 1\n/A/C/S@2: Relu 1\n"
    assert diff(old, new) == ["+ /A/B/S@1: Relu 1"]
    assert diff(old, new.replace("Relu 1\n/A/C:", "Tanh 1\n/A/C:").replace("S@2: Relu", "S@2: Exp")) == [
        "~ /A/B/S: Relu 1 → 0, Tanh 0 → 1",
        "+ /A/B/S@1: Tanh 1",
        "~ /A/C/S@2: Exp 0 → 1, Relu 1 → 0",
    ]


def test_item_that_runs_again_after_its_run_is_told() -> None:
    before = "/Net\n/Net/Layer.{0..1} ×2: Add 1\n"
    assert diff(before, f"{before}/Net/Layer.1@1: Add 1\n") == ["+ /Net/Layer.1@1: Add 1"]
    assert diff("/Net\n/Net/Layer.0: Add 1\n/Net/Layer.1\n", "/Net\n/Net/Layer.{0..1} ×2\n/Net/Layer.0@1: Add 1\n") == [
        "~ /Net/Layer.0: Add 1 → 0",
        "+ /Net/Layer.0@1: Add 1",
    ]


def test_layer_that_runs_once_more_is_one_change() -> None:
    assert diff("/A/L@{0..1} ×2: Add 1\n", "/A/L@{0..2} ×3: Add 1\n") == ["+ /A/L@2: Add 1"]


def test_moved_module_is_told_with_its_new_neighbour() -> None:
    old = "/A\n/A/B: Add 1\n/A/B/X\n/A/C\n/A/D\n"
    assert diff(old, "/A\n/A/C\n/A/B: Add 1\n/A/B/X\n/A/D\n") == ["> /A/C now before /A/B"]
    assert diff(old, "/A\n/A/C\n/A/D\n/A/B: Add 1\n/A/B/X\n") == ["> /A/B now after /A/D"]
    assert diff(old, "/A\n/A/C\n/A/B: Add 2\n/A/B/X\n/A/D\n/A/E\n") == [
        "~ /A/B: Add 1 → 2",
        "+ /A/E",
        "> /A/C now before /A/B",
    ]


@pytest.mark.parametrize(
    ("order", "moved"),
    [
        ("3210", ["3 now before {}0", "2 now before {}0", "1 now before {}0"]),
        ("1032", ["1 now before {}0", "3 now before {}2"]),
        ("1230", ["0 now after {}3"]),
        ("0312", ["3 now before {}1"]),
    ],
)
def test_folded_modules_in_another_order_are_told(order: str, moved: list[str]) -> None:
    folded = "/A\n/A/B.{0..3} ×4: Add 1\n/A/B.{0..3}/C ×4: Mul 1\n"
    unfolded = "/A\n" + "".join(f"/A/B.{i}: Add 1\n/A/B.{i}/C: Mul 1\n" for i in order)
    assert diff(folded, unfolded) == [f"> /A/B.{each.format('/A/B.')}" for each in moved]
    assert diff(unfolded, folded) != []


def test_neighbour_of_moved_modules_ran_the_other_way_round() -> None:
    old, new = "/N\n/N/S1\n/N/S2\n/N/Head\n/N/Aux\n", "/N\n/N/Head\n/N/Aux\n/N/S1\n/N/S2\n"
    moved = {"> /N/Head now before /N/S1", "> /N/Aux now before /N/S1"}
    other = {"> /N/S1 now after /N/Aux", "> /N/S2 now after /N/Aux"}
    assert set(diff(old, new)) in (moved, other)


def test_tree_of_a_long_text_shows_the_one_change() -> None:
    lines = ["/Net", *(f"/Net/Layer.{i}: Op{i} 1" for i in range(20_000))]
    changed = [*lines[:9_000], "/Net/Layer.8999: Add 2", *lines[9_001:]]
    assert tree_diff("\n".join(lines), "\n".join(changed)) == [
        " /Net", "   … 8999 unchanged", "-  Layer.8999: Op8999 1", "+  Layer.8999: Add 2", "   … 11000 unchanged",
    ]  # fmt: skip


def test_long_difference_counts_what_it_leaves_out() -> None:
    shown = diff("", "".join(f"/A/M{i}\n" for i in range(100)), limit=20)
    assert len(shown) == 21
    assert shown[-1] == "… and 80 more changes"


def test_tree_tells_renames_and_moves_once() -> None:
    old = "/A\n/A/Old: Add 1\n/A/B: Mul 1\n/A/B/X: Exp 1\n/A/C: Sub 1\n"
    assert tree_diff(old, "/A\n/A/New: Add 1\n/A/C: Sub 1\n/A/B: Mul 1\n/A/B/X: Exp 1\n") == [
        "= renamed Old → New (1 instance, operators equal)",
        " /A",
        "   … 1 unchanged",
        ">  C: Sub 1",
        "   … 2 unchanged",
    ]


@pytest.mark.parametrize(
    ("new", "line"),
    [
        ("/A\n/A/B: Add 1\n/A/B/X\n/A/C\n/A/D\n", ""),
        ("/A\n/A/B: Add 2\n/A/B/X\n/A/C\n/A/D\n", "~ …/B: Add 1 → 2"),
        ("/A: Add 1\n/A/B: Add 1\n/A/B/X\n/A/C\n/A/D\n", "~ /A: Add 0 → 1"),
        ("/A\n/A/C\n/A/B: Add 1\n/A/B/X\n/A/D\n", "> …/C now before …/B"),
        ("/A\n/A/E: Add 1\n/A/E/X\n/A/C\n/A/D\n", "= B → E"),
        ("/A\n/A/B: Add 2\n/A/B/X: Exp 1\n/A/D\n/A/D/Y\n", "+1 -1 ~2, ~ …/B: Add 1 → 2"),
    ],
)
def test_headline_counts_changes_and_names_the_first(new: str, line: str) -> None:
    assert headline(compare("/A\n/A/B: Add 1\n/A/B/X\n/A/C\n/A/D\n", new)) == line
