"""What an export may be asked for, checked before anything heavy is imported: the exporter and the opset."""

from __future__ import annotations

import difflib
from pathlib import Path

from pytest_hierexport._errors import UsageError

__all__ = ["EXPORTERS", "check_exporter", "check_opset", "is_own"]

EXPORTERS = ("auto", "dynamo", "transformers", "torchscript")
"""The exporters of this package; `auto` takes the first of the others that can."""
_OLDEST_OPSET = 7
"""The first opset that torch's exporters write."""


def is_own(exporter: str) -> bool:
    """Whether an exporter is a function of the project's own, `package.module:function`."""
    return ":" in exporter


def check_exporter(exporter: str, root: Path) -> str:
    """Return an exporter that may be asked for as it is.

    Args:
        exporter: One of this package's, or `package.module:function`.
        root: Where that module is looked for beside `sys.path`.

    Raises:
        UsageError: There is none of this name, or no such module.
    """
    if is_own(exporter):
        _check_module(exporter, root)
    elif exporter not in EXPORTERS:
        near = difflib.get_close_matches(exporter, EXPORTERS, n=1)
        raise UsageError(
            f"exporter to be {', '.join(EXPORTERS)}, or package.module:function for your own",
            found=repr(exporter) + (f" (nearest: {near[0]})" if near else ""),
            do="choose one of them",
        )
    return exporter


def _check_module(exporter: str, root: Path) -> None:
    from pytest_hierexport._cases.factories import bring_in_reach, check_defined, find_module

    module, _, function = exporter.partition(":")
    found = find_module(module, root) if function and bring_in_reach(module, root) else None
    if found is None:
        raise UsageError(
            "package.module:function for an exporter of your own",
            found=f"{exporter}, and no module {module} on sys.path or in {root}" if function else exporter,
            do="name an installed module, or add its folder to pytest's pythonpath",
        )
    if found.file is not None:
        check_defined(found.file, function, "a function")


def check_opset(opset: int | None) -> int | None:
    """Return an opset that may be asked for as it is; None stands for the exporter's own choice.

    Raises:
        UsageError: The installed onnx does not define it, or torch's exporters never wrote it.
    """
    if opset is None:
        return None
    import onnx

    newest = onnx.defs.onnx_opset_version()
    if _OLDEST_OPSET <= opset <= newest:
        return opset
    raise UsageError(
        f"an opset from {_OLDEST_OPSET} to {newest}, the newest that the installed onnx defines",
        found=str(opset),
        do="ask for an opset in that range, or for none, which leaves it to the exporter",
    )
