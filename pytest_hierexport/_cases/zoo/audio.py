"""Builds audio models."""

from __future__ import annotations

from transformers import Wav2Vec2Config, Wav2Vec2Model, WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import numbers


def wav2vec2() -> Example:
    """A parametrised convolution (weight norm): a class made on the fly, a weight that is computed and folded."""
    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    return Example(Wav2Vec2Model(config).eval(), kwargs={"input_values": numbers(2, 400)})


def whisper_encoder() -> Example:
    """Half of a model as the root, and a position table that is added whole."""
    config = WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=16,
    )
    return Example(WhisperEncoder(config).eval(), kwargs={"input_features": numbers(2, 8, 32)})
