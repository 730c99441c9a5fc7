"""Wraps a model for `torch.onnx.export(dynamo=False)`, which accepts only tensors as inputs and outputs.

The adapter shares the model's dictionaries of submodules, parameters and buffers, so all names stay the same. For a
model whose inputs are positional tensors and whose outputs are tensors, the graph is the one that torch makes of the
model itself. `_rules/peer.py` has a second, independent version for the plain export.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from typing import Any

import torch
from torch.utils import _pytree as pytree

from pytest_hierexport._export.state import slots_of
from pytest_hierexport._text import numbered

_SHARED = ("_modules", "_parameters", "_buffers", "_non_persistent_buffers_set", "training")


class Adapter(torch.nn.Module):
    """Takes the tensors of a model's inputs, runs the model, and returns the tensors of its outputs."""

    places: tuple[str, ...]
    """For each tensor of the inputs, a unique name: the parameter of `forward` and the path in it (`cache.0.key`)."""
    arguments: Sequence[tuple[str, Any]]
    """The inputs with the names of `forward`'s parameters, in order."""
    input_names: list[str] | None
    """The names for the graph's inputs; None if all inputs are positional tensors, for which torch's names are used."""
    output_names: list[str]
    """The names for the graph's outputs, set while the model runs; empty where torch's names are used."""

    def __init__(self, model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Find the tensors in the inputs.

        Args:
            model: The model; it is not changed.
            args: Its positional inputs. A part that is not a tensor becomes a constant of the graph.
            kwargs: Its keyword inputs.

        Raises:
            TypeError: There are more positional inputs than the model takes.
        """
        super().__init__()
        names = _positional(model, len(args))
        if len(names) < len(args):
            raise TypeError(f"`forward` takes {len(names)} positional inputs; {len(args)} are given")
        arguments = [*zip(names, args, strict=True), *kwargs.items()]
        labels = [".".join((name, *path)) for name, value in arguments for path in _paths(value)]
        leaves, tree = pytree.tree_flatten((tuple(args), dict(kwargs)))
        held = [(leaf, list(_tensors(leaf, label))) for leaf, label in zip(leaves, labels, strict=True)]
        places = _unique([place for _, tensors in held for place, _ in tensors])
        plain = not kwargs and all(isinstance(value, torch.Tensor) for value in args)
        # `setattr` would register the model as a submodule, and could collide with the name of one.
        vars(self).update(
            {name: getattr(model, name) for name in _SHARED},
            places=places,
            arguments=arguments,
            input_names=None if plain else list(places),
            output_names=[],
            _model=model,
            _leaves=held,
            _tree=tree,
        )

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Copies of the inputs' tensors, in order: the model may write to them."""
        return tuple(tensor.detach().clone() for _, tensors in vars(self)["_leaves"] for _, tensor in tensors)

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Run the model."""
        own = vars(self)
        given = iter(tensors)
        # The memo makes `deepcopy` replace each example tensor by the tensor that is passed now.
        leaves = [copy.deepcopy(leaf, {id(tensor): next(given) for _, tensor in held}) for leaf, held in own["_leaves"]]
        args, kwargs = pytree.tree_unflatten(leaves, own["_tree"])
        output = own["_model"](*args, **kwargs)
        if _is_plain(output):
            return output
        found = list(_tensors(output))
        self.output_names[:] = _unique([place for place, _ in found], set(self.places))
        return tuple(tensor for _, tensor in found)


def _is_plain(output: Any) -> bool:
    """Whether torch itself flattens and names an output: a tensor, or a tuple or list of different tensors."""
    if isinstance(output, torch.Tensor):
        return True
    tensors = type(output) in (tuple, list) and all(isinstance(part, torch.Tensor) for part in output)
    return tensors and len({id(part) for part in output}) == len(output)


def _positional(model: torch.nn.Module, count: int) -> list[str]:
    """Return the names of the first parameters of the model's forward."""
    names: list[str] = []
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}.{i}" for i in range(count - len(names))]
        names.append(name)
    return names[:count]


def _paths(value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path to each leaf of a value: keys, indices and attributes; the leaf's number if torch has no path."""
    try:
        leaves, _ = pytree.tree_flatten_with_path(value)
    except ValueError:
        yield from ((str(i),) for i in range(len(pytree.tree_leaves(value))))
    else:
        yield from (tuple(map(_step, path)) for path, _ in leaves)


def _step(key: Any) -> str:
    """Return the key, index or attribute of one entry of a pytree path."""
    return str(getattr(key, fields(key)[0].name))


def _unique(places: Sequence[str], taken: AbstractSet[str] = frozenset()) -> tuple[str, ...]:
    """Return a unique name for each place; one that begins with a digit gets a prefix: torch refuses a bare number."""
    names: list[str] = []
    for place in places:
        base = place if place and not place[0].isdecimal() else f"output.{place}".rstrip(".")
        names.append(next(name for name in numbered(base, ".", 1) if name not in names and name not in taken))
    return tuple(names)


def _tensors(holder: Any, place: str = "", seen: frozenset[int] = frozenset()) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor in a container or object, with its path there."""
    if isinstance(holder, torch.Tensor):
        yield place, holder
    elif not isinstance(holder, (torch.nn.Module, type)) and id(holder) not in seen:
        for step, part in _parts(holder):
            yield from _tensors(part, f"{place}.{step}" if place else str(step), seen | {id(holder)})


def _parts(holder: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(holder, Mapping):
        yield from holder.items()
    elif isinstance(holder, (list, tuple)):
        yield from zip(getattr(holder, "_fields", range(len(holder))), holder, strict=True)
    elif not callable(holder):
        names = (*slots_of(type(holder)), *getattr(holder, "__dict__", ()))
        yield from ((name, getattr(holder, name, None)) for name in names)
