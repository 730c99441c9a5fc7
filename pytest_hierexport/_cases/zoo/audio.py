"""Builds models of sounds and music."""

from __future__ import annotations

import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import numbers, tiny, tokens


def audio_spectrogram_transformer() -> Example:
    """Overlapping patches of a spectrogram, and a head on the mean of two tokens."""
    sizes = {"max_length": 32, "num_mel_bins": 16, "frequency_stride": 6, "time_stride": 6}
    return Example(tiny(transformers.ASTForAudioClassification, **sizes), kwargs={"input_values": numbers(2, 32, 16)})


def clap_audio() -> Example:
    """A spectrogram normed, resized and cut into an image; shifted windows."""
    sizes = {"num_mel_bins": 16, "spec_size": 32, "patch_size": 4, "patch_stride": [4, 4], "window_size": 4}
    layers = {"patch_embeds_hidden_size": 16, "depths": [1, 1], "num_attention_heads": [2, 4], "mlp_ratio": 2.0}
    model = tiny(transformers.ClapAudioModel, **sizes, **layers)
    return Example(model, kwargs={"input_features": numbers(2, 1, 64, 16)})


def musicgen() -> Example:
    """An embedding and a head for each codebook, summed at the start and stacked at the end."""
    model = tiny(transformers.MusicgenForCausalLM, num_codebooks=2, ffn_dim=64)
    return Example(model, kwargs={"input_ids": tokens().repeat_interleave(2, 0)})
