"""What a module keeps in memory, as a number that changes with it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from pytest_hierexport._cache.memory import fingerprint, kept_by


@pytest.mark.parametrize(
    "make", [float, lambda count: count + 1000, complex, "name{}".format, lambda count: f"name{count}".encode()]
)
def test_a_value_at_the_address_of_the_first_counts(make: Callable[[int], object]) -> None:
    module = ModuleType("any")
    vars(module)["LIMIT"] = make(500)
    before, address = fingerprint(kept_by(module)), id(vars(module)["LIMIT"])
    for count in range(100):
        vars(module)["LIMIT"] = make(count)
        if id(vars(module)["LIMIT"]) == address:
            break
    assert id(vars(module)["LIMIT"]) == address
    assert fingerprint(kept_by(module)) != before
