"""This repository's own pytest set-up."""

from __future__ import annotations

import os

import pytest

pytest_plugins = ["pytester"]

# The models under test are tiny: more threads than workers only slow each other down. Set before anything imports
# torch or ONNX Runtime, and inherited by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse parameters in a set: each worker has another order of them, and pytest-xdist then runs no test at all."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if any(isinstance(given, set | frozenset) for given in (*mark.args, *mark.kwargs.values())):
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: expected a list of parameters, got a set: sort it")
