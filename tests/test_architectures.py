from __future__ import annotations

import statistics
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from architectures import Program, features, generate
from architectures.check import violations
from pytest_hierexport._rules.registry import rules

# Those that export once more or start a process are for benchmarks/random_architectures.py, which runs for hours.
COSTLY = {"MUST-001", "MUST-005", "MUST-008"}

programs = st.randoms(use_true_random=False).map(generate)
SEEDS = range(100)


def outputs(program: Program) -> list[torch.Tensor]:
    example = program.build()
    with torch.no_grad():
        result = example.model(*example.args, **example.kwargs)
    leaves: list[torch.Tensor] = pytree.tree_leaves(result)
    return leaves


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_every_program_runs_and_its_values_keep_their_shape(program: Program) -> None:
    for value in outputs(program):
        assert value.shape == (2, 3, 8)
        assert value.isfinite().all()


@pytest.mark.parametrize("seed", range(5))
def test_seed_determines_program_and_numbers(seed: int) -> None:
    first, again = generate(Random(seed)), generate(Random(seed))
    assert first == again
    for value, same in zip(outputs(first), outputs(again), strict=True):
        assert torch.equal(value, same)


@pytest.mark.parametrize("seed", range(5))
def test_the_source_stands_by_itself(seed: int) -> None:
    program = generate(Random(seed))
    namespace: dict[str, Any] = {"__name__": "pasted"}
    exec(repr(program), namespace)  # noqa: S102  # what a person would do with it
    assert [name for name, _ in namespace["model"].named_modules()] == [
        name for name, _ in program.build().model.named_modules()
    ]


def test_the_programs_are_large_enough_and_share_often_enough() -> None:
    found = [features(program, program.build()) for program in map(generate, map(Random, SEEDS))]
    assert statistics.median(feature.calls for feature in found) >= 12
    assert sum(feature.shared_or_repeated for feature in found) >= 0.3 * len(found)


@pytest.mark.parametrize(
    "trait",
    [
        "attribute twice",
        "called and not held",
        "keyword argument",
        "list in a list",
        "loop over a container",
        "module never called",
        "ModuleDict",
        "ModuleList",
        "odd attribute name",
        "odd class name",
        "outputs by name",
        "parametrised weight",
        "repeated call",
        "residual or branch",
        "Sequential",
        "several inputs",
        "several outputs",
        "several results",
        "shared instance",
        "torch.nn root",
        "two classes of one name",
        "value never used",
    ],
)
def test_every_trait_occurs(trait: str, traits: list[frozenset[str]]) -> None:
    assert any(trait in held for held in traits)


@pytest.fixture(scope="module")
def traits() -> list[frozenset[str]]:
    return [features(program, program.build()).traits for program in map(generate, map(Random, SEEDS))]


def test_failure_shrinks_to_a_readable_model() -> None:
    smallest = find(programs, lambda program: "Attend()" in repr(program), settings=settings(max_examples=2000))
    lines = repr(smallest).partition("class Model")[2].splitlines()
    assert len(lines) <= 12


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs)
def test_the_rules_hold_on_every_program(program: Program, tmp_path_factory: pytest.TempPathFactory) -> None:
    held = [rule for rule in rules() if rule.id not in COSTLY]
    assert not violations(program, held, tmp_path_factory.mktemp("architecture"))
