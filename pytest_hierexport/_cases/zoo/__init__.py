"""Lists the built-in cases: small random-weight models of many families, built from configurations.

Nothing is downloaded. A factory's module, with torch and transformers, is imported when the factory is called.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
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
    "components": (
        "llama_prefill",
        "llama_decode",
        "mamba_decode",
        "llava_decode",
        "llava_vision_encoder",
        "llava_projector",
        "llava_language_model",
    ),
    "plain": (
        "nested",
        "nested_dynamic",
        "sequential",
        "conditional",
        "scan",
        "tied",
        "recurrent",
    ),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One case of the zoo."""

    name: str
    family: str
    factory: str
    """`package.module:function`, which takes no arguments and returns an :class:`~pytest_hierexport._cases.Example`."""

    @property
    def special(self) -> str:
        """What other cases lack: the first line of the factory's docstring, read without an import."""
        return _docstrings(self.family)[self.name]


@cache
def _docstrings(family: str) -> Mapping[str, str]:
    tree = ast.parse(Path(__file__).with_name(f"{family}.py").read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {function.name: (ast.get_docstring(function) or "").partition("\n")[0] for function in functions}


ZOO: Mapping[str, Entry] = MappingProxyType(
    {name: Entry(name, family, f"{__name__}.{family}:{name}") for family, names in _FACTORIES.items() for name in names}
)
"""Every case by its name, ordered by family."""
