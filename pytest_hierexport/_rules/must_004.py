"""MUST-004: the ONNX checker passes, and ONNX Runtime loads the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import onnx

from pytest_hierexport._errors import PackageError
from pytest_hierexport._onnx.absent import without_absent
from pytest_hierexport._onnx.graph import walk
from pytest_hierexport._onnx.loading import import_runtime, options_to_load, runtime_errors
from pytest_hierexport._rules.base import ExportedCase, Violation

_LONGEST = 400
_WORD = re.compile(r"[^\s'\"(),:;<>]+")


def check(exported: ExportedCase) -> Iterator[Violation]:
    model, step = _loadable(exported), exported.case.step
    do = f"correct the step {step}; where a tool in it" if step else "export again; where the exporter underneath"
    # The full check infers every shape strictly.
    check_fully = partial(onnx.checker.check_model, full_check=True)
    for tool, load in (("the ONNX checker", check_fully), ("ONNX Runtime", _load)):
        try:
            load(model)
        except PackageError:
            raise
        except Exception as error:  # noqa: BLE001  # ONNX Runtime's error classes share no base of their own
            yield Violation(
                _where(exported, str(error)),
                f"a file that {tool} takes",
                " ".join(str(error).replace(str(exported.path), exported.path.name).split())[:_LONGEST],
                f"{do} makes this node so, report it there",
            )


def _loadable(exported: ExportedCase) -> str | bytes:
    """Return the path, for a file may be larger than any message.

    Of a model without weights, return the message that takes them as inputs: both tools ask for the data of a tensor.
    """
    if exported.weightless:
        return bytes(without_absent(exported.proto).SerializeToString())
    return str(exported.path)


def _load(model: str | bytes) -> None:
    """Load the graph; whether its optimizers can work on it is not asked."""
    ort = import_runtime()
    # Of a graph that is understood, the processor at hand may lack a kernel for one of the types.
    with suppress(runtime_errors().NotImplemented):
        ort.InferenceSession(model, options_to_load("DISABLE_ALL"), providers=["CPUExecutionProvider"])


def _where(exported: ExportedCase, problem: str) -> str:
    """Return the node that a message is about: one that it names, else one whose output or input it names."""
    words = set(_WORD.findall(problem))
    nodes = list(walk(exported.proto))
    for named in (lambda node: [node.name], lambda node: node.output, lambda node: node.input):
        for key, node in nodes:
            if not words.isdisjoint(filter(None, named(node))):
                return exported.node(key)
    return exported.path.name
