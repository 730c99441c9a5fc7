"""Reads the files that commands are given, and writes those that they make; `-` is standard input or output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._errors import ExportError, HierexportError, UsageError
from pytest_hierexport._files.atomic import staged
from pytest_hierexport._files.paths import check_ending, exists, is_folder
from pytest_hierexport._onnx.graph import graph_inputs
from pytest_hierexport._onnx.sidecar import sidecar_path
from pytest_hierexport._text import first_names
from pytest_hierexport.cli.output import print_line

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._onnx.codec import Tags
    from pytest_hierexport._tools.tagged_file import TaggedFile

_STANDARD = Path("-")
_TORCH = (
    "tags from torch's metadata, unproven: where its optimizer merged nodes torch names one of their calls, and it "
    "does not tell the runs of one module apart"
)

_MOST_SHOWN = 3


def add_file(parser: argparse.ArgumentParser, name: str = "file", help: str = "a tagged ONNX file") -> None:  # noqa: A002
    """Add a positional argument for an ONNX file."""
    parser.add_argument(name, metavar=name.upper(), type=Path, help=f"{help}; - reads standard input")


def add_output(parser: argparse.ArgumentParser, help: str = "the ONNX file to write") -> None:  # noqa: A002
    """Add the option `-o` for an ONNX file to write."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help=f"{help}; - writes standard output"
    )


def is_standard(path: Path) -> bool:
    """Whether a path stands for standard input or output."""
    return path == _STANDARD


def shown_name(path: Path) -> str:
    """Return an input file as messages name it."""
    return "standard input" if is_standard(path) else str(path)


@contextmanager
def as_path(path: Path) -> Iterator[Path]:
    """Give the path of an input file; a temporary file takes standard input."""
    if not is_standard(path):
        yield path
        return
    from pytest_hierexport._files.temporary import temporary_folder

    with temporary_folder() as folder:
        copied = Path(folder) / "model.onnx"
        copied.write_bytes(_standard_input())
        yield copied


def load_file(path: Path, if_untagged: str = "") -> TaggedFile:
    """Load an ONNX file with its attribution; a note on stderr says where tags are torch's own, or some are missing.

    `if_untagged` says what to do where a tool made it of a tagged file; empty for carrying the tags.

    Raises:
        TagError: The file has no tags, or tags that cannot be parsed.
        UsageError: There is no such file, or it is not ONNX.
    """
    from pytest_hierexport._tools.tagged_file import load_tagged, parse_tagged

    loaded = parse_tagged(_standard_input(), "standard input") if is_standard(path) else load_tagged(path)
    if loaded.tags_from == "torch":
        _note(path, _TORCH)
    elif untagged := loaded.unknown_nodes():
        to_do = if_untagged or f"carry the tags first (hierexport carry TAGGED.onnx {shown_name(path)})"
        counted = f"{len(untagged)} of {len(loaded.attribution.nodes)} nodes have no tag"
        _note(path, f"{counted}: {first_names(untagged, _MOST_SHOWN)}; {to_do}")
    return loaded


def _note(path: Path, text: str) -> None:
    print_line(f"hierexport: {shown_name(path)}: {text}", file=sys.stderr)


def load_proto(path: Path) -> tuple[onnx.ModelProto, Path | None]:
    """Load an ONNX file, with or without tags, without its external data; give None for the path of standard input.

    Raises:
        UsageError: There is no such file, or it is not ONNX.
    """
    from pytest_hierexport._onnx.proto_tags import TaggedProto

    if is_standard(path):
        return TaggedProto.parse(_standard_input(), "standard input").proto, None
    return TaggedProto.load(path).proto, path


def _standard_input() -> bytes:
    content = sys.stdin.buffer.read()
    if not content:
        raise UsageError("one ONNX file on standard input", found="nothing more", do="give - for one file alone")
    return content


def write_file(file: TaggedFile, path: Path, tags: Tags = "both") -> None:
    """Write a changed model with tags in it, and its sidecar; external data goes along.

    Raises:
        ExportError: A file cannot be written.
        UsageError: Standard output cannot hold the model.
    """
    if is_standard(path):
        sys.stdout.buffer.write(file.to_bytes(tags))
    else:
        file.save(path, tags)


def check_onnx_output(path: Path, *, piped: bool = True) -> None:
    """Refuse an output without the ending .onnx, and to replace a file that is not ONNX: it may be the model's source.

    Raises:
        ExportError: There is no folder to write into.
        UsageError: Something else than an ONNX file has this path, or its ending.
    """
    if is_standard(path) and not piped:
        found, do = "-, standard output", "name a file that ends in .onnx: other files are written beside it"
        raise UsageError("a file to write whose name ends in .onnx", found=found, do=do)
    if not is_standard(path):
        check_ending(path, ".onnx")
        _check_place(path, "an ONNX file", load_proto)
        _check_place(
            sidecar_path(path), "a sidecar", _json_object(lambda content: {"format", "nodes"} <= content.keys())
        )


def check_json_output(path: Path, kind: str, is_ours: Callable[[Mapping[str, Any]], bool]) -> None:
    """Refuse to replace a file that is no JSON object of the kind to write.

    Raises:
        ExportError: There is no folder to write into.
        UsageError: Something else has this path, or it has another ending.
    """
    check_ending(path, ".json")
    _check_place(path, kind, _json_object(is_ours))


def _json_object(is_ours: Callable[[Mapping[str, Any]], bool]) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not is_ours(content):
            raise TypeError

    return read


def check_parent(path: Path) -> None:
    """Refuse an output in a folder that does not exist.

    Raises:
        ExportError: There is no folder to write into.
    """
    if not is_folder(path.parent):
        raise ExportError(f"a folder to write {path.name} into", found=f"no {path.parent}", do="create the folder")


def _check_place(path: Path, kind: str, read: Callable[[Path], object]) -> None:
    check_parent(path)
    if not exists(path) or (path.is_file() and not path.stat().st_size):
        return
    try:
        read(path)
    except (HierexportError, OSError, TypeError, ValueError, RecursionError):
        raise UsageError(
            f"a new file, or {kind} to replace, at {path}",
            found="a folder" if path.is_dir() else "something else",
            do="give another name",
        ) from None


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write an object as a JSON file, atomically.

    Raises:
        ExportError: It cannot be written.
    """
    with staged(path) as stage:
        (stage.folder / path.name).write_text(json.dumps(content), encoding="utf-8")
        stage.land([path.name])


def load_arrays(path: Path, graph: onnx.GraphProto) -> dict[str, Any]:
    """Load the arrays of a file of numpy's by their names, for the inputs of a graph; pickled objects are refused.

    Raises:
        UsageError: It is no such file.
    """
    import numpy as np

    try:
        with path.open("rb") as opened, np.lib.npyio.NpzFile(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # numpy and zipfile raise errors of many classes for a damaged file
        inputs = first_names([value.name for value in graph_inputs(graph)], 12)
        raise UsageError(
            f"{path} to be an .npz file with an array for each input: {inputs}",
            found="no such file" if isinstance(error, FileNotFoundError) else str(error) or type(error).__name__,
            do="write it with numpy.savez(path, **arrays), where arrays is a dict by these names",
        ) from error
