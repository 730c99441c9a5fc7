"""MUST-004: the ONNX checker passes, and ONNX Runtime loads the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_hierexport._rules.base import ExportedCase, Rule, Violation

_LONGEST = 400
_WORD = re.compile(r"[^\s'\"(),:;<>]+")


def _check(exported: ExportedCase) -> Iterator[Violation]:
    for tool, problem in (("the ONNX checker", _checker(exported)), ("ONNX Runtime", _runtime(exported))):
        if problem is not None:
            yield Violation(
                _where(exported, problem),
                f"a file that {tool} takes",
                " ".join(problem.replace(str(exported.path), exported.path.name).split())[:_LONGEST],
                "export again; where the exporter underneath makes this node so, report it there",
            )


def _loadable(exported: ExportedCase) -> str | bytes:
    """Return the path, for a file may be larger than any message.

    Of a model without weights, return the message that takes them as inputs: both tools ask for the data of a tensor.
    """
    from pytest_hierexport._onnx.absent import without_absent

    if exported.weightless:
        return bytes(without_absent(exported.proto).SerializeToString())
    return str(exported.path)


def _checker(exported: ExportedCase) -> str | None:
    """Run the full check, which infers every shape strictly."""
    import onnx

    try:
        onnx.checker.check_model(_loadable(exported), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        return str(error)
    return None


def _runtime(exported: ExportedCase) -> str | None:
    import onnxruntime as ort
    from onnxruntime.capi import onnxruntime_pybind11_state as states

    from pytest_hierexport._onnx.loading import options_to_load

    # What is asked is whether the graph loads, not what its optimizers make of it.
    options = options_to_load("DISABLE_ALL")
    try:
        ort.InferenceSession(_loadable(exported), options, providers=["CPUExecutionProvider"])
    except states.NotImplemented:
        # The graph is understood; the processor at hand has no kernel for one of its types.
        return None
    except Exception as error:  # noqa: BLE001  # its error classes share no base of their own
        return str(error)
    return None


def _where(exported: ExportedCase, problem: str) -> str:
    """Return the node that a message is about: one that it names, else one whose output or input it names."""
    from pytest_hierexport._onnx.graph import walk

    words = set(_WORD.findall(problem))
    nodes = list(walk(exported.proto))
    for named in (lambda node: [node.name], lambda node: node.output, lambda node: node.input):
        for key, node in nodes:
            if not words.isdisjoint(filter(None, named(node))):
                return exported.node(key)
    return exported.path.name


RULE = Rule("MUST-004", "the ONNX checker passes and ONNX Runtime loads the file", _check, deployed=True)
