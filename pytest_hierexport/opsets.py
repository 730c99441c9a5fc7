"""The ONNX opsets that can be asked for."""

from __future__ import annotations

from pytest_hierexport.errors import UsageError

__all__ = ["OLDEST", "check_opset"]

OLDEST = 7
"""The first opset that torch's exporters write."""


def check_opset(opset: int | None) -> int | None:
    """Return an opset that may be asked for as it is; None stands for the exporter's own choice.

    Raises:
        UsageError: The installed onnx does not define it, or torch's exporters never wrote it.
    """
    if opset is None:
        return None
    import onnx

    newest = onnx.defs.onnx_opset_version()
    if OLDEST <= opset <= newest:
        return opset
    raise UsageError(
        f"an opset from {OLDEST} to {newest}, the newest that the installed onnx defines",
        found=str(opset),
        do="ask for an opset in that range, or for none, which leaves it to the exporter",
    )
