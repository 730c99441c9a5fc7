"""Models of other libraries: does a capture export them, with proven tags and the model's numbers?

    python -m benchmarks.libraries --log libraries.jsonl [--only spandrel/SwinIR,timm/xcit] [--first 10] [--jobs 2]

`benchmarks/libraries.toml` states the models, small and without weights. Those whose library is not installed are
counted as not built; `benchmarks/libraries.txt` names the versions of the last run. `benchmarks/outcomes.py` asks and
counts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch

from benchmarks.matrix import read_toml
from benchmarks.outcomes import Population
from pytest_hierexport import Example

STATED = Path(__file__).with_suffix(".toml")
INPUT = re.compile(r"(?:(below) (\d+) )?(\d+(?:x\d+)*)")


@cache
def models() -> Mapping[str, Mapping[str, Any]]:
    """Return what is stated of each model, by its library and name."""
    stated = read_toml(STATED)
    return {f"{library}/{name}": row for library, rows in stated.items() for name, row in _rows(rows)}


def _rows(rows: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each model of a library with its row; a row with `names` states one model for each of them."""
    for name, row in rows.items():
        if "names" not in row:
            yield name, row
            continue
        option, names = row["names"]
        for each in names:
            yield each, {**row, "options": {**row.get("options", {}), option: each}}


def build(name: str) -> Example:
    """Return a model with its inputs.

    Raises:
        ImportError: Its library is not installed.
    """
    row = models()[name]
    return Example(_made(row), tuple(map(_input, row["inputs"])))


def _made(stated: Any) -> Any:
    """Make what is stated by a `make`, after what its arguments state; a list becomes a tuple, as most models ask."""
    if isinstance(stated, list):
        return tuple(map(_made, stated))
    if not isinstance(stated, Mapping) or "make" not in stated:
        return stated
    make = resolve_name(stated["make"])
    options = {name: _made(each) for name, each in stated.get("options", {}).items()}
    return make(*_made(stated.get("args", [])), **options, **dict.fromkeys(stated.get("none", ())))


def _input(stated: str) -> torch.Tensor:
    """Return a random input: of `1x3x32x32` floats from 0 to 1, of `below 100 1x16` integers."""
    found = INPUT.fullmatch(stated)
    if found is None:
        raise ValueError(f"{stated!r} in {STATED.name}; expected a shape such as 1x3x32x32, or `below 100 1x16`")
    _, limit, shape = found.groups()
    sizes = tuple(map(int, shape.split("x")))
    return torch.rand(sizes) if limit is None else torch.randint(int(limit), sizes)


if __name__ == "__main__":
    raise SystemExit(Population("benchmarks.libraries", lambda: list(models()), build).main(sys.argv[1:]))
