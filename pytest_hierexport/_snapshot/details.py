"""Lists what modules hold beside their operators, for detailed snapshots.

    /Net: Linear() 2, Linear.bias[4] 2, Linear.weight[4×4] 1, Linear.weight[4×4]=shared 1, uncalled:Head 1

A module without a segment in tags counts for the nearest module above it that has one, a parameter for the module that
declares it. `=shared` marks a tensor that another module declares as well, except at its first declaration.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from pytest_hierexport._calls.hierarchy import ROOT, Hierarchy
from pytest_hierexport._calls.modules import Module, Parameter
from pytest_hierexport._calls.names import encode_operator, is_torch_nn, upwards
from pytest_hierexport._snapshot.lines import LINE

_DETAIL = re.compile(r"(\]|\]=shared|\(\)) \d")
"""What ends the name of each detail that a plain snapshot lacks."""


def details(hierarchy: Hierarchy, modules: Iterable[Module]) -> dict[str, Counter[str]]:
    """Return how often each thing is held, by the name of the first call of the module that it counts for."""
    held: dict[str, Counter[str]] = {}
    for module in modules:
        owner = _owner(hierarchy, module.path)
        held.setdefault(owner, Counter()).update(_held(module, is_owner=owner == module.path))
    return held


def is_detailed(text: str) -> bool:
    """Whether a snapshot was written with details: operators with shapes, tensors, modules without a segment."""
    operators = (LINE.fullmatch(line) for line in text.splitlines())
    return any(_DETAIL.search(match["operators"] or "") for match in operators if match)


def _owner(hierarchy: Hierarchy, path: str) -> str:
    """Return the nearest module from a path upwards that has a segment and was called; the root where none has."""
    return next((above for above in upwards(path) if above in hierarchy and hierarchy.is_kept(above)), ROOT)


def _held(module: Module, *, is_owner: bool) -> Iterator[str]:
    name = "" if is_owner else encode_operator("", module.cls.rpartition(".")[2])
    if name:
        yield f"{name}()" if is_torch_nn(module.cls) else f"uncalled:{name}"
    for parameter in module.parameters:
        yield f"{name}.{_tensor(parameter)}"


def _tensor(parameter: Parameter) -> str:
    shape = "×".join(map(str, parameter.shape))
    shared = "" if parameter.shared is None else "=shared"
    return f"{encode_operator('', parameter.name)}[{shape}]{shared}"
