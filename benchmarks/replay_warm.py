"""Loads all that an export of a case needs, once, into the process that those of `benchmarks/replay.py` fork from."""

from __future__ import annotations

import warnings

import torch
import transformers  # noqa: F401  # used in the forked processes

import benchmarks.replay_case  # noqa: F401  # likewise

torch.set_num_threads(1)  # a process with threads cannot be forked safely
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.onnx.export(torch.nn.Linear(1, 1).eval(), (torch.ones(1, 1),), dynamo=True, verbose=False)
