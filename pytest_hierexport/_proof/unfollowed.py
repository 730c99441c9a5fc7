"""Finds what a model returns that depends on random numbers which it does not take from the graph.

In go the model with its inputs, and the file; out come the places in what the model returns that differ between two
runs, both with the graph's choices, by :func:`drawn_anew`. `torch.bernoulli(p)` leaves such numbers, where `p` depends
on an input.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import onnx.inliner

from pytest_hierexport._errors import UsageError
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._proof.choices import following_choices, has_choices
from pytest_hierexport._proof.eager import Mode, Runnable, run_model
from pytest_hierexport._proof.feeds import feeds_of
from pytest_hierexport._proof.session import run_graph
from pytest_hierexport._proof.tensors import returned_arrays

ADVICE = "make what the model draws at random an input, or state a known failure: each run draws these numbers anew"
"""The next step for the user, where a value depends on such numbers."""


def drawn_anew(example: Runnable, path: Path) -> set[str]:
    """Return the places, such as `output['logits']`, at which the model returns something else in each run.

    There are none where the model or the graph does not run.
    """
    proto = load_proto(path)
    inlined = onnx.inliner.inline_local_functions(proto) if proto.functions else proto
    try:
        run = partial(run_graph, inlined, feeds_of(example, inlined), folder=path.parent)
        with following_choices(inlined, run) if has_choices(inlined) else nullcontext(lambda: None) as restart:
            one = returned_arrays(run_model(example, Mode.PLAIN), len(proto.graph.output))
            restart()
            other = returned_arrays(run_model(example, Mode.PLAIN), len(proto.graph.output))
    except UsageError:
        return set()
    return {place for place, array in one.items() if place not in other or array.tobytes() != other[place].tobytes()}
