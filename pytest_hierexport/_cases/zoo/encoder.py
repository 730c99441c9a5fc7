"""Builds text encoders."""

from __future__ import annotations

import torch
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    DistilBertConfig,
    DistilBertForSequenceClassification,
)

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import LENGTH, SIZES, VOCABULARY, masked


def _segments() -> torch.Tensor:
    return (torch.arange(LENGTH) >= LENGTH // 2).long().repeat(2, 1)


def bert() -> Example:
    """The plain case: equal layers whose mask is computed once for all, positions that fold into a table."""
    return masked(BertModel(BertConfig(**SIZES)), token_type_ids=_segments())


def bert_dynamic() -> Example:
    """Dynamic shapes: sizes are read from the inputs and feed every layer."""
    example = bert()
    dimensions = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=SIZES["max_position_embeddings"])}
    example.dynamic_shapes = dict.fromkeys(example.kwargs, dimensions)
    return example


def distilbert() -> Example:
    """A head on the body: modules of the root that run after, and below, the encoder's own."""
    config = DistilBertConfig(
        vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64, num_labels=3
    )
    return masked(DistilBertForSequenceClassification(config))


def albert() -> Example:
    """Shared layers: one instance runs three times, and each run is a separate call."""
    config = AlbertConfig(**{**SIZES, "num_hidden_layers": 3}, embedding_size=16)
    return masked(AlbertModel(config), token_type_ids=_segments())


def deberta_v2() -> Example:
    """Scripted functions inside the attention, and relative positions shared by all layers."""
    config = DebertaV2Config(
        **SIZES, relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm"
    )
    return masked(DebertaV2Model(config))
