"""Tolerance: the distance of numbers, relative to their magnitude."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.schemas import load_schema
from pytest_hierexport._proof.tolerance import check_tolerances, distances, tolerance_of

INF, NAN = np.inf, np.nan


def test_distance_is_relative_to_magnitude_and_lower_quartile() -> None:
    reference, other = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.3, 1.0, 2.0, 4.0])
    np.testing.assert_allclose(distances(reference, other), [0.2, 0, 0, 0])


def test_huge_and_special_numbers_leave_the_floor_alone() -> None:
    reference = np.array([0.0, 1.0, 1.0, 1.0, 1e30, INF])
    assert distances(reference, reference + np.array([0.1, 0, 0, 0, 0, 0]))[0] == pytest.approx(0.1)


def test_mask_that_fills_half_hides_no_error() -> None:
    reference = np.array([1.0, 2.0, 3.0, -1e9, -1e9, -1e9, -1e9])
    assert distances(reference, reference + np.array([0.1, 0, 0, 0, 0, 0, 0]))[0] == pytest.approx(0.1 / 3.5)


def test_mask_that_fills_most_hides_no_error() -> None:
    reference = np.array([1.0, 2.0, 3.0, *[-1e9] * 9])
    assert distances(reference, reference + np.array([0.1, *[0] * 11]))[0] == pytest.approx(0.1 / 2.5)


@pytest.mark.parametrize("special", [INF, -INF, NAN])
def test_special_number_equals_itself_alone(special: float) -> None:
    reference = np.array([special, 1.0, special])
    assert distances(reference, np.array([special, special, 1.0])).tolist() == [0, INF, INF]


def test_zeros_are_compared_absolutely() -> None:
    assert distances(np.zeros(2), np.array([0.0, 1e-3])).tolist() == [0, 1e-3]


def test_stated_tolerance_replaces_that_of_the_dtype() -> None:
    assert tolerance_of("float32") == 1e-4
    assert tolerance_of("float32", {"float32": 1e-3}) == 1e-3
    assert tolerance_of("int64") == 0


def test_numbers_are_infinitely_far_from_nearly_underflowing_ones() -> None:
    tiny = np.full(3, 1e-40, np.float32)
    assert np.isinf(distances(tiny, np.ones(3, np.float32))).all()
    assert not distances(tiny, tiny).any()


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float8_e4m3fn", "flot32", "float", "float3", "int64", "float32x"]
)
def test_proofs_and_manifests_know_the_same_dtypes(dtype: str) -> None:
    names = load_schema("manifest")["$defs"]["tolerances"]["propertyNames"]
    if re.search(names["pattern"], dtype):
        check_tolerances({dtype: 0.1})
    else:
        with pytest.raises(UsageError, match=dtype):
            check_tolerances({dtype: 0.1})
