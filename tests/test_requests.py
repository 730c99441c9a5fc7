"""What the public functions say of an argument that is something else, and that they change nothing before."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pytest_hierexport as public
from pytest_hierexport import Example, UsageError, assertions, export


class Tower(nn.Sequential):
    """A network, which is none of the things that the functions take."""


class Given:
    """A tagged file with all that functions take of it."""

    def __init__(self, folder: Path) -> None:
        self.net: Any = Tower(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval()
        self.path = folder / "net.onnx"
        self.any_path: Any = self.path
        self.nothing: Any = lambda *_: None
        self.number: Any = 3
        self.numbers: Any = [3]
        self.text: Any = "x"
        self.example = Example(self.net, (torch.ones(1, 4),))
        self.export: Any = export(self.net, self.example.args, path=self.path)
        self.model = self.export.model
        self.origins: Any = self.export.attribution


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    torch.manual_seed(0)
    return Given(tmp_path_factory.mktemp("given"))


FUNCTIONS = [name for name in public.__all__ if inspect.isfunction(getattr(public, name))]
PARAMETERS = [
    (name, parameter)
    for name in FUNCTIONS
    for parameter, found in inspect.signature(getattr(public, name)).parameters.items()
    if found.annotation != "Any"
]


def required(name: str, given: Given) -> dict[str, object]:
    """Return right values for the arguments that a function must have."""
    right = {
        "after": given.path,
        "attribution": given.origins,
        "before": given.path,
        "change": lambda found: found,
        "device": "cpu",
        "example": given.example,
        "model": given.net if name == "export" else given.model,
        "module": "0",
        "other": given.path,
        "outputs": ["y"],
        "path": given.path,
        "patterns": "**",
        "position": 0,
        "reference": given.path,
    }
    found = inspect.signature(getattr(public, name)).parameters.values()
    return {parameter.name: right[parameter.name] for parameter in found if parameter.default is parameter.empty}


def refused(given: Given, call: Callable[[], object]) -> str:
    before = {file.name: file.read_bytes() for file in given.path.parent.iterdir()}
    with pytest.raises(UsageError) as caught:
        call()
    assert {file.name: file.read_bytes() for file in given.path.parent.iterdir()} == before
    return " ".join(str(caught.value).split())


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_no_function_takes_an_argument_of_another_type(name: str, parameter: str, given: Given) -> None:
    for wrong in (object(), b"x", [object()], {3: object()}):
        arguments = required(name, given) | {parameter: wrong}
        told = refused(given, partial(getattr(public, name), **arguments))
        if (name, parameter) != ("export", "model"):
            assert told.startswith(f"expected {parameter} to be ")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_arguments_of_that_test_are_right(name: str, given: Given) -> None:
    inputs: dict[str, dict[str, object]] = {
        "diverge": {"inputs": given.example},
        "export": {"args": given.example.args},
        "profile": {"runs": 1},
    }
    getattr(public, name)(**{**required(name, given), **inputs.get(name, {})})


CALLS: dict[str, tuple[Callable[[Given], object], str]] = {
    "attach to an export": (lambda g: public.attach(g.export, g.origins), "of an export, its `model`"),
    "attach an export": (lambda g: public.attach(g.model, g.export), "of an export, its `attribution`"),
    "read an export": (lambda g: public.read(g.export), "of an export, pass its `path`"),
    "rewrite to nothing": (lambda g: public.rewrite(g.path, g.nothing), "what the function returns to be an Attrib"),
    "rewrite to an attribution": (lambda g: public.rewrite(g.path, g.origins), "to do: pass another change"),
    "prove a network": (lambda g: public.prove(g.net, g.model, g.origins), "pass Example(model, args)"),
    "prove a number": (lambda g: public.prove(Example(g.number, ()), g.model, g.origins), "pass Example(model, args)"),
    "prove with a number": (
        lambda g: public.prove(g.example, g.model, g.origins, tolerances=g.number),
        "expected tolerances to be a mapping of texts to numbers or None; found 3 to do: pass another tolerances",
    ),
    "profile a text of runs": (lambda g: public.profile(g.path, runs=g.text), "a whole number; found 'x'"),
    "profile no level": (lambda g: public.profile(g.path, level=g.nothing()), "level to be a text; found None"),
    "profile lists": (lambda g: public.profile(g.path, {"x": g.numbers}), "to arrays of NumPy or None; found {'x': "),
    "profile tensors": (
        lambda g: public.profile(g.path, {"x": g.example.args[0]}),
        "arrays of NumPy or None; found {'x': an object of the class Tensor} to do: make arrays by numpy.asarray(…), ",
    ),
    "diverge on a list of tensors": (
        lambda g: public.diverge(g.path, g.path, list(g.example.args)),
        "or None; found [an object of the class Tensor] to do: make arrays by numpy.asarray(…), ",
    ),
    "profile on a text": (lambda g: public.profile(g.path, providers=g.text), "a sequence of texts; found 'x'"),
    "export to a text": (lambda g: public.export(g.net, opset=g.text), "a whole number or None; found 'x'"),
    "export one kept": (lambda g: public.export(g.net, keep=g.text), "a sequence of texts; found 'x'"),
    "export whether true": (lambda g: public.export(g.net, optimize=g.number), "True or False; found 3"),
    "export a true opset": (lambda g: public.export(g.net, opset=True), "a whole number or None; found True"),
    "diverge on a network": (lambda g: public.diverge(g.path, g.path, g.net), "pass Example(model, args)"),
    "assert on a network": (lambda g: assertions.assert_tags_proven(g.net), "pass what the fixture hierexport(model"),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_argument_is_refused_in_words(name: str, given: Given) -> None:
    call, told = CALLS[name]
    assert told in refused(given, lambda: call(given))


def test_unknown_argument_is_python_s_own_error(given: Given) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        public.profile(given.path, speed=3)  # type: ignore[call-arg]


def test_public_functions_are_themselves_after_pickling() -> None:
    assert [getattr(public, name) for name in FUNCTIONS] == [
        pickle.loads(pickle.dumps(getattr(public, name)))  # noqa: S301  # made in this line
        for name in FUNCTIONS
    ]


def test_right_arguments_are_taken_in_all_their_forms(given: Given) -> None:
    assert public.read(str(given.path)) == public.read(given.path)
    names = public.select_nodes(given.path, ("0", "2"))
    assert names == public.select_nodes(given.path, ["0", "2"])
