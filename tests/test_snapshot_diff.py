from __future__ import annotations

from pytest_hierexport._snapshot.diff import diff


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


def test_a_renamed_class_stays_folded() -> None:
    assert diff("/A\n/A/Old.{0..11} ×12: Add 1\n", "/A\n/A/New.{0..11} ×12: Add 1\n") == [
        "- /A/Old.{0..11}: Add 1",
        "+ /A/New.{0..11}: Add 1",
    ]


def test_layer_that_runs_once_more_is_one_change() -> None:
    assert diff("/A/L@{0..1} ×2: Add 1\n", "/A/L@{0..2} ×3: Add 1\n") == ["+ /A/L@2: Add 1"]


def test_the_same_modules_in_another_order_are_told_as_that() -> None:
    assert diff("/A\n/A/B\n/A/C\n", "/A\n/A/C\n/A/B\n")[0] == "the same modules in another order:"


def test_long_difference_counts_what_it_leaves_out() -> None:
    shown = diff("", "".join(f"/A/M{i}\n" for i in range(100)), limit=20)
    assert len(shown) == 21
    assert shown[-1] == "… and 80 more modules"
