"""What the public functions say of an argument that is something else, and that they change nothing before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pytest_hierexport as public
from pytest_hierexport import Example, UsageError, export


class Tower(nn.Sequential):
    """A network, which is none of the things that the functions take."""


class Given:
    """A tagged file with all that functions take of it."""

    def __init__(self, folder: Path) -> None:
        self.net: Any = Tower(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval()
        self.path = folder / "net.onnx"
        self.any_path: Any = self.path
        self.nothing: Any = lambda *_: None
        self.example = Example(self.net, (torch.ones(1, 4),))
        self.export: Any = export(self.net, self.example.args, path=self.path)
        self.model, self.origins = self.export.model, self.export.attribution


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    torch.manual_seed(0)
    return Given(tmp_path_factory.mktemp("given"))


CALLS: dict[str, tuple[Callable[[Given], object], str]] = {
    "attach to an export": (lambda g: public.attach(g.export, g.origins), "of an export, its `model`"),
    "attach to a network": (lambda g: public.attach(g.net, g.origins), "class Tower"),
    "attach an export": (lambda g: public.attach(g.model, g.export), "of an export, its `attribution`"),
    "read a network": (lambda g: public.read(g.net), "the path of an ONNX file; found an object of the class Tower"),
    "read an export": (lambda g: public.read(g.export), "of an export, its `path`"),
    "rewrite an export": (lambda g: public.rewrite(g.export, lambda a: a), "of an export, its `path`"),
    "rewrite to nothing": (lambda g: public.rewrite(g.path, g.nothing), "class NoneType"),
    "save a network": (lambda g: public.save(g.net, g.origins, g.path), "class Tower"),
    "save to nowhere": (lambda g: public.save(g.model, g.origins, g.nothing()), "class NoneType"),
    "carry no origins": (lambda g: public.carry(g.model, g.export, g.model), "an Attribution"),
    "prove no origins": (lambda g: public.prove(g.example, g.model, g.export), "an Attribution"),
    "prove a network": (lambda g: public.prove(g.net, g.model, g.origins), "pass Example(model, args)"),
    "rename a path": (lambda g: public.rename_nodes(g.any_path, g.origins), "load the file with onnx.load"),
    "rename by an export": (lambda g: public.rename_nodes(g.model, g.export), "an Attribution"),
    "select a network": (lambda g: public.select_nodes(g.model, g.net), "a pattern for modules; found an object"),
    "select by an export": (lambda g: public.select_nodes(g.path, "*", attribution=g.export), "an Attribution"),
    "place on a network": (lambda g: public.place_nodes(g.model, "**", g.net), "the name of a device"),
    "annotate a path": (lambda g: public.annotate_nodes(g.net, "*", "cpu", attribution=g.origins), "class Tower"),
    "extract a network": (lambda g: public.extract(g.path, g.origins, g.net), "the path or the tag of a module call"),
    "extract by a network": (lambda g: public.extract(g.path, g.origins, "", g.net), "pass Example(model, args)"),
    "outline a network": (lambda g: public.modules_as_functions(g.path, g.origins, module=g.net), "a pattern"),
    "profile an export": (lambda g: public.profile(g.export), "of an export, its `path`"),
    "diverge on a network": (lambda g: public.diverge(g.path, g.path, g.net), "pass Example(model, args)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_argument_is_refused_in_words(name: str, given: Given) -> None:
    call, told = CALLS[name]
    before = {file.name: file.read_bytes() for file in given.path.parent.iterdir()}
    with pytest.raises(UsageError) as caught:
        call(given)
    assert told in " ".join(str(caught.value).split())
    assert {file.name: file.read_bytes() for file in given.path.parent.iterdir()} == before


def test_right_arguments_are_taken_in_all_their_forms(given: Given) -> None:
    assert public.read(str(given.path)) == public.read(given.path)
    names = public.select_nodes(given.path, ("0", "2"))
    assert names == public.select_nodes(given.path, ["0", "2"])
