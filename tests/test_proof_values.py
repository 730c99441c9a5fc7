"""Values: when tensors of two runs count as the same one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from pytest_hierexport._proof.arrangements import arrangements
from pytest_hierexport._proof.fingerprints import KEPT, fingerprint
from pytest_hierexport._proof.values import Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOWEST = float(np.finfo(np.float32).min)


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def is_found(first: NDArray[Any], second: NDArray[Any], **tolerances: float) -> bool:
    """Whether the second tensor may stand for the first."""
    values = Values(tolerances)
    number = values.add(fingerprint(first))
    return values.find(fingerprint(second)) == {number}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_tensor_is_found_within_rounding_of_its_dtype(dtype: Any) -> None:
    first = numbers(3, 4, dtype=dtype)
    assert is_found(first, (first * (1 + 2 * np.finfo(dtype).eps)).astype(dtype))
    assert not is_found(first, (first * 1.1).astype(dtype))


def test_bfloat16_tensor_has_bfloat16_tolerance() -> None:
    first = numbers(3, 4).astype(ml_dtypes.bfloat16)
    second = (first.astype(np.float32) * 1.01).astype(ml_dtypes.bfloat16)
    assert (first != second).any()
    assert is_found(first, second)
    assert not is_found(first.astype(np.float32), second.astype(np.float32))


def test_tensor_of_tiny_numbers_is_infinitely_far_from_others() -> None:
    tiny = numbers(3, 4) * np.float32(1e-40)
    assert not is_found(tiny, numbers(3, 4))
    assert is_found(tiny, tiny)


def test_a_tolerance_of_the_users_comes_before_the_dtypes_own() -> None:
    first = numbers(3, 4)
    assert is_found(first, first * np.float32(1.01), float32=0.1)
    assert not is_found(first, first * np.float32(1 + 1e-6), float32=0)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(numbers(4, 3).reshape(3, 4).T, id="another shape"),
        pytest.param(numbers(3, 4).astype(np.float64), id="another dtype"),
        pytest.param(numbers(3, 4, seed=1), id="other numbers"),
        pytest.param(np.flip(numbers(3, 4)), id="another order"),
    ],
)
def test_another_tensor_is_not_found(second: NDArray[Any]) -> None:
    assert not is_found(numbers(3, 4), second)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, LOWEST])
def test_special_numbers_must_have_the_same_places(special: float) -> None:
    first, moved = numbers(2, 3), numbers(2, 3)
    first[0, 1] = special
    moved[1, 1] = special
    assert is_found(first, first.copy())
    assert not is_found(first, moved)


def test_huge_numbers_of_mask_do_not_hide_others() -> None:
    first = numbers(4, 4)
    first[np.triu_indices(4, 1)] = LOWEST
    second = first.copy()
    second[1, 0] += 0.01
    assert not is_found(first, second)


def test_number_beyond_float32_is_saturated_in_it() -> None:
    lowest = np.array([1.0, np.finfo(np.float64).min])
    assert fingerprint(lowest, "float32").numbers.tolist() == [1.0, 0.0]  # type: ignore[union-attr]


def test_zeros_of_either_sign_are_one_value() -> None:
    values = Values()
    assert values.add(fingerprint(np.array([0.0, 1.0]))) == values.add(fingerprint(np.array([-0.0, 1.0])))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_])
def test_integers_and_booleans_must_be_equal_everywhere(dtype: Any) -> None:
    first = np.array([[1, 0], [1, 1]], dtype)
    second = first.copy()
    second[0, 1] = 1
    assert is_found(first, first.copy())
    assert not is_found(first, second)


def test_values_of_one_run_need_equal_elements() -> None:
    values = Values()
    first = numbers(8)
    near = values.add(fingerprint(first * np.float32(1 + 1e-6)))
    assert values.add(fingerprint(first)) != near
    assert values.add(fingerprint(first.copy())) == 1


def test_nearer_of_two_near_values_is_found() -> None:
    values = Values({"float32": 0.1})
    first = numbers(8)
    one, other = values.add(fingerprint(first)), values.add(fingerprint(first * np.float32(1.05)))
    assert values.find(fingerprint(first * np.float32(1.001))) == {one}
    assert values.find(fingerprint(first * np.float32(1.049))) == {other}


def test_two_values_within_rounding_are_both_found() -> None:
    values = Values()
    first = numbers(8)
    both = {values.add(fingerprint(first)), values.add(fingerprint(first * np.float32(1 + 1e-6)))}
    assert values.find(fingerprint(first * np.float32(1 + 3e-7))) == both


def test_large_tensor_has_small_fingerprint_of_its_own() -> None:
    first = numbers(3 * KEPT + 7)
    kept = fingerprint(first).numbers
    assert kept is not None
    assert kept.size == KEPT
    second = first.copy()
    second[[5, KEPT + 5]] = second[[KEPT + 5, 5]]
    assert is_found(first, first * np.float32(1 + 1e-6))
    assert not is_found(first, second)


@pytest.mark.parametrize(
    ("array", "constant"),
    [
        (np.full((2, 3), 0.3), True),
        (np.full(3, np.nan), True),
        (np.array([0.3, 0.4]), False),
        (np.array([7, 7]), True),
        (np.array([7, 8]), False),
        (np.array(1.0), True),
        (np.array(0.3), False),
        (np.array(7), True),
        (np.zeros((0, 3)), True),
        (np.zeros((0, 3), np.int64), True),
        (np.zeros(3, ml_dtypes.int4), True),
    ],
)
def test_tensor_with_equal_elements_is_constant(array: NDArray[Any], constant: bool) -> None:
    assert fingerprint(array).constant is constant


def test_of_many_equal_elements_one_other_is_seen() -> None:
    array = np.zeros(1000)
    array[501] = 1
    assert not fingerprint(array).constant


def test_only_shapes_that_were_added_are_known() -> None:
    values = Values()
    values.add(fingerprint(numbers(3, 4)))
    assert values.has_shape("float32", (3, 4))
    assert not values.has_shape("float64", (3, 4))
    assert not values.has_shape("float32", (4, 3))


ARRANGED = {
    "another shape": lambda x: x.reshape(6, 20),
    "transposed": lambda x: x.transpose(0, 2, 1, 3),
    "transposed and merged": lambda x: x.transpose(0, 2, 1, 3).reshape(2, 3, 20),
    "merged and transposed": lambda x: x.reshape(6, 20).T,
    "in blocks": lambda x: x.reshape(2, 3, 2, 2, 5).transpose(0, 1, 2, 4, 3).reshape(2, 3, 4, 5),
    "in filled blocks": lambda x: filled(x, 0).reshape(2, 2, 2, 4, 5).transpose(0, 1, 3, 4, 2).reshape(2, 4, 4, 5),
}


def filled(array: NDArray[Any], number: float) -> NDArray[Any]:
    """Return an array with a channel more."""
    return np.pad(array, ((0, 0), (0, 1), (0, 0), (0, 0)), constant_values=number)


@pytest.mark.parametrize("arrange", ARRANGED.values(), ids=ARRANGED)
def test_transposition_or_reshape_of_a_value_is_found(arrange: Callable[[Any], Any]) -> None:
    first = numbers(2, 3, 4, 5)
    values = Values()
    number = values.add(fingerprint(first))
    assert values.find_rearranged(arrange(first)) == {number}


@pytest.mark.parametrize("merged", [False, True])
def test_axes_of_length_one_do_not_count_as_axes(merged: bool) -> None:
    first = numbers(12)
    given = first.reshape(1, 1, 1, 1, 2, 2, 3)
    arranged = given.transpose().ravel() if merged else first.reshape(3, 2, 2).transpose().reshape(given.shape)
    values = Values()
    number = values.add(fingerprint(arranged))
    assert values.find_rearranged(given if merged else first) == {number}


def test_integers_are_found_as_they_are_alone() -> None:
    values = Values()
    values.add(fingerprint(np.arange(6).reshape(2, 3)))
    assert values.find_rearranged(np.arange(6).reshape(2, 3).T) == frozenset()


def test_zeros_are_padding_along_the_same_axes_only() -> None:
    row, square = numbers(3), numbers(2, 2)
    values = Values()
    values.add(fingerprint(row))
    values.add(fingerprint(np.pad(square, ((0, 0), (0, 1)))))
    assert values.find_rearranged(np.pad(row[:, None], ((0, 6), (0, 3)))) == frozenset()
    assert values.find_rearranged(np.pad(square, ((0, 3), (0, 0)))) == frozenset()


def test_zeros_along_two_axes_are_no_padding() -> None:
    values, square = Values(), numbers(2, 2)
    number = values.add(fingerprint(square))
    assert values.find_rearranged(np.pad(square, ((0, 1), (0, 0)))) == {number}
    assert values.find_rearranged(np.pad(square, ((0, 1), (0, 1)))) == frozenset()


def test_empty_tensor_has_no_other_arrangement() -> None:
    values = Values()
    values.add(fingerprint(np.zeros((0, 4), np.float32)))
    assert values.find_rearranged(np.zeros((4, 0), np.float32)) == frozenset()


def test_of_seven_axes_no_transposition_is_listed() -> None:
    assert len(arrangements((2,) * 6, (2,) * 6)) == 720
    assert len(arrangements((2,) * 7, (2,) * 7)) == 1


def test_other_order_of_the_elements_is_not_found() -> None:
    first = numbers(2, 3, 4, 5)
    values = Values()
    values.add(fingerprint(first))
    assert values.find_rearranged(np.flip(first, 3)) == frozenset()
    assert values.find_rearranged(np.roll(first, 1, 3)) == frozenset()


def test_value_with_other_elements_behind_it_is_not_found() -> None:
    first = numbers(2, 3, 4, 5)
    values = Values()
    values.add(fingerprint(first))
    assert values.find_rearranged(filled(first, 0.5)) == frozenset()


def test_transposition_of_a_large_value_is_found() -> None:
    first = numbers(20, 30, 40)
    values = Values()
    number = values.add(fingerprint(first))
    assert values.find_rearranged(first.transpose(2, 0, 1)) == {number}


@pytest.mark.parametrize("shape", [(6, 4, 5, 8), (12, 8, 10, 32)], ids=["small", "large"])
def test_arrangement_that_differs_in_a_sample_is_not_compared(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = numbers(*shape)
    values = Values()
    number = values.add(fingerprint(first))
    compared = []

    def counted(_: Values, array: Any) -> Any:
        compared.append(array)
        return fingerprint(array)

    monkeypatch.setattr(Values, "fingerprint", counted)
    assert values.find_rearranged(first.transpose(3, 0, 2, 1)) == {number}
    assert len(compared) == 2  # the array itself, and the one arrangement
