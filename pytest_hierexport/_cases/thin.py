"""Makes the case of a thin model: the modules of a case, with widths that a laptop can run and prove by value.

The smaller model comes from a configuration whose numbers are cut, or from a factory of the project.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import torch

from pytest_hierexport._cases.case import Case, Example
from pytest_hierexport._cases.thinning import Module, Sizes, structure, thin_config
from pytest_hierexport._errors import CollectError

__all__ = ["thin_case"]

_MOST = 200_000_000
"""The number of parameters from which a model is not thin: numbers are proven in float32, several times over."""


@dataclass(frozen=True)
class _Found:
    """How the thin model of a case is made."""

    make: Callable[[], Any]
    inputs: Example


_found: dict[str, _Found] = {}
"""By the case, in this process: to find it builds the real model, and takes a while."""


def thin_case(case: Case) -> Case:
    """Return the case of the thin model, which has weights.

    Its factory raises a CollectError where the model cannot be made thin, or the smaller model has other modules.
    """
    made = partial(_from_configuration, case) if case.thin is None else partial(_from_factory, case, case.thin)
    return replace(case, factory=made, weights="full", thin=None)


def _from_factory(case: Case, thin: Case) -> Example:
    # The case that this is a part of says what becomes of the weights.
    example = replace(thin, randomise=False).load()
    real, found = structure(_real(case).model), structure(example.model)
    parted = next(((one, other) for one, other in zip_longest(real, found) if one != other), None)
    if parted is not None:
        raise CollectError(
            f"the thin model of {case.name} ({thin.source}) to have the modules of {case.source}",
            found=f"{_shown(parted[1])} in place of {_shown(parted[0])}",
            do="make the model with the same modules and smaller widths",
        )
    return example


def _from_configuration(case: Case) -> Example:
    key = f"{case.name} {case.source}"
    if key not in _found:
        real = _real(case)
        make = partial(type(real.model), _sizes(case, real).config)
        _found[key] = _Found(make, replace(real, model=torch.nn.Identity()))
    found = copy.deepcopy(_found[key])
    with torch.device("cpu"):
        return replace(found.inputs, model=found.make().eval())


def _sizes(case: Case, real: Example) -> Sizes:
    config = getattr(real.model, "config", None)
    if not _is_configuration(config):
        raise CollectError(
            f"a configuration of {case.name} ({case.source}) whose widths can be cut",
            found=f"{type(real.model).__name__}, which is made from none of transformers",
            do='name a factory of the smaller model: thin = "my_model.py::small" in a manifest, Case(thin=...)',
        )
    sizes = thin_config(real, config)
    if sizes.parameters > _MOST:
        cut = ", ".join(f"{place} {was} to {now}" for place, (was, now) in sizes.cut.items()) or "nothing"
        raise CollectError(
            f"{case.name} ({case.source}) to run on its inputs with widths that a laptop can prove",
            found=f"{sizes.parameters:,} parameters after cutting {cut}",
            do='name a factory of the smaller model: thin = "my_model.py::small" in a manifest, Case(thin=...)',
        )
    return sizes


def _is_configuration(config: object) -> bool:
    try:
        from transformers import PretrainedConfig
    except ImportError:
        return False
    return isinstance(config, PretrainedConfig)


def _real(case: Case) -> Example:
    return replace(case, weights="none", thin=None).load()


def _shown(module: Module | None) -> str:
    if module is None:
        return "no module"
    path, name, parameters = module
    ranks = ", ".join(f"{each} of rank {rank}" for each, rank in parameters) or "no parameters"
    return f"{path or 'the root'} ({name}, {ranks})"
