"""Lists the built-in cases: small random-weight models of many families, built from configurations.

Nothing is downloaded. A factory's module, with torch and transformers, is imported when the factory is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["ZOO", "Entry"]

_FACTORIES = {
    "encoder": ("bert", "bert_dynamic", "distilbert", "albert", "deberta_v2"),
    "decoder": ("gpt2", "llama", "qwen3", "gemma3", "mixtral"),
    "encoder_decoder": ("t5", "bart"),
    "vision": ("vit", "convnext", "resnet", "swin"),
    "text_image": ("clip",),
    "audio": ("wav2vec2", "whisper_encoder"),
    "state_space": ("mamba",),
    "plain": ("nested", "sequential"),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One case of the zoo."""

    name: str
    family: str
    factory: str
    """`package.module:function`, which takes no arguments and returns an :class:`~pytest_hierexport._cases.Example`."""


ZOO: Mapping[str, Entry] = MappingProxyType(
    {name: Entry(name, family, f"{__name__}.{family}:{name}") for family, names in _FACTORIES.items() for name in names}
)
"""Every case by its name, ordered by family."""
