"""Builds models of speech."""

from __future__ import annotations

from typing import Any

import transformers
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import ENCODER_DECODER, numbers, tiny, tokens

_WAVES: dict[str, Any] = {
    "vocab_size": 32,
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}


def wav2vec2() -> Example:
    """A parametrised convolution (weight norm): a class made on the fly, a weight that is computed and folded."""
    return Example(tiny(transformers.Wav2Vec2Model, **_WAVES), kwargs={"input_values": numbers(2, 400)})


def whisper_encoder() -> Example:
    """Half of a model as the root, and a position table that is added whole."""
    config = transformers.WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=16,
    )
    return Example(WhisperEncoder(config).eval(), kwargs={"input_features": numbers(2, 8, 32)})


def hubert() -> Example:
    """Letters for each frame of a wave, to be aligned later."""
    return Example(tiny(transformers.HubertForCTC, **_WAVES), kwargs={"input_values": numbers(2, 400)})


def wavlm() -> Example:
    """A bias by relative place that the first layer computes, and each layer gates by its own input."""
    model = tiny(transformers.WavLMModel, **_WAVES, num_buckets=16, max_bucket_distance=16)
    return Example(model, kwargs={"input_values": numbers(2, 400)})


def wav2vec2_bert() -> Example:
    """Convolution and attention in one layer, between two halves of a network."""
    places = {"left_max_position_embeddings": 4, "right_max_position_embeddings": 4}
    sizes = {"feature_projection_input_dim": 8, "conv_depthwise_kernel_size": 5}
    model = tiny(transformers.Wav2Vec2BertForCTC, **sizes, **places)
    return Example(model, kwargs={"input_features": numbers(2, 16, 8)})


def parakeet() -> Example:
    """A spectrogram shortened by convolutions; relative places that are shifted into each row."""
    sizes = {"num_mel_bins": 16, "subsampling_conv_channels": 8, "subsampling_factor": 4, "conv_kernel_size": 5}
    return Example(tiny(transformers.ParakeetEncoder, **sizes), kwargs={"input_features": numbers(2, 64, 16)})


def whisper() -> Example:
    """Spectrogram to text: the whole model, its head tied to the embedding."""
    sizes = {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 64, "decoder_start_token_id": 1}
    model = tiny(transformers.WhisperForConditionalGeneration, **ENCODER_DECODER, **sizes)
    return Example(model, kwargs={"input_features": numbers(2, 8, 32), "decoder_input_ids": tokens(7)})


def speech_to_text() -> Example:
    """Gated convolutions before the encoder; sinusoidal positions on both sides."""
    sizes = {"input_feat_per_channel": 8, "conv_channels": 32, "max_source_positions": 64, "max_target_positions": 64}
    model = tiny(transformers.Speech2TextForConditionalGeneration, **ENCODER_DECODER, **sizes)
    return Example(model, kwargs={"input_features": numbers(2, 16, 8), "decoder_input_ids": tokens(7)})
