"""Small models with random weights of any transformers model type, from its configuration class alone."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import torch
import transformers

from pytest_hierexport._cases.inputs import example_inputs
from pytest_hierexport._errors import CollectError

__all__ = ["build", "shrink"]

VOCABULARY = 128
MOST_PARAMETERS = 400_000_000
Limits: TypeAlias = tuple[tuple[str, int], ...]
# What a configuration calls its sizes, and how large each may stay; the first that fits counts.
LIMITS: Limits = (
    (r"(layers?|depth|blocks|stages)$|^n_layer|^num_.*layers", 2),
    (r"vocab_size", VOCABULARY),
    (r"num_groups$|n_groups$", 1),
    (r"heads?$", 2),
    (r"experts_per_tok|top_?k$", 2),
    (r"experts?$", 4),
    (r"head_(dim|size)$|_head_dim$|^d_kv$|rank$", 16),
    (r"intermediate|ffn|_ff$|inner|mlp_dim", 64),
    (r"(hidden|embedding|embed|projection|model|state|conv|channel)s?_?(size|dim|channels?)?$|_dim$|^dim$|n_embd", 32),
    (r"image_size", 32),
    (r"patch_size", 8),
)
SHARED_HEADS = ("kv_heads", "key_value_heads")
COUNTS = ("layers", "vocab", "experts?")
FEWER: Limits = tuple((pattern, limit) for pattern, limit in LIMITS if any(count in pattern for count in COUNTS))
"""The limits of how many layers, words and experts there are, not of how wide they are."""
NARROWER: Limits = tuple(
    (pattern, limit) for pattern, limit in LIMITS if "heads" not in pattern and "expert" not in pattern
)
"""The limits of all but how many heads and experts there are."""


def build(model_type: str) -> torch.nn.Module:
    """Return a small model of a type; the case finds inputs for it.

    The first that can be made and run is taken: with every size cut down, with as many heads and experts as its
    configuration says, with fewer layers, words and experts alone, or just as its configuration says.

    Raises:
        KeyError: transformers has no such type, or no model without a head for it.
        CollectError: Nothing that it can be made as runs on the inputs that are tried.
    """
    failure: Exception | None = None
    for limits in (LIMITS, NARROWER, FEWER, ()):
        try:
            model = _make(model_type, limits)
            example_inputs(model, model_type)
        except KeyError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever a model says of a configuration that does not suit it
            failure = failure or error
        else:
            return model
    raise CollectError(
        f"a small model of {model_type} that runs", found=f"{type(failure).__name__}: {failure}", do="leave it out"
    ) from failure


def _make(model_type: str, limits: Limits) -> torch.nn.Module:
    config_class: Any = transformers.CONFIG_MAPPING[model_type]
    config = shrink(config_class(), limits)
    classes: Any = transformers.MODEL_MAPPING[type(config)]
    model_class = classes[0] if isinstance(classes, tuple | list) else classes
    if limits is not LIMITS:
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in model_class(config).parameters())
        if size > MOST_PARAMETERS:
            raise ValueError(f"{size} parameters are no small model")
    model: torch.nn.Module = model_class(config)
    return model.eval()


def shrink(config: Any, limits: Limits) -> Any:
    """Bring the sizes of a configuration, those of nested ones included, down to their limits; keep its kind."""
    heads = getattr(config, "num_attention_heads", None)
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig):
            shrink(value, limits)
        elif limits and name.endswith("token_id") and isinstance(value, int):
            setattr(config, name, value % VOCABULARY)
        elif isinstance(value, int) and not isinstance(value, bool):
            limit = next((limit for pattern, limit in limits if re.search(pattern, name)), value)
            # Heads that share their keys and values go on sharing them; where each has its own, it keeps them.
            shared = limits is LIMITS and name.endswith(SHARED_HEADS) and heads != value
            setattr(config, name, 1 if shared else min(value, limit))
    if getattr(config, "use_cache", False):
        config.use_cache = False
    return config
