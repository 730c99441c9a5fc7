"""Carries the tags of a file to the file that a tool made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._carry import carry
from pytest_hierexport._carry.anchors import original
from pytest_hierexport._errors import HierexportError, UsageError, gist
from pytest_hierexport._onnx.absent import stored_bytes
from pytest_hierexport._onnx.graph import inventory_proto
from pytest_hierexport._tools.tagged_file import TaggedFile

if TYPE_CHECKING:
    import onnx

_FEWEST_SHARED = 0.2
"""The least part of weights whose names are in both files: tools that were tried rename three quarters at most."""


def carry_tags(tagged: TaggedFile, proto: onnx.ModelProto, path: Path | None) -> TaggedFile:
    """Carry the attribution of a tagged model to the model that a tool made of it; return that model with it.

    The external data of `proto` is beside `path`, which is None for a model from standard input.

    Raises:
        UsageError: A file with external data is missing, or the two models have no value in common.
    """
    other = replace(tagged, proto=proto, path=path)
    try:
        attribution = carry(tagged.to_ir(), tagged.attribution, other.to_ir())
    except HierexportError:
        raise
    # Any error: each package that reads external data raises its own classes.
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


def doubts(tagged: TaggedFile, carried: TaggedFile) -> Iterator[str]:
    """Yield, as sentences, the reasons to doubt that one file was made of the other."""
    nodes = len(carried.attribution.nodes)
    if derived := carried.attribution.coverage()["derived"]:
        yield f"{derived:,} of {nodes:,} nodes are derived: their neighbours alone tell their call"
    before, after = (_sizes(file.proto) for file in (tagged, carried))
    originals = {name: original(name, before) for name in after}
    shared = sum(after[name] for name, known in originals.items() if known)
    kept = sum(before[name] for name in set(originals.values()) if name)
    few = before and after and max(shared / sum(after.values()), kept / sum(before.values())) < _FEWEST_SHARED
    # A tool that renames all weights leaves what they hold.
    if few and not _shares_contents(tagged, carried):
        yield "by their names, few of its weights are those of the tagged file: it was probably made of another"


def _shares_contents(tagged: TaggedFile, carried: TaggedFile) -> bool:
    """Whether enough weights of one file hold the same as some of the other, whatever their names."""
    before, after = (_contents(file) for file in (tagged, carried))
    shared = sum(size for content, size in after.items() if content in before)
    fewest = min(sum(before.values()), sum(after.values()))
    return shared > _FEWEST_SHARED * fewest


def _contents(file: TaggedFile) -> dict[bytes, int]:
    """Return the number of elements of each initializer, without scalars, by a digest of what it holds."""
    tensors = [value.const_value for value in file.to_ir().graph.initializers.values()]
    stored = [each for each in tensors if each is not None and len(each.shape) and stored_bytes(each)]
    return {sha256(f"{each.dtype} {each.shape}".encode() + each.tobytes()).digest(): each.size for each in stored}


def _sizes(proto: onnx.ModelProto) -> dict[str, int]:
    """Return the number of elements of each initializer, without scalars."""
    return {tensor.name: max(1, prod(tensor.dims)) for _, tensor in inventory_proto(proto).initializers if tensor.dims}
