"""Runs a fragment of an exporter's source as an exporter of its own.

The fragment's last function is called for each node with what its first parameter is named after: the model, the
node's module `m`, its path, the node, the graph. What it says goes into the metadata of the node.
"""

from __future__ import annotations

import ast
import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import onnx_ir as ir
import torch
from torch import nn

import toy_models
from pytest_hierexport import Attribution, Call, Evidence, Hierarchy, Origin, attach, save, walk
from pytest_hierexport._calls.names import qualified_class
from pytest_hierexport._cases import Case, Example
from pytest_hierexport._rules.base import ExportedCase, Violation
from toys import breaks, case_of

__all__ = ["broken_by", "configured"]

_Function: TypeAlias = "tuple[Callable[..., Any], list[str]]"
"""A function with the names of its parameters."""

_OF_USER = {
    "table": {},
    "wanted": set(),
    "names": [],
    "parts": [],
    "number": 0,
    "trained": True,
    "kwargs": {},
    "d": {"key": 1},
    "config": {"query": 1},
    "exporter": "encoder",
    "files": "encoder pooler",
    "logger": logging.getLogger("encoder"),
    "tensor": SimpleNamespace(dtype=SimpleNamespace(name="value")),
    "props": {},
    "plugin": "os",
    "module_name": "json",
}
"""What a user gives for parameters of these names; an empty text for others."""


@cache
def configured() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return the toy model with a configuration, and its inputs; always the same ones."""
    model, args = toy_models.build()
    model.eval()
    vars(model)["config"] = SimpleNamespace(model_type="bert", architectures=["BertModel"], is_encoder_decoder=False)
    return model, args


def broken_by(file: Path) -> list[Violation]:
    """Return what MUST-001 finds in a fragment."""
    function = _last_function(file)

    def run(_: Case, example: Example, path: Path) -> None:
        _export(function, example.model, example.args, path)

    case = case_of(configured)
    example = case.load()
    path = file.with_suffix(".onnx")
    run(case, example, path)
    return breaks("MUST-001", ExportedCase(case, path, example, "own:export", exporter_source=file, exporter=run))


def _export(found: _Function, model: nn.Module, args: tuple[torch.Tensor, ...], path: Path) -> None:
    modules, origins = dict(model.named_modules()), {}
    traced = _traced(tuple((path, str(type(module))) for path, module in modules.items()))
    about_whole = _about_whole(model, traced)
    function, parameters = found
    for key, node in walk(traced.model):
        where = ast.literal_eval(node.metadata_props["pkg.torch.onnx.name_scopes"])[-2]
        origins[key] = (Origin(where, Evidence.TRACED),)
        about_node = {**dict.fromkeys(("path", "name", "component"), where), "node": _shown(node)}
        about_node |= {"scope": f"/{where.replace('.', '/')}", **dict.fromkeys(("m", "module"), modules[where])}
        values = {**_OF_USER, "args": args, **about_whole, **about_node}
        held = dict(model._modules)
        said = _said(function, *(values.get(name, "") for name in parameters))
        model._modules.update(held)  # a fragment may remove some
        answer = _of_place(said, where, modules) if about_whole.keys() & parameters[:1] else said
        node.metadata_props.pop("said", None)
        if answer:
            node.metadata_props["said"] = str(answer)
    calls = [
        Call(name, 0, _class(module), name.rpartition(".")[0] if name else None) for name, module in modules.items()
    ]
    attribution = Attribution(Hierarchy(calls), origins)
    written = ir.from_proto(ir.to_proto(traced.model))  # without what torch has written, which others still need
    attach(written, attribution)
    save(written, attribution, path)


@cache
def _traced(names: tuple[tuple[str, str], ...]) -> torch.onnx.ONNXProgram:
    """Export the model once under each of its names."""
    model, args = configured()
    assert names == tuple((path, str(type(module))) for path, module in model.named_modules())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own code, in the name of this file
        traced = torch.onnx.export(model, args, dynamo=True, verbose=False, optimize=False)
    assert traced is not None
    return traced


def _about_whole(model: nn.Module, traced: torch.onnx.ONNXProgram) -> dict[str, object]:
    """Return what a first parameter of these names is given."""
    graph = SimpleNamespace(
        node=[_shown(node) for node in traced.model.graph],
        initializer=[SimpleNamespace(name=name, data_type=1) for name in traced.model.graph.initializers],
        nodes=list(torch.fx.symbolic_trace(model).graph.nodes),
    )
    return {
        "model": model,
        "graph": graph,
        "proto": SimpleNamespace(graph=graph),
        "program": traced.exported_program,
    }


def _last_function(file: Path) -> _Function:
    """Return the last public function of a fragment, or the last method of its last class, with its parameters."""
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[file.stem]
    names, tree = vars(module), ast.parse(file.read_text(encoding="utf-8"))
    last = [each.name for each in tree.body if isinstance(each, (ast.FunctionDef, ast.ClassDef)) and each.name in names]
    found = names[next(name for name in reversed(last) if not name.startswith("_"))]
    if inspect.isclass(found):
        takes = len(inspect.signature(found).parameters)
        made = found(*[{}] * takes)
        own = (each for cls in reversed(found.__mro__) for each in vars(cls).items())
        found = getattr(made, [name for name, member in own if inspect.isfunction(member) and name[0] != "_"][-1])
    return found, list(inspect.signature(found).parameters)


def _said(function: Callable[..., Any], *given: object) -> Any:
    try:
        said = function(*given)
        return list(said) if isinstance(said, Iterator) else said
    except Exception:  # noqa: BLE001  # of the fragment, which then says nothing
        return None


def _of_place(said: Any, where: str, modules: dict[str, nn.Module]) -> object:
    """Return what an answer about the whole model says of one place in it."""
    if not isinstance(said, (list, dict, set)):
        return isinstance(said, (str, int, nn.Module)) and bool(said)
    places = [place for place in said if isinstance(place, str) and place in modules]
    return any(f"{where}.".startswith(f"{place}.") for place in places) if places else any(map(bool, said))


def _class(module: nn.Module) -> str:
    return qualified_class(type(module).__module__, type(module).__qualname__, type(module).__name__)


def _shown(node: Any) -> SimpleNamespace:
    """Return a node as protobuf and torch show it, with the name that TorchScript gives it."""
    inputs = [value.name for value in node.inputs]
    recorded = node.meta["node"].meta
    where = ast.literal_eval(node.metadata_props["pkg.torch.onnx.name_scopes"])[-2]
    name = "/".join(["", *where.split("."), node.op_type])
    return SimpleNamespace(
        name=name, op_type=node.op_type, input=inputs, metadata_props=node.metadata_props, meta=recorded
    )
