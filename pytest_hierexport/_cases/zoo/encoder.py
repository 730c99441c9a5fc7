"""Builds text encoders."""

from __future__ import annotations

import torch
import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import LENGTH, SIZES, cast, dynamic, masked, tiny, tokens


def _segments() -> torch.Tensor:
    return (torch.arange(LENGTH) >= LENGTH // 2).long().repeat(2, 1)


def bert() -> Example:
    """The plain case: equal layers whose mask is computed once for all, positions that fold into a table."""
    return masked(tiny(transformers.BertModel), token_type_ids=_segments())


def bert_dynamic() -> Example:
    """Dynamic shapes: sizes are read from the inputs and feed every layer."""
    return dynamic(bert(), batch=None, length=SIZES["max_position_embeddings"])


def distilbert() -> Example:
    """A head on the body: modules of the root that run after, and below, the encoder's own."""
    sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
    return masked(tiny(transformers.DistilBertForSequenceClassification, **sizes))


def albert() -> Example:
    """Shared layers: one instance runs three times, and each run is a separate call."""
    model = tiny(transformers.AlbertModel, num_hidden_layers=3, embedding_size=16)
    return masked(model, token_type_ids=_segments())


def deberta_v2() -> Example:
    """Scripted functions inside the attention, and relative positions shared by all layers."""
    places = {"position_buckets": 8, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"}
    return masked(tiny(transformers.DebertaV2Model, relative_attention=True, **places))


def roberta() -> Example:
    """Positions counted from the token ids, and a head for each token."""
    return masked(tiny(transformers.RobertaForTokenClassification))


def mpnet() -> Example:
    """Relative positions computed once by the encoder for all layers; a head for masked tokens."""
    return masked(tiny(transformers.MPNetForMaskedLM))


def electra() -> Example:
    """A span head: one projection split into two outputs; embeddings narrower than the layers."""
    return masked(tiny(transformers.ElectraForQuestionAnswering, embedding_size=16, num_labels=2))


def modernbert() -> Example:
    """Global and local attention, each with its own mask and rotary table; layers that differ in their norms."""
    return masked(tiny(transformers.ModernBertForSequenceClassification, cls_token_id=1, sep_token_id=2))


def fnet() -> Example:
    """Fourier transforms in place of attention, without parameters."""
    return Example(tiny(transformers.FNetForSequenceClassification), kwargs={"input_ids": tokens()})


def squeezebert() -> Example:
    """Grouped convolutions in place of linear layers, on transposed values."""
    return masked(tiny(transformers.SqueezeBertModel, embedding_size=32))


def canine() -> Example:
    """Hashed characters; attention in local chunks, which are cut, attended one by one and joined."""
    return masked(tiny(transformers.CanineModel, num_hash_buckets=64, local_transformer_stride=4))


def bert_float16() -> Example:
    """Half precision in an encoder, with a GELU that loses digits next to zero."""
    return cast(bert(), torch.float16)
