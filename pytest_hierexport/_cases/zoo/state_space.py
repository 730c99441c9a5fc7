"""Builds state space models."""

from __future__ import annotations

from transformers import MambaConfig, MambaModel

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import VOCABULARY, tokens


def mamba() -> Example:
    """A scan unrolled over the sequence: hundreds of similar operations in one module."""
    config = MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False)
    return Example(MambaModel(config).eval(), kwargs={"input_ids": tokens(length=6)})
