from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pytest_hierexport import Example, export, prove
from pytest_hierexport._export.torchscript.adapter import Adapter

X, Y = torch.arange(3.0), torch.ones(2)


class Model(nn.Module):
    """Notes what it is given and returns what it is told to."""

    def __init__(self, output: Any = None) -> None:
        super().__init__()
        self._run = nn.Linear(3, 3)
        self.output = output
        self.given: Any = None

    def forward(self, first: Any, *rest: Any, **named: Any) -> Any:
        object.__setattr__(self, "given", (first, rest, named))
        return first if self.output is None else self.output


class Cache:
    """An object that torch's trees do not know."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.count = rows, 3


class Pair:
    """Python writes the class into the name of the first slot."""

    __slots__ = ("__left", "right")

    def __init__(self, left: Any, right: Any) -> None:
        self.__left, self.right = left, right


def test_adapter_puts_new_tensors_in_their_places() -> None:
    model, cache = Model(), Cache([X, None])
    adapter = Adapter(model, (X, {"k": Y}, 5), {"cache": cache})
    assert adapter.places == ("first", "rest.0.k", "cache.rows.0")
    new = [tensor + 1 for tensor in adapter.tensors]
    adapter(*new)
    first, (mapping, number), named = model.given
    assert (first is new[0], mapping["k"] is new[1], number, named["cache"].count) == (True, True, 5, 3)
    assert named["cache"].rows[0] is new[2]
    assert cache.rows[0] is X


def test_one_tensor_in_two_places_comes_in_twice() -> None:
    assert Adapter(Model(), (X, X), {}).places == ("first", "rest.0")


def test_parameters_keep_their_names_whatever_submodules_are_called() -> None:
    model = Model()
    assert list(Adapter(model, (X,), {}).state_dict()) == list(model.state_dict())


def test_tensors_by_position_and_tensors_returned_are_left_to_torch() -> None:
    adapter = Adapter(Model((X, Y)), (X, Y), {})
    assert adapter(*adapter.tensors) == (X, Y)
    assert (adapter.input_names, adapter.output_names) == (None, [])


def test_other_outputs_are_their_tensors_named_by_place() -> None:
    adapter = Adapter(Model({"a": X, "b": (None, Cache(Y)), "": 1}), (X,), {})
    found = adapter(X)
    assert (found[0] is X, found[1] is Y) == (True, True)
    assert adapter.output_names == ["a", "b.1.rows"]


def test_names_are_unique_and_not_numbers() -> None:
    adapter = Adapter(Model([X, [Y, {"first": Y}]]), (X,), {"a": Y})
    adapter(X, Y)
    assert adapter.output_names == ["output.0", "output.1.0", "output.1.1.first"]
    other = Adapter(Model({"first": X, "a": Y}), (X,), {"a": Y})
    other(X, Y)
    assert other.output_names == ["first.1", "a.1"]


def test_tensors_in_slots_have_a_place_each() -> None:
    model, pair = Model(), Pair(X, Y)
    adapter = Adapter(model, (pair,), {})
    assert adapter.places == ("first._Pair__left", "first.right")
    new = [tensor + 1 for tensor in adapter.tensors]
    assert all(found is given for found, given in zip(adapter(*new), new, strict=True))
    assert adapter.output_names == ["_Pair__left", "right"]


def test_more_inputs_than_the_model_takes_are_refused() -> None:
    with pytest.raises(TypeError, match="takes 1 positional inputs; 2 are given"):
        Adapter(torch.nn.Linear(2, 2), (torch.ones(2), torch.ones(2)), {})


def test_what_torch_compile_returns_is_adapted_and_proven() -> None:
    model: Any = torch.compile(
        nn.Linear(3, 3).eval(), backend="eager"
    )  # it computes its mode: `training` is a property
    assert not Adapter(model, (X,), {}).training
    exported = export(model, (X,))
    assert not prove(Example(model, (X,)), exported.model, exported.attribution).unproven
