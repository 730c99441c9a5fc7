"""Suppresses what torch prints and warns of while it exports."""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Iterator

import torch

from pytest_hierexport._export.patching import replaced


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress torch's progress messages and deprecation warnings: they do not concern the user."""
    loggers = [logging.getLogger(name) for name in ("torch", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        # torch prints the graph of a failed export to the terminal, whatever the log levels.
        with warnings.catch_warnings(), replaced(torch._C, "_jit_onnx_log", lambda *_: None):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def no_graphs_printed() -> Iterator[None]:
    """Keep torch from printing the graph of a run that failed: it does so where the model reads a tensor's value."""
    names: dict[str, object] = {}
    with contextlib.suppress(ImportError):
        names = vars(importlib.import_module("torch.export._trace"))
    names["print"] = lambda *_, **__: None  # of this module alone: the model may print
    try:
        yield
    finally:
        names.pop("print", None)
