"""The MUST rules as assertions, for tests of the project's own.

Each takes what the fixtures `hierexport` and `hierexport_export` give; those that look at the file alone take the
path of a tagged ONNX file too.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from traceback import walk_stack

from pytest_hierexport._errors import NoVerdictError
from pytest_hierexport._requests import checked
from pytest_hierexport._rules import registry
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._rules.messages import broken
from pytest_hierexport._text import printable

__all__ = [
    "assert_checker_passes",
    "assert_every_node_attributed",
    "assert_exports_repeat",
    "assert_file_and_sidecar_agree",
    "assert_graph_untouched",
    "assert_no_hardcoded_names",
    "assert_no_torch_nn_tags",
    "assert_nothing_leaks",
    "assert_numbers_agree",
    "assert_rule",
    "assert_tags_proven",
]


@checked
def assert_rule(exported: ExportedCase | str | Path, rule: str) -> None:
    """Assert that an export keeps a built-in rule.

    Args:
        exported: An export, or the path of a tagged ONNX file.
        rule: The rule's id, `MUST-002`.

    Warns:
        UserWarning: The rule is neither kept nor broken: there is nothing to compare the export with.

    Raises:
        AssertionError: The export breaks the rule; the message says where, what was expected, what was found and
            what to do.
        UsageError: No rule has this id, or it needs the model and only a file is given.
    """
    __tracebackhide__ = True
    case = ExportedCase.of_file(Path(exported)) if isinstance(exported, (str, Path)) else exported
    found = next(known for known in registry.rules([rule]) if known.id == rule)
    try:
        violations = found.violations(case)
    except NoVerdictError as error:
        warnings.warn(printable(f"{rule} is neither kept nor broken: {error.found}"), stacklevel=_frames_of_package())
        return
    if violations:
        raise AssertionError(printable(broken(found, case.case.name, violations)))


def _frames_of_package() -> int:
    """Return how many frames lie between the line of the caller's code and this function."""
    names = (frame.f_globals.get("__name__", "") for frame, _ in walk_stack(sys._getframe(1)))
    return 1 + next((i for i, name in enumerate(names) if name.partition(".")[0] != __package__), 0)


def assert_no_hardcoded_names(exported: ExportedCase) -> None:
    """Assert MUST-001: the exporter knows no name of the model."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-001")


def assert_no_torch_nn_tags(exported: ExportedCase | str | Path) -> None:
    """Assert MUST-002: no tag has a segment for a class of `torch.nn`."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-002")


def assert_every_node_attributed(exported: ExportedCase | str | Path) -> None:
    """Assert MUST-003: every node has an origin, and none beyond the allowance is `derived`."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-003")


def assert_checker_passes(exported: ExportedCase | str | Path) -> None:
    """Assert MUST-004: the ONNX checker passes and ONNX Runtime loads the file."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-004")


def assert_graph_untouched(exported: ExportedCase) -> None:
    """Assert MUST-005: but for its tags the file is the one that the plain exporter gives."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-005")


def assert_numbers_agree(exported: ExportedCase) -> None:
    """Assert MUST-006: ONNX Runtime computes what the model computes."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-006")


def assert_tags_proven(exported: ExportedCase) -> None:
    """Assert MUST-007: the nodes of every call turn its inputs into its outputs."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-007")


def assert_exports_repeat(exported: ExportedCase) -> None:
    """Assert MUST-008: a second process gives the same bytes."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-008")


def assert_file_and_sidecar_agree(exported: ExportedCase | str | Path) -> None:
    """Assert MUST-009: the file and its sidecar say the same."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-009")


def assert_nothing_leaks(exported: ExportedCase | str | Path) -> None:
    """Assert MUST-010: no path, user or host of this machine stands in the file or its sidecar."""
    __tracebackhide__ = True
    assert_rule(exported, "MUST-010")
