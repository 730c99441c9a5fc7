"""Builds models of time series."""

from __future__ import annotations

import torch
import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import ENCODER_DECODER, numbers, padding, tiny

_PATCHED = {"num_input_channels": 3, "context_length": 24, "patch_length": 6, "patch_stride": 6, "d_model": 16}


def patchtst() -> Example:
    """Channels kept apart as rows of the batch; patches along time; series scaled and scaled back."""
    model = tiny(transformers.PatchTSTForPrediction, **_PATCHED, ffn_dim=32, prediction_length=4)
    return Example(model, kwargs={"past_values": numbers(2, 24, 3)})


def patchtsmixer() -> Example:
    """Networks along patches and features in turn, each gated."""
    model = tiny(transformers.PatchTSMixerForPrediction, **_PATCHED, num_layers=2, prediction_length=4)
    return Example(model, kwargs={"past_values": numbers(2, 24, 3)})


def time_series_transformer() -> Example:
    """Past values at several lags, joined with features of the time; a decoder over the future."""
    sizes = {"prediction_length": 4, "context_length": 12, "num_time_features": 2, "scaling": "std"}
    model = tiny(transformers.TimeSeriesTransformerModel, **ENCODER_DECODER, **sizes)
    past = {
        "past_values": numbers(2, 19),
        "past_time_features": numbers(2, 19, 2),
        "past_observed_mask": torch.ones(2, 19),
    }
    future = {"future_values": numbers(2, 4), "future_time_features": numbers(2, 4, 2, seed=1)}
    return Example(model, kwargs={**past, **future})


def decision_transformer() -> Example:
    """Three inputs interleaved into one sequence, and taken apart again at the end."""
    model = tiny(transformers.DecisionTransformerModel, state_dim=5, act_dim=3, max_ep_len=32)
    steps = {"states": numbers(2, 6, 5), "actions": numbers(2, 6, 3), "returns_to_go": numbers(2, 6, 1, seed=2)}
    times = {"timesteps": torch.arange(6).repeat(2, 1), "rewards": numbers(2, 6, 1), "attention_mask": padding(6)}
    return Example(model, kwargs={**steps, **times})
