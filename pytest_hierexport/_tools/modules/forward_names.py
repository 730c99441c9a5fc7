"""Names the values at the boundary of a module call after the parameters of its `forward` and the parts of its result.

A file does not have these names. So the model and the graph run on the same inputs, as for a proof, and a value of the
graph gets the name of the argument or the part of the result that it equals:

    hidden_states                args[0], or a keyword           hidden_states
    position_embeddings[0]       an item of an argument          position_embeddings_0
    result.last_hidden_state     an attribute of the result      last_hidden_state
    result                       the result itself               output

Equal arguments, such as two states of zeros, are told apart on other inputs.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._cases import Example
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.models import as_proto
from pytest_hierexport._tools.modules.matches import Match, certain, find_matches, is_certain

if TYPE_CHECKING:
    import onnx_ir as ir
    import torch

    from pytest_hierexport._proof.eager import Runnable

_ARGUMENT = re.compile(r"\[0\]\[(\d+)\](.*)", re.DOTALL)
_KEYWORD = re.compile(r"\[1\](\['.*)", re.DOTALL)


def forward_names(
    example: Runnable,
    model: ir.Model,
    attribution: Attribution,
    call: str,
    *,
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
) -> dict[ir.Value, str]:
    """Return the names of the inputs and outputs that equal an argument or a part of the result.

    A value that equals several of them on both inputs has the name of the first.

    Raises:
        UsageError: The model does not run, or its inputs are not those of the graph.
    """
    from pytest_hierexport._export.modules import Instances

    matches = _certain_matches(example, model, attribution, call, {"input": inputs, "output": outputs})
    instances = Instances(example.model)
    modules = {path: module for module in example.model.modules() for path in instances.paths(module)}
    module = modules.get(attribution.hierarchy[call].path)
    parameters: list[str] = []
    with suppress(TypeError, ValueError):  # TorchScript's methods have no signature
        parameters = [] if module is None else [*inspect.signature(module.forward).parameters]

    def name(kind: str, place: str) -> str:
        return _joined(_input(place, parameters) if kind == "input" else place, kind)

    return {value: name(*match.places[0]) for value, match in matches.items()}


def _certain_matches(
    example: Runnable, model: ir.Model, attribution: Attribution, call: str, values: Mapping[str, Sequence[ir.Value]]
) -> dict[ir.Value, Match]:
    """Return the matches that name one place; where the example does not tell, other inputs do, if the model runs."""
    from pytest_hierexport._proof.prove import run_both

    with as_proto(model) as (message, folder):
        first = find_matches(run_both(example, message, attribution, folder), call, values)
        if all(is_certain(value, first) for value in first):
            return first
        second = None
        with suppress(UsageError):
            second = find_matches(run_both(_on_other_inputs(example), message, attribution, folder), call, values)
    return certain(first, second)


def _input(place: str, parameters: Sequence[str]) -> str:
    """Replace the position or keyword at the begin of an input's place by the parameter: `[0][1][2]` → `mask[2]`."""
    if found := _ARGUMENT.fullmatch(place):
        i = int(found[1])
        return f"{parameters[i] if i < len(parameters) else f'args_{i}'}{found[2]}"
    found = _KEYWORD.fullmatch(place)
    return found[1] if found else place


def _joined(place: str, kind: str) -> str:
    """Join the words of a place to a name; `kind` is prefixed if the name would be empty or begin with a digit."""
    name = "_".join(re.findall(r"\w+", place))
    return name if name and not name[0].isdigit() else f"{kind}_{name}".rstrip("_")


def _on_other_inputs(example: Runnable) -> Example:
    """Return the model of an example with other inputs, the same ones in each run.

    To floating numbers, a random number between 0 and 1 is added. The elements of other tensors are rotated: any
    integer may be an index, so it stays within the range of the tensor. One tensor in several places stays one, since
    torch may have captured it as one.
    """
    import torch

    from pytest_hierexport._proof.tensors import walk

    inputs = (tuple(example.args), dict(example.kwargs))
    tensors = {id(part): part for _, part in walk(inputs) if isinstance(part, torch.Tensor)}
    random = torch.Generator().manual_seed(0)
    others = {key: _changed(tensor, i, random) for i, (key, tensor) in enumerate(tensors.items(), start=1)}
    args, kwargs = copy.deepcopy(inputs, others)
    return Example(example.model, args, kwargs)


def _changed(tensor: torch.Tensor, steps: int, random: torch.Generator) -> torch.Tensor:
    import torch

    from pytest_hierexport._proof.tensors import has_elements

    tensor = tensor.detach()
    if not has_elements(tensor) or tensor.is_quantized:
        return tensor.clone()
    if not tensor.is_floating_point():
        return tensor.flatten().roll(steps).reshape(tensor.shape)
    added = torch.rand(tensor.shape, generator=random)
    return (tensor.cpu().double() + added).to(tensor.device, tensor.dtype)
