"""Makes a thin model: the modules of a model, with widths that a laptop can run and prove by value.

The smaller model comes from a configuration whose numbers are cut, or from a factory of the project.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

import torch

from pytest_hierexport._cases.example import Example
from pytest_hierexport._cases.thinning import Module, Sizes, structure, thin_config
from pytest_hierexport._errors import CollectError

_MOST = 200_000_000
"""The number of parameters from which a model is not thin: numbers are proven in float32, several times over."""


_found: dict[str, tuple[Callable[[], Any], Example]] = {}
"""What makes a thin model, and its inputs, by name and selector: to find it builds the real model, which takes long."""


def of_same_structure(name: str, source: str, real: Example, thin_source: str, thin: Example) -> Example:
    """Return the example of a smaller model, if it has the modules of the real one.

    Raises:
        CollectError: It has other modules.
    """
    pairs = zip_longest(structure(real.model), structure(thin.model))
    parted = next(((one, other) for one, other in pairs if one != other), None)
    if parted is not None:
        raise CollectError(
            f"the thin model of {name} ({thin_source}) to have the modules of {source}",
            found=f"{_shown(parted[1])} in place of {_shown(parted[0])}",
            do="make the model with the same modules and smaller widths",
        )
    return thin


def cut_example(name: str, source: str, load: Callable[[], Example]) -> Example:
    """Return the example of a model whose configuration's widths are cut; `load` makes the real one, without weights.

    Raises:
        CollectError: It is made from no configuration, or too large however its widths are cut.
    """
    key = f"{name} {source}"
    if key not in _found:
        real = load()
        built = partial(type(real.model), _sizes(f"{name} ({source})", real).config)
        _found[key] = built, replace(real, model=torch.nn.Identity())
    make, inputs = copy.deepcopy(_found[key])
    with torch.device("cpu"):
        return replace(inputs, model=make().eval())


def _sizes(shown: str, real: Example) -> Sizes:
    config = getattr(real.model, "config", None)
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(config, transformers.PretrainedConfig):
        raise CollectError(
            f"a configuration of {shown} whose widths can be cut",
            found=f"{type(real.model).__name__}, which is made from none of transformers",
            do='name a factory of the smaller model: thin = "my_model.py::small" in a manifest, Case(thin=...)',
        )
    sizes = thin_config(real, config)
    if sizes.parameters > _MOST:
        cut = ", ".join(f"{place} {was} to {now}" for place, (was, now) in sizes.cut.items()) or "nothing"
        raise CollectError(
            f"{shown} to run on its inputs with widths that a laptop can prove",
            found=f"{sizes.parameters:,} parameters after cutting {cut}",
            do='name a factory of the smaller model: thin = "my_model.py::small" in a manifest, Case(thin=...)',
        )
    return sizes


def _shown(module: Module | None) -> str:
    if module is None:
        return "no module"
    path, name, parameters = module
    ranks = ", ".join(f"{each} of rank {rank}" for each, rank in parameters) or "no parameters"
    return f"{path or 'the root'} ({name}, {ranks})"
