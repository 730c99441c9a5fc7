"""Makes a case of a transformers checkpoint: a folder that `save_pretrained` wrote, or its `config.json` alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hierexport._cases.case import Case
from pytest_hierexport._errors import CollectError, UsageError, in_words, not_installed

_CONFIG = "config.json"
_WEIGHTS = ("*.safetensors", "*.bin")


def checkpoint_case(path: Path, source: str) -> Case:
    """Return the case of a checkpoint folder, or of its configuration file.

    The weights of a folder are kept; a configuration alone gives random weights.

    Raises:
        UsageError: The path is no such folder.
    """
    config = path / _CONFIG if path.is_dir() else path
    if config.name != _CONFIG or not config.is_file():
        raise UsageError(
            f"a checkpoint folder with a {_CONFIG}",
            found=str(path),
            do="name a folder that save_pretrained wrote, or a function: file.py::factory",
        )
    folder = config.parent
    weights = [file for pattern in _WEIGHTS for file in sorted(folder.glob(pattern))] if path.is_dir() else []
    return Case(
        folder.name,
        partial(load_checkpoint, folder, weights=bool(weights)),
        source,
        randomise=not weights,
        files=(config, *weights),
    )


def is_checkpoint(case: Case) -> bool:
    """Whether a case is that of a checkpoint, which transformers loads."""
    return isinstance(case.factory, partial) and case.factory.func is load_checkpoint


def with_remote_code(case: Case) -> Case | None:
    """Return the case with permission to run the checkpoint's code; None for a case of another kind."""
    if not is_checkpoint(case):
        return None
    load: Callable[..., Any] = case.factory
    return replace(case, factory=partial(load, trust_remote_code=True))


def load_checkpoint(folder: Path, *, weights: bool, trust_remote_code: bool = False) -> Any:
    """Load the model of a checkpoint, without inputs; nothing is downloaded.

    Raises:
        CollectError: transformers is missing or cannot load the folder.
    """
    try:
        import transformers
    except ImportError:
        raise not_installed("transformers", "to load a checkpoint") from None
    from pytest_hierexport._cases.weightless import building_without_weights

    weights = weights and not building_without_weights()
    try:
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
        model = _model(transformers, config, folder, weights=weights, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise _not_loaded(folder, error, trust_remote_code=trust_remote_code) from error
    return model.eval()


def _model(transformers: Any, config: Any, folder: Path, *, weights: bool, trust_remote_code: bool) -> Any:
    """Load the checkpoint's own class, that of transformers which the configuration names, or AutoModel's choice."""
    own = _own_class(transformers, config) if trust_remote_code else None
    stated = _stated_class(transformers, config) if own is None else None
    if stated is not None:
        return stated.from_pretrained(folder, config=config, local_files_only=True) if weights else stated(config)
    auto = own or transformers.AutoModel
    if weights:
        return auto.from_pretrained(folder, config=config, local_files_only=True, trust_remote_code=trust_remote_code)
    return auto.from_config(config, trust_remote_code=trust_remote_code)


def _stated_class(transformers: Any, config: Any) -> Any:
    """Return the class that the configuration names, from transformers or the module of AutoModel's choice."""
    beside = None
    if type(config) in transformers.MODEL_MAPPING:
        beside = sys.modules[transformers.MODEL_MAPPING[type(config)].__module__]
    names = getattr(config, "architectures", None) or []
    found = (getattr(home, name, None) for name in names for home in (transformers, beside))
    return next((cls for cls in found if hasattr(cls, "from_pretrained")), None)


def _own_class(transformers: Any, config: Any) -> Any:
    """Return the auto class that the checkpoint maps its code to, first for the class that the configuration names."""
    mapped, names = getattr(config, "auto_map", None) or {}, getattr(config, "architectures", None) or []

    def is_other(auto: str) -> tuple[bool, bool]:
        return str(mapped[auto]).rpartition(".")[2] not in names, auto != "AutoModel"

    autos = (getattr(transformers, name, None) for name in sorted(mapped, key=is_other))
    return next((auto for auto in autos if hasattr(auto, "from_config")), None)


def _not_loaded(folder: Path, error: Exception, *, trust_remote_code: bool) -> CollectError:
    if _has_code(folder) and not trust_remote_code:
        return CollectError(
            f"a model of transformers in {folder}",
            found=f"a checkpoint with its own code, which is not run, and {in_words(error)}",
            do="where it needs that code, read it, then state trust_remote_code = true for it in a manifest "
            "(models.toml); else repair the checkpoint",
        )
    return CollectError(
        f"transformers to load {folder}",
        found=in_words(error),
        do="repair the checkpoint, or write a factory that loads it",
    )


def _has_code(folder: Path) -> bool:
    try:
        return "auto_map" in json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
