"""The exporter that a case asks for: one of this package, or a function of the project's own."""

from __future__ import annotations

import difflib
from pathlib import Path

from pytest_hierexport._cases.factories import bring_in_reach, check_defined, find_module
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.choices import EXPORTERS, is_own

__all__ = ["check_exporter"]


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
