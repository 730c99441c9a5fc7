"""Every model type that transformers has: does a capture export it, with proven tags and the model's numbers?

    python -m benchmarks.model_types --log types.jsonl [--only bert,gpt2] [--first 10] [--jobs 2] [--timeout 600]

Each type is built small from its configuration class (`benchmarks/tiny_types.py`). `benchmarks/outcomes.py` asks and
counts.
"""

from __future__ import annotations

import sys

from benchmarks.outcomes import Population


def all_types() -> list[str]:
    """Return every model type that transformers has a model without a head for."""
    import transformers

    return sorted({config.model_type for config in transformers.MODEL_MAPPING if config.model_type})


def _build(model_type: str) -> object:
    from benchmarks.tiny_types import build

    return build(model_type)


if __name__ == "__main__":
    raise SystemExit(Population("benchmarks.model_types", all_types, _build).main(sys.argv[1:]))
