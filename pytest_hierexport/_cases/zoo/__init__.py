"""Lists the built-in cases: small random-weight models of many families, built from configurations.

Nothing is downloaded. A factory's module, with torch and transformers, is imported when the factory is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["ZOO", "Entry"]

_FACTORIES = {
    "encoder": (
        "bert",
        "bert_dynamic",
        "bert_float16",
        "distilbert",
        "albert",
        "deberta_v2",
        "roberta",
        "mpnet",
        "electra",
        "modernbert",
        "fnet",
        "squeezebert",
        "canine",
    ),
    "decoder": (
        "gpt2",
        "llama",
        "qwen3",
        "gemma3",
        "llama_dynamic",
        "llama_bfloat16",
        "llama_classifier",
        "qwen2",
        "gemma2",
        "olmo2",
        "gpt_neox",
        "phi",
        "cohere",
        "falcon",
        "bloom",
        "opt",
    ),
    "experts": (
        "mixtral",
        "qwen3_moe",
        "olmoe",
        "granitemoe",
        "deepseek_v3",
        "gpt_oss",
        "ernie4_5_moe",
    ),
    "encoder_decoder": (
        "t5",
        "bart",
        "umt5",
        "longt5",
        "marian",
        "m2m_100",
        "pegasus",
    ),
    "state_space": (
        "mamba",
        "mamba2",
        "falcon_mamba",
        "rwkv",
        "xlstm",
        "recurrent_gemma",
        "lfm2",
        "qwen3_next",
        "jamba",
    ),
    "vision": (
        "vit",
        "convnext",
        "resnet",
        "swin",
        "vit_dynamic",
        "vit_float16",
        "deit",
        "beit",
        "dinov2",
        "mobilenet_v2",
        "mobilevit",
        "pvt_v2",
        "poolformer",
    ),
    "detection": (
        "detr",
        "yolos",
        "owlvit",
        "segformer",
        "upernet",
        "glpn",
        "sam_vision",
    ),
    "text_image": (
        "clip",
        "siglip",
        "clipseg",
        "blip",
        "vilt",
        "layoutlm",
        "vision_encoder_decoder",
        "llava",
    ),
    "audio": (
        "audio_spectrogram_transformer",
        "clap_audio",
        "musicgen",
        "mimi",
    ),
    "speech": (
        "wav2vec2",
        "whisper_encoder",
        "hubert",
        "wavlm",
        "wav2vec2_bert",
        "parakeet",
        "whisper",
        "speech_to_text",
        "speecht5",
    ),
    "video": (
        "videomae",
        "timesformer",
        "vivit",
        "vjepa2",
        "xclip",
    ),
    "time_series": (
        "patchtst",
        "patchtsmixer",
        "time_series_transformer",
        "decision_transformer",
    ),
    "plain": (
        "nested",
        "sequential",
    ),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One case of the zoo."""

    name: str
    family: str
    factory: str
    """`package.module:function`, which takes no arguments and returns an :class:`~pytest_hierexport._cases.Example`."""


ZOO: Mapping[str, Entry] = MappingProxyType(
    {name: Entry(name, family, f"{__name__}.{family}:{name}") for family, names in _FACTORIES.items() for name in names}
)
"""Every case by its name, ordered by family."""
