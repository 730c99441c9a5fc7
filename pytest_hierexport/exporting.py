"""From a case at hand to its tagged file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_hierexport.cases import Case, Example
    from pytest_hierexport.exporter import Export

__all__ = ["export_case"]


def export_case(case: Case, example: Example, path: Path) -> Export:
    """Export a case's example with the case's options.

    Raises:
        HierexportError: It cannot be exported or written.
    """
    from pytest_hierexport.exporter import export

    with _no_logs():
        return export(
            example.model,
            example.args,
            example.kwargs,
            path,
            exporter=case.exporter,
            opset=case.opset,
            dynamic_shapes=example.dynamic_shapes,
            keep=case.keep,
        )


@contextmanager
def _no_logs() -> Iterator[None]:
    """Keep back what torch logs while it fails: tracebacks of its own, of which the error says the gist."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
