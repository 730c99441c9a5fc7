from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from pytest_hierexport._cases import select
from pytest_hierexport._errors import CollectError

transformers = pytest.importorskip("transformers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def test_checkpoint_keeps_its_weights_and_gets_inputs_that_run(folder: Path) -> None:
    (case,) = select(["tiny/"], folder.parent)
    example = case.load()
    saved = transformers.BertModel.from_pretrained(folder)
    assert type(example.model) is type(saved)
    weights = saved.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in example.model.state_dict().items())
    assert example.model(**example.kwargs).last_hidden_state.shape[-1] == 16


def test_a_configuration_alone_gives_the_model_with_generic_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (case,) = select(["tiny"], folder.parent)
    biases = case.load().model.state_dict()["pooler.dense.bias"].tolist()
    assert len(set(biases)) == len(biases)


def test_inputs_other_than_text_are_found_from_the_configuration(tmp_path: Path) -> None:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4
    )
    transformers.ViTModel(config).save_pretrained(tmp_path / "vit")
    (case,) = select(["./vit"], tmp_path)
    assert {name: tuple(value.shape) for name, value in case.load().kwargs.items()} == {"pixel_values": (2, 3, 8, 8)}


def test_every_input_that_a_model_cannot_do_without_is_found(tmp_path: Path) -> None:
    vision = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.CLIPConfig(
        text_config={**vision, "vocab_size": 32, "max_position_embeddings": 16, "eos_token_id": 1},
        vision_config={**vision, "image_size": 8, "patch_size": 4},
    )
    transformers.CLIPModel(config).save_pretrained(tmp_path / "clip")
    (case,) = select(["./clip"], tmp_path)
    assert {"input_ids", "pixel_values"} <= set(case.load().kwargs)


OWN_CODE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel

class OwnConfig(PretrainedConfig):
    model_type = "a_type_of_its_own"

class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    def __init__(self, config):
        super().__init__(config)
        self.table = torch.nn.Embedding(64, 4)
        self.post_init()
    def forward(self, input_ids: torch.LongTensor):
        return self.table(input_ids)
"""


def write_own_code(folder: Path, code: str = OWN_CODE) -> None:
    folder.mkdir()
    (folder / "own.py").write_text(code)
    config = {
        "model_type": "a_type_of_its_own",
        "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"},
    }
    (folder / "config.json").write_text(json.dumps(config))


def test_a_checkpoint_s_own_code_is_not_run(tmp_path: Path) -> None:
    write_own_code(tmp_path / "own")
    (case,) = select(["./own"], tmp_path)
    with pytest.raises(CollectError, match=r"with its own code(.|\n)*trust_remote_code = true"):
        case.load()


def test_broken_checkpoint_with_code_is_quoted_too(folder: Path) -> None:
    stated = folder / "config.json"
    stated.write_text(json.dumps(json.loads(stated.read_text()) | {"auto_map": {"AutoModel": "own.OwnModel"}}))
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")
    (case,) = select(["tiny"], folder.parent)
    with pytest.raises(CollectError, match=r"SafetensorError(.|\n)*else repair the checkpoint"):
        case.load()


def test_a_manifest_may_trust_a_checkpoint_s_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    write_own_code(tmp_path / "own")
    (tmp_path / "models.toml").write_text('[models.own]\nmodel = "./own"\ntrust_remote_code = true\n')
    (case,) = select(["models.toml"], tmp_path)
    assert type(case.load().model).__name__ == "OwnModel"


@pytest.mark.parametrize(
    ("name", "auto"), [("OwnHead", "AutoModelForMaskedLM"), ("BertModel", "AutoModelForSequenceClassification")]
)
def test_trusted_code_is_that_of_the_named_class(
    name: str, auto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    write_own_code(tmp_path / "own", f"{OWN_CODE}\nclass {name}(OwnModel): ...\n")
    stated = tmp_path / "own" / "config.json"
    config = json.loads(stated.read_text())
    config |= {"architectures": [name], "auto_map": {**config["auto_map"], auto: f"own.{name}"}}
    stated.write_text(json.dumps(config))
    (tmp_path / "models.toml").write_text('[models.own]\nmodel = "./own"\ntrust_remote_code = true\n')
    (case,) = select(["models.toml"], tmp_path)
    built = type(case.load().model)
    assert (built.__name__, built.__module__.rpartition(".")[2]) == (name, "own")


def test_a_manifest_states_inputs_that_cannot_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    write_own_code(tmp_path / "own", OWN_CODE.replace("return", "assert input_ids.shape == (7, 3); return"))
    manifest = tmp_path / "models.toml"
    manifest.write_text('[models.own]\nmodel = "./own"\ntrust_remote_code = true\n')
    with pytest.raises(CollectError, match=r"state \[models\.NAME\.inputs\]"):
        select(["models.toml"], tmp_path)[0].load()
    with manifest.open("a") as file:
        file.write('inputs.input_ids = { shape = [7, 3], dtype = "int64", high = 64 }\n')
    assert select(["models.toml"], tmp_path)[0].load().kwargs["input_ids"].shape == (7, 3)


def test_a_broken_checkpoint_is_quoted(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "no such type"}))
    (case,) = select(["tiny"], folder.parent)
    with pytest.raises(CollectError, match=r"transformers to load .*tiny"):
        case.load()
