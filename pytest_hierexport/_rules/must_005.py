"""MUST-005: but for its tags, the file is the one that the plain exporter gives (`plain.py`).

A plain exporter may give other graphs in other processes: the order of a set decides the order of what a loop carries,
where torch writes an operation as a function (`nn.EmbeddingBag`). Then both exports of this process are compared.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._onnx.difference import bare, differences
from pytest_hierexport._onnx.storage import load_proto
from pytest_hierexport._rules.base import ExportedCase, Violation, limited
from pytest_hierexport._rules.plain import plain_process, plain_proto, plain_repeats


@limited
def check(exported: ExportedCase) -> Iterator[Violation]:
    # Read again: other rules read the case's own message, which `bare` would change.
    found = bare(load_proto(exported.path), exported.path.parent)
    plain = plain_proto(exported, plain_process())
    differing = list(differences(plain, found))
    if differing and not any(differences(plain_proto(exported, None), found)) and not plain_repeats(exported, plain):
        return
    for difference in differing:
        yield Violation(
            difference.where,
            f"{difference.expected}, as in the plain export",
            difference.found,
            "change nothing but tags between the exporter and the file",
        )
