"""Extends syrupy by snapshots of hierarchies: a folder of our own, a text file per model, differences by module."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syrupy.data import SnapshotCollection, SnapshotCollections
from syrupy.extensions.base import AbstractSyrupyExtension
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from pytest_hierexport._errors import HierexportError
from pytest_hierexport._export.result import Export
from pytest_hierexport._files.atomic import write_atomically
from pytest_hierexport._files.ownership import ForeignFileError
from pytest_hierexport._onnx.graph import operators
from pytest_hierexport._pytest.ids import file_name, snapshot_folder
from pytest_hierexport._pytest.suite import case_of
from pytest_hierexport._rules.base import ExportedCase
from pytest_hierexport._snapshot import is_snapshot, text
from pytest_hierexport._snapshot.diff import diff

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation
    from syrupy.types import SerializableData, SerializedData, SnapshotIndex


def hierarchy_text(data: object) -> str:
    """Return the text of a hierarchy: of an export, of a tagged ONNX file by its path, or the given text.

    Raises:
        TagError: The file holds no tags.
        TypeError: The data is none of these.
    """
    if isinstance(data, str):
        return data
    from pytest_hierexport._onnx.storage import load_proto, read

    if isinstance(data, Path):
        return text(read(data), operators(load_proto(data)))
    if isinstance(data, ExportedCase):
        return text(data.attribution, operators(data.proto))
    if isinstance(data, Export):
        return text(data.attribution, operators(data.model))
    raise TypeError(f"a hierarchy snapshot is of an export, a Path or a text, not {type(data).__name__}")


class HierarchySnapshotExtension(SingleFileSnapshotExtension):
    """A hierarchy per file: `__hierexport__/MODEL.txt` beside the anchor, `__hierexport__/FILE/TEST.txt` for tests."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    def serialize(self, data: SerializableData, **_: Any) -> SerializedData:
        """Return the text of the hierarchy; an error is told in one line: of several, syrupy shows the last first."""
        try:
            return hierarchy_text(data)
        except HierexportError as error:
            raise ValueError("; ".join(str(error).splitlines())) from None

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the folder of the test's snapshots, not syrupy's own: runs without models must not see them."""
        case, path = case_of(test_location.item), Path(test_location.filepath)
        if case is None:
            return str(snapshot_folder(path) / test_location.basename)
        return str(snapshot_folder(case.manifest or path))

    @classmethod
    def get_file_basename(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """Name the file after the model, or after the test where the project's own test asks, as syrupy does.

        Syrupy leaves out what a file name cannot hold: two tests could then have one file.
        """
        if (case := case_of(test_location.item)) is not None:
            return file_name(case.name)
        name = cls.get_snapshot_name(test_location=test_location, index=index)
        whole = AbstractSyrupyExtension.get_snapshot_name(test_location=test_location, index=index)
        return name if name == whole else file_name(whole)

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """Whether the file is where this extension puts the test's snapshots."""
        return Path(snapshot_location).parent == Path(cls.dirname(test_location=test_location))

    def read_snapshot_data_from_location(self, *, snapshot_location: str, **_: Any) -> SerializedData | None:
        """Return the text of a snapshot; None without one, or where it is not UTF-8 text: an update writes it anew."""
        try:
            return Path(snapshot_location).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    @classmethod
    def write_snapshot(cls, **options: Any) -> None:
        """Write without the warning of syrupy 5, which finds the test of a snapshot by the file's name alone."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\s*Can not relate snapshot")
            super().write_snapshot(**options)

    @classmethod
    def write_snapshot_collection(cls, *, snapshot_collection: SnapshotCollection, **_: Any) -> None:
        """Write a snapshot atomically, in the place of none or of a snapshot."""
        path = Path(snapshot_collection.location)
        if path.exists() and not is_snapshot(path):
            raise ForeignFileError(path)
        write_atomically(path, str(next(iter(snapshot_collection)).data))

    # Their names before syrupy 5.
    _file_extension = file_extension
    _get_file_basename = get_file_basename
    _read_snapshot_data_from_location = read_snapshot_data_from_location
    _write_snapshot_collection = write_snapshot_collection

    def discover_snapshots(self, **_: Any) -> SnapshotCollections:
        """Return no snapshots: syrupy then neither reports nor deletes any as unused."""
        return SnapshotCollections()

    def diff_lines(self, serialized_data: SerializedData, snapshot_data: SerializedData) -> Iterator[str]:
        """Yield the changes by module, bounded in number."""
        yield from diff(str(snapshot_data), str(serialized_data))
