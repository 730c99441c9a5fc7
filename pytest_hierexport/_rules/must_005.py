"""MUST-005: but for its tags, the file is the one that the plain exporter gives."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._rules.base import ExportedCase, Rule, Violation, limited


@limited
def _check(exported: ExportedCase) -> Iterator[Violation]:
    from pytest_hierexport._onnx.storage import load_proto
    from pytest_hierexport._rules.graph_diff import bare, differences
    from pytest_hierexport._rules.plain import plain_proto

    # Read again: other rules read the case's own message, which `bare` would change.
    found = bare(load_proto(exported.path), exported.path.parent)
    for difference in differences(plain_proto(exported), found):
        yield Violation(
            difference.where,
            f"{difference.plain}, as in the plain export",
            difference.found,
            "change nothing but tags between the exporter and the file",
        )


RULE = Rule("MUST-005", "the graph is untouched", _check, needs="export")
