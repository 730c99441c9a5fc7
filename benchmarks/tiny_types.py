"""Small models with random weights of any transformers model type, from its configuration class alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import transformers

if TYPE_CHECKING:
    import torch

__all__ = ["build", "shrink"]

VOCABULARY = 128
# What a configuration calls its sizes, and how large each may stay; the first that fits counts.
LIMITS = (
    (r"(layers?|depth|blocks|stages)$|^n_layer|^num_.*layers", 2),
    (r"vocab_size", VOCABULARY),
    (r"(kv_heads|key_value_heads|num_groups)$|n_groups$", 1),
    (r"heads?$", 2),
    (r"experts_per_tok|top_?k$", 2),
    (r"experts?$", 4),
    (r"head_(dim|size)$|_head_dim$|^d_kv$|rank$", 16),
    (r"intermediate|ffn|_ff$|inner|mlp_dim", 64),
    (r"(hidden|embedding|embed|projection|model|state|conv|channel)s?_?(size|dim|channels?)?$|_dim$|^dim$|n_embd", 32),
    (r"image_size", 32),
    (r"patch_size", 8),
)


def build(model_type: str) -> torch.nn.Module:
    """Return a small model of a type; the case finds inputs for it.

    Raises:
        KeyError: transformers has no such type, or no model without a head for it.
    """
    config_class: Any = transformers.CONFIG_MAPPING[model_type]
    config = shrink(config_class())
    classes: Any = transformers.MODEL_MAPPING[type(config)]
    model_class = classes[0] if isinstance(classes, tuple | list) else classes
    model: torch.nn.Module = model_class(config)
    return model.eval()


def shrink(config: Any) -> Any:
    """Bring every size of a configuration, those of nested ones included, down to a few units; keep its kind."""
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig):
            shrink(value)
        elif name.endswith("token_id") and isinstance(value, int):
            setattr(config, name, value % VOCABULARY)
        elif isinstance(value, int) and not isinstance(value, bool):
            limit = next((limit for pattern, limit in LIMITS if re.search(pattern, name)), value)
            setattr(config, name, min(value, limit))
    if getattr(config, "use_cache", False):
        config.use_cache = False
    return config
