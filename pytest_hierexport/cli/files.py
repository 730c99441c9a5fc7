"""Reads the ONNX files that commands are given, and writes those that they make; `-` is standard input or output."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import ExportError, HierexportError, UsageError
from pytest_hierexport._files.paths import exists, is_folder

if TYPE_CHECKING:
    import onnx

    from pytest_hierexport._calls.attribution import Attribution
    from pytest_hierexport._tools.tagged_file import TaggedFile

__all__ = ["STANDARD", "add_file", "add_output", "check_output", "load_file", "load_proto", "write_file"]

STANDARD = Path("-")
"""Standard input or output."""


def add_file(parser: argparse.ArgumentParser, name: str = "file", help: str = "a tagged ONNX file") -> None:  # noqa: A002
    """Add a positional argument for an ONNX file."""
    parser.add_argument(name, metavar=name.upper(), type=Path, help=f"{help}; - reads standard input")


def add_output(parser: argparse.ArgumentParser, help: str = "the ONNX file to write") -> None:  # noqa: A002
    """Add the option `-o` for an ONNX file to write."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help=f"{help}; - writes standard output"
    )


def load_file(path: Path) -> TaggedFile:
    """Load an ONNX file with its attribution.

    Raises:
        TagError: The file has no tags, or tags that cannot be parsed.
        UsageError: There is no such file, or it is not ONNX.
    """
    from pytest_hierexport._tools.tagged_file import load_tagged, parse_tagged

    if path == STANDARD:
        return parse_tagged(sys.stdin.buffer.read(), "standard input")
    return load_tagged(path)


def load_proto(path: Path) -> tuple[onnx.ModelProto, Path | None]:
    """Load an ONNX file, with or without tags, without its external data; give None for the path of standard input.

    Raises:
        UsageError: There is no such file, or it is not ONNX.
    """
    from pytest_hierexport._onnx.proto_tags import TaggedProto

    if path == STANDARD:
        return TaggedProto.parse(sys.stdin.buffer.read(), "standard input").proto, None
    return TaggedProto.load(path).proto, path


def write_file(proto: onnx.ModelProto, attribution: Attribution, source: TaggedFile, path: Path) -> None:
    """Write a changed model with tags in it, and its sidecar; external data goes along.

    Raises:
        ExportError: A file cannot be written.
        UsageError: Standard output cannot hold the model.
    """
    from pytest_hierexport._tools.tagged_file import save_tagged, to_bytes

    if path == STANDARD:
        sys.stdout.buffer.write(to_bytes(proto, attribution, source))
        return
    check_output(path)
    save_tagged(proto, attribution, source, path)


def check_output(path: Path) -> None:
    """Refuse to replace a file that is not ONNX: it may be the model's source.

    Raises:
        ExportError: There is no folder to write into.
        UsageError: Something else than an ONNX file has this path.
    """
    if path == STANDARD:
        return
    if not is_folder(path.parent):
        raise ExportError(f"a folder to write {path.name} into", found=f"no {path.parent}", do="create the folder")
    if not exists(path):
        return
    try:
        load_proto(path)
    except HierexportError:
        raise UsageError(
            f"a new file, or an ONNX file to replace, at {path}",
            found="a folder" if path.is_dir() else "something else",
            do="give another name",
        ) from None
