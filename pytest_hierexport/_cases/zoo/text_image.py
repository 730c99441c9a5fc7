"""Builds models of text and images."""

from __future__ import annotations

import torch
import transformers

from pytest_hierexport._cases import Example
from pytest_hierexport._cases.zoo._inputs import (
    PATCHES,
    TEXT,
    VOCABULARY,
    images,
    masked,
    numbers,
    padding,
    tiny,
    tokens,
)


def clip() -> Example:
    """Two towers whose layers share class and number, several inputs and outputs, outputs inside outputs."""
    model = tiny(transformers.CLIPModel, text_config=TEXT, vision_config=PATCHES, projection_dim=16)
    inputs = {"input_ids": tokens(), "pixel_values": numbers(2, 3, 32, 32), "attention_mask": padding()}
    return Example(model, kwargs=inputs)


def siglip() -> Example:
    """Attention pooling by a learned probe, through torch's own attention."""
    model = tiny(transformers.SiglipModel, text_config={**TEXT, "projection_size": 32}, vision_config=PATCHES)
    return images(model, input_ids=tokens())


def blip() -> Example:
    """A caption: a decoder that reads the patches of the image by cross-attention."""
    text = {**TEXT, "encoder_hidden_size": 32, "sep_token_id": 2}
    model = tiny(transformers.BlipForConditionalGeneration, text_config=text, vision_config=PATCHES)
    return images(model, input_ids=tokens(), attention_mask=padding())


def layoutlm() -> Example:
    """Words with their places on a page: six tables, two of them read twice."""
    boxes = torch.randint(0, 60, (*tokens().shape, 4), generator=torch.Generator().manual_seed(0)).cumsum(-1)
    return masked(tiny(transformers.LayoutLMForTokenClassification, max_2d_position_embeddings=256), bbox=boxes)


def vision_encoder_decoder() -> Example:
    """Two models of different kinds, of which the one reads the other."""
    decoder = tiny(transformers.BertLMHeadModel, is_decoder=True, add_cross_attention=True)
    model = transformers.VisionEncoderDecoderModel(encoder=tiny(transformers.ViTModel), decoder=decoder)
    return images(model, decoder_input_ids=tokens(7))


def llava(*, use_cache: bool = False) -> Example:
    """Patches put in the place of image tokens in a decoder's input."""
    image_token, patches = VOCABULARY - 1, 16
    model = tiny(
        transformers.LlavaForConditionalGeneration,
        text_config=transformers.LlamaConfig(**TEXT, use_cache=use_cache),
        vision_config=transformers.CLIPVisionConfig(**PATCHES),
        image_token_index=image_token,
        vision_feature_layer=-1,
        use_cache=use_cache,
    )
    ids = torch.cat([torch.full((2, patches), image_token), tokens().clamp(max=image_token - 1)], dim=1)
    mask = torch.cat([torch.ones(2, patches, dtype=torch.int64), padding()], dim=1)
    return images(model, input_ids=ids, attention_mask=mask)
