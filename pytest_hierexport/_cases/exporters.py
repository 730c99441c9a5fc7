"""Checks the exporter that a case names: one of this package, or a function of the project."""

from __future__ import annotations

from pathlib import Path

from pytest_hierexport._cases.factories import bring_in_reach, check_defined, file_of_spec, find_module
from pytest_hierexport._cases.neighbours import check_same
from pytest_hierexport._errors import UsageError, proposal
from pytest_hierexport._export.choices import EXPORTERS, is_own


def check_exporter(exporter: str, root: Path) -> str:
    """Return a valid exporter unchanged.

    Args:
        exporter: One of this package's, or `package.module:function`.
        root: A folder to search for that module besides `sys.path`.

    Raises:
        UsageError: No exporter has this name, or the module does not exist.
        CollectError: Another module has its name.
    """
    if is_own(exporter):
        check_function(exporter, root, "an exporter of your own")
    elif exporter not in EXPORTERS:
        raise UsageError(
            f"exporter to be {', '.join(EXPORTERS)}, or package.module:function for your own",
            found=repr(exporter),
            do=proposal(exporter, EXPORTERS),
        )
    return exporter


def check_function(name: str, root: Path, what: str) -> None:
    """Check that `package.module:function` names a function of a module that can be imported, without an import.

    Args:
        name: The name of the function.
        root: A folder to search for the module besides `sys.path`.
        what: The purpose of the function, for the message.

    Raises:
        UsageError: It does not.
        CollectError: `root` has such a module, but Python finds that of another folder of the project.
    """
    module, _, function = name.partition(":")
    found = bring_in_reach(module, root) if function else None
    if found is None:
        raise UsageError(
            f"package.module:function for {what}",
            found=f"{name}, and no module {module} on sys.path or in {root}" if function else name,
            do="name an installed module, or add its folder to PYTHONPATH (in a test run, or to pytest's pythonpath)",
        )
    if (file := file_of_spec(found)) is not None:
        # The folder of another manifest may be on the path before this one's.
        own = file_of_spec(find_module(module, root, root_first=True))
        check_same(module, own or file, file, "which comes first on sys.path")
        check_defined(file, function, "a function")
