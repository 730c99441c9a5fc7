"""Builds the components that are deployed one by one, cut from generative models by transformers' own functions."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.exporters.utils import decompose_for_generation, decompose_multimodal

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import padding, tiny, tokens
from pytest_hierexport._cases.zoo.text_image import llava


def _step(name: str, model: Any, **inputs: torch.Tensor) -> Example:
    """Return a step of the generation of two tokens, with the cache that it is given."""
    model, inputs = decompose_for_generation(model, inputs)[name]
    return Example(model, kwargs=inputs)


def _llama(step: str) -> Example:
    # Text is continued at its end, so the padding stands before it.
    mask = padding().flip(1)
    return _step(step, tiny(transformers.LlamaForCausalLM, use_cache=True), input_ids=tokens(), attention_mask=mask)


def llama_prefill() -> Example:
    """The first step of a generation: fills an empty cache, which is an output."""
    return _llama("prefill")


def llama_decode() -> Example:
    """One token with a cache of keys and values: inputs and outputs that belong to single layers."""
    return _llama("decode")


def mamba_decode() -> Example:
    """One token with the states of convolution and scan: the scan is a single step."""
    return _step("decode", tiny(transformers.MambaForCausalLM, state_size=4, use_cache=True), input_ids=tokens(6))


def llava_decode() -> Example:
    """The decode step of a model for text and images, of which the vision tower has no call."""
    example = llava(use_cache=True)
    example.kwargs["attention_mask"] = torch.ones_like(example.kwargs["attention_mask"])
    return _step("decode", example.model, **example.kwargs)


def _part(name: str) -> Example:
    example = llava()
    whole: Any = example.model
    model, inputs = decompose_multimodal(whole, example.kwargs)[name]
    return Example(model, kwargs=inputs)


def llava_vision_encoder() -> Example:
    """The vision tower alone, with the hidden states of all layers as outputs."""
    return _part("image_encoder")


def llava_projector() -> Example:
    """A root of three modules between tower and decoder."""
    return _part("multi_modal_projector")


def llava_language_model() -> Example:
    """A decoder whose input is embedded already."""
    return _part("language_model")
