"""Lists the built-in cases: small random-weight models of many families, built from configurations.

A case is a public function in the file of its family; its docstring says what other cases lack. The files are read
without an import: torch and transformers are imported when a factory is called. Nothing is downloaded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

__all__ = ["EXTRAS", "ZOO", "Entry"]

_FAMILIES = (
    "encoder",
    "decoder",
    "experts",
    "encoder_decoder",
    "state_space",
    "vision",
    "detection",
    "text_image",
    "audio",
    "speech",
    "video",
    "time_series",
    "components",
    "plain",
)
_EXTRAS = ("timm", "torchvision", "diffusers")
"""The families whose package, of the same name, is an extra of its own."""
_TOLERANCES = {
    "bert_float16": {"float16": 0.02},
    "vit_float16": {"float16": 0.02},
    "llama_bfloat16": {"bfloat16": 0.3},
}
"""Relative tolerances by dtype, of cases whose roundings add up over the layers; bfloat16 rounds by processor."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One case of the zoo."""

    name: str
    family: str
    factory: str
    """`package.module:function`, which takes no arguments and returns an :class:`~pytest_hierexport._cases.Example`."""
    special: str
    """What other cases lack, on one line."""
    tolerances: Mapping[str, float]
    extra: str = ""
    """The extra that it needs besides that of the zoo; its tests are skipped without."""


def _entries(family: str) -> Iterator[Entry]:
    tree = ast.parse(Path(__file__).with_name(f"{family}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            name, special = node.name, ast.get_docstring(node) or ""
            extra = family if family in _EXTRAS else ""
            yield Entry(name, family, f"{__name__}.{family}:{name}", special, _TOLERANCES.get(name, {}), extra)


ZOO: Mapping[str, Entry] = MappingProxyType({entry.name: entry for family in _FAMILIES for entry in _entries(family)})
"""Every case by its name, ordered by family."""
EXTRAS: Mapping[str, Entry] = MappingProxyType({entry.name: entry for family in _EXTRAS for entry in _entries(family)})
"""The cases of packages that are extras: selected by name or family alone, and skipped where they are not installed."""
