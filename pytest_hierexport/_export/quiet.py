"""Suppresses what torch prints and warns of while it exports."""

from __future__ import annotations

import contextlib
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
