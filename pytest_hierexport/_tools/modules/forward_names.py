"""Names the values at the boundary of a module call after the parameters of its `forward` and the parts of its result.

A file does not have these names. So the model and the graph run on the same inputs, as for a proof, and a value of the
graph gets the name of the argument or the part of the result that it equals:

    hidden_states                args[0], or a keyword           hidden_states
    position_embeddings[0]       an item of an argument          position_embeddings_0
    result.last_hidden_state     an attribute of the result      last_hidden_state
    result                       the result itself               output

Equal arguments, such as two states of zeros, are told apart on other inputs:

    example inputs    state_0 and state_1 equal the arguments hidden and memory, all zeros
    other inputs      state_0 equals memory, state_1 equals hidden
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._cases import Example
from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.models import as_proto

if TYPE_CHECKING:
    import onnx_ir as ir
    import torch

    from pytest_hierexport._proof.both_runs import BothRuns
    from pytest_hierexport._proof.eager import Runnable

_ARGUMENT = re.compile(r"\[0\]\[(\d+)\](.*)", re.DOTALL)
_KEYWORD = re.compile(r"\[1\](\['.*)", re.DOTALL)
_Place = tuple[str, str]
"""`input` or `output`, and the place among the arguments or in the result."""


@dataclass(frozen=True)
class _Match:
    """The arguments, or the parts of the result, that equal a value of the graph."""

    places: tuple[_Place, ...]
    contents: frozenset[bytes]
    """The digests of their elements."""
    constant: bool
    """Whether all elements are equal, so that many values would match."""


_Matches = Mapping["ir.Value", _Match]


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
) -> dict[ir.Value, _Match]:
    """Return the matches that name one place; where the example does not tell, other inputs do, if the model runs."""
    from pytest_hierexport._proof.prove import run_both

    with as_proto(model) as (message, folder):
        first = _find_matches(run_both(example, message, attribution, folder), call, values)
        if all(_is_certain(value, first) for value in first):
            return first
        second = None
        with suppress(UsageError):
            second = _find_matches(run_both(_on_other_inputs(example), message, attribution, folder), call, values)
    return _certain(first, second)


def _find_matches(runs: BothRuns, call: str, values: Mapping[str, Sequence[ir.Value]]) -> dict[ir.Value, _Match]:
    """Return the matches of inputs and outputs of a call; none for a value that equals nothing there."""
    eager = runs.calls.get(call)
    if eager is None:
        return {}
    places = {"input": eager.places, "output": eager.returned_places}
    found: dict[ir.Value, _Match] = {}
    for kind, listed in values.items():
        for value in listed:
            numbers = frozenset(runs.numbers(str(value.name)))
            equal = {place: own & numbers for place, own in places[kind].items() if own & numbers}
            if equal:
                prints = [runs.values[number] for number in frozenset().union(*equal.values())]
                contents = frozenset(each.digest() for each in prints)
                constant = any(each.constant for each in prints)
                found[value] = _Match(tuple((kind, place) for place in equal), contents, constant)
    return found


def _is_certain(value: ir.Value, matches: _Matches) -> bool:
    """Whether a value matches one place, which no other value matches, with elements that are not all equal."""
    return _is_only(value, matches) and not matches[value].constant


def _certain(first: _Matches, second: _Matches | None) -> dict[ir.Value, _Match]:
    """Return the matches that are certain by the runs on the example's inputs and on others, if it runs on these."""
    if second is None:
        return {value: match for value, match in first.items() if _is_only(value, first)}
    both: dict[ir.Value, _Match] = {}
    for value, match in first.items():
        again = second[value].places if value in second else ()
        places = tuple(place for place in match.places if place in again or _is_certain(value, first))
        if places:
            both[value] = replace(match, places=places)

    def is_equal(value: ir.Value) -> bool:
        """Whether a value equals all its places on both inputs, which differ, and no other one needs one of them."""
        sharing = [match.places for match in both.values() if not set(match.places).isdisjoint(both[value].places)]
        is_clear = len(sharing) == 1 or all(len(places) == 1 for places in sharing)
        return is_clear and value in second and first[value].contents.isdisjoint(second[value].contents)

    return {value: match for value, match in both.items() if _is_only(value, both) or is_equal(value)}


def _is_only(value: ir.Value, matches: _Matches) -> bool:
    places = matches[value].places
    others = (match.places for other, match in matches.items() if other is not value)
    return len(places) == 1 and not any(places[0] in other for other in others)


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
