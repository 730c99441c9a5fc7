"""Checks the types of arguments of the public functions.

The functions check before they change anything: without a check, a wrong object would fail halfway through the work,
with an AttributeError.
"""

from __future__ import annotations

import os

from pytest_hierexport._calls.attribution import Attribution
from pytest_hierexport._errors import UsageError


def check_attribution(value: object) -> None:
    """Check that a value is an attribution.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, Attribution):
        raise _refused("an Attribution", value, "pass what read() returns; of an export, its `attribution`")


def check_ir(value: object) -> None:
    """Check that a value is an onnx_ir model.

    Raises:
        UsageError: It is not.
    """
    import onnx_ir as ir

    if not isinstance(value, ir.Model):
        raise _refused("an onnx_ir.Model", value, "pass onnx_ir.load(path); of an export, its `model`")


def check_graph(value: object) -> None:
    """Check that a value is an onnx_ir model or a protobuf message.

    Raises:
        UsageError: It is neither.
    """
    import onnx
    import onnx_ir as ir

    if not isinstance(value, ir.Model | onnx.ModelProto):
        raise _refused(
            "an onnx.ModelProto or an onnx_ir.Model",
            value,
            "load the file with onnx.load; of an export, pass its `model`",
        )


def check_example(value: object) -> None:
    """Check that a value is a PyTorch model with its inputs.

    Raises:
        UsageError: It is not.
    """
    if not hasattr(value, "args"):
        raise _refused("the model with the inputs to run it on", value, "pass Example(model, args)")


def check_text(value: object, expected: str, do: str) -> None:
    """Check that a value is a text.

    Args:
        value: What was passed.
        expected: For the error: the meaning of the text.
        do: For the error: what to pass.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, str):
        raise _refused(expected, value, do)


def check_path(value: object) -> None:
    """Check that a value is a path.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, str | os.PathLike):
        raise _refused("the path of an ONNX file", value, "pass a str or a pathlib.Path; of an export, its `path`")


def _refused(expected: str, value: object, do: str) -> UsageError:
    return UsageError(expected, found=f"an object of the class {type(value).__name__}", do=do)
