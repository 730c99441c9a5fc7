"""Carries the tags of a file to another that a tool made of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._carry import carry
from pytest_hierexport._errors import HierexportError, UsageError, gist
from pytest_hierexport._tools.tagged_file import TaggedFile

if TYPE_CHECKING:
    import onnx

__all__ = ["carry_tags"]


def carry_tags(tagged: TaggedFile, proto: onnx.ModelProto, path: Path | None) -> TaggedFile:
    """Return a model that a tool made of a tagged one with the attribution carried to it.

    Args:
        tagged: The model before, with its tags.
        proto: The model after, external data left out.
        path: Its file; None for a model from standard input.

    Raises:
        UsageError: A file with external data is missing, or no value of the one model is in the other.
    """
    other = replace(tagged, proto=proto, path=path)
    try:
        attribution = carry(tagged.to_ir(), tagged.attribution, other.to_ir())
    except HierexportError:
        raise
    # Each package that opens external data raises errors of its own.
    except Exception as error:
        raise UsageError(
            "two models with all their data, the second made of the first",
            found=gist(error),
            do="keep external data beside its model, and check the second with onnx.checker",
        ) from error
    coverage = attribution.coverage()
    if attribution.nodes and coverage["derived"] + coverage["untagged"] == len(attribution.nodes):
        raise UsageError(
            f"a model that a tool made of {tagged.path or 'the first'}",
            found=f"{path or 'the second'}, which computes no value of it",
            do="give the tagged file that the tool was given",
        )
    return replace(other, attribution=attribution)
