"""One export per model and run, shared by all rules and by all processes of a run.

Each export has a folder named by the digest of everything that is known of it before the model is built: the case,
the package, the versions beneath it. Whoever comes first holds its lock and exports; the others read what is there.
A failing export is remembered too, but only within the run. Between runs (`--hierexport-cache`) an export is good
while the files that its model was made of are: the project's modules, and what the factory opened.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport import errors
from pytest_hierexport.errors import CrashError, ExportError, HierexportError, in_words
from pytest_hierexport.files import FileDigests, digest, watching_files
from pytest_hierexport.ownership import make_folder
from pytest_hierexport.storage.atomic import write_atomically
from pytest_hierexport.suite.identity import key_of, rule_identity

if TYPE_CHECKING:
    from pytest_hierexport.cases import Case, Example
    from pytest_hierexport.rules.base import ExportedCase, Rule, Violation

__all__ = ["Entry", "ExportStore"]

MODEL = "model.onnx"
TRACEBACK = "traceback.txt"
_RECORD = "export.json"


@dataclass(frozen=True)
class Entry:
    """What became of the export of one case."""

    folder: Path
    """Holds `model.onnx` and its sidecar, or neither where the export failed."""
    exporter: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    coverage: Mapping[str, int] = field(default_factory=dict)
    """How many nodes are known by which evidence."""
    hierarchy: str = ""
    """The text of the hierarchy, as in a snapshot."""
    seconds: float = 0.0
    error: HierexportError | None = None

    @property
    def path(self) -> Path:
        """The ONNX file."""
        return self.folder / MODEL


class ExportStore:
    """The exports of a run.

    Args:
        folder: Where they lie; every process of the run is given the same.
        run: Tells this run from others that use the folder.
        lasting: Whether exports of other runs are used, and the verdicts of rules with them.
        begun: Where it is noted which exports this run began, and did not end; beside the exports by default.
    """

    def __init__(self, folder: Path, run: str, *, lasting: bool = False, begun: Path | None = None) -> None:
        """Use the folder, which is made when it is first needed."""
        self.folder, self.run, self.lasting = folder, run, lasting
        self._begun = begun or folder
        self._entries: dict[str, Entry] = {}
        self._latest: tuple[str, ExportedCase] | None = None

    def entry(self, case: Case) -> Entry:
        """Return what became of the case's export; export it where no process has."""
        key = self._key(case)
        if key not in self._entries:
            self._entries[key] = self._read(key) or self._make(key, case)
        return self._entries[key]

    def known(self, case: Case) -> Entry | None:
        """Return what became of the case's export in this run, None where nobody asked for it."""
        key = self._key(case)
        return self._entries.get(key) or self._read(key)

    def exported(self, case: Case) -> ExportedCase:
        """Return what the rules see.

        Raises:
            HierexportError: The export failed, here or in another process.
        """
        entry = self.entry(case)
        if entry.error is not None:
            raise entry.error
        key = self._key(case)
        if self._latest is None or self._latest[0] != key:
            self._latest = (key, _exported_case(case, entry, None))
        return self._latest[1]

    def verdict(self, case: Case, rule: Rule, check: Callable[[], Sequence[Violation]]) -> list[Violation]:
        """Return the violations of a rule: those of another run where exports last and the rule is the same."""
        entry = self.entry(case)
        identity = rule_identity(rule, case) if self.lasting and entry.error is None else None
        if identity is None:
            return list(check())
        path = entry.folder / f"{hashlib.sha256(rule.id.encode()).hexdigest()[:16]}.verdict.json"
        identity = f"{identity} {digest(entry.path)}"
        known = _read_json(path)
        if known is not None and known.get("identity") == identity:
            from pytest_hierexport.rules.base import Violation

            return [Violation(**violation) for violation in known["violations"]]
        violations = list(check())
        record = {"identity": identity, "violations": [asdict(violation) for violation in violations]}
        write_atomically(path, json.dumps(record))
        return violations

    def _key(self, case: Case) -> str:
        return key_of(case, lasting=self.lasting)

    def _read(self, key: str) -> Entry | None:
        folder = self.folder / key
        record = _read_json(folder / _RECORD)
        if record is None or not self._good(record):
            return None
        error = record.get("error")
        if error is not None:
            kind = getattr(errors, error.pop("kind"))
            return Entry(folder, error=kind(error["expected"], found=error["found"], do=error["do"]))
        lists = {name: tuple(record["entry"][name]) for name in ("notes", "warnings")}
        entry = {**record["entry"], **lists}
        return Entry(folder, **entry)

    def _good(self, record: Mapping[str, Any]) -> bool:
        if record["run"] == self.run:
            return True
        files = record.get("files")
        return self.lasting and files is not None and FileDigests(files).hold()

    def _make(self, key: str, case: Case) -> Entry:
        from filelock import FileLock

        make_folder(self.folder)
        with FileLock(self.folder / f"{key}.lock"):
            return self._read(key) or self._export_once(key, case)

    def _export_once(self, key: str, case: Case) -> Entry:
        """Export a case, unless a process of this run ended while it did: so would this one."""
        begun = self._begun / f"{key}.begun"
        if begun.exists():
            return Entry(self.folder / key, error=_ended(case))
        begun.touch()
        try:
            return self._export(key, case)
        finally:
            begun.unlink(missing_ok=True)

    def _export(self, key: str, case: Case) -> Entry:
        folder = self.folder / key
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with watching_files(self.folder) as opened:
            entry, example = _attempt(case, folder)
        record: dict[str, Any] = {"run": self.run}
        if entry.error is None:
            record["files"] = FileDigests.of([*case.files, *opened()]).digests if self.lasting else None
            record["entry"] = {k: v for k, v in asdict(entry).items() if k not in {"folder", "error"}}
            self._latest = (key, _exported_case(case, entry, example))
        else:
            error = entry.error
            record["error"] = {
                "kind": type(error).__name__,
                "expected": error.expected,
                "found": error.found,
                "do": error.do,
            }
        write_atomically(folder / _RECORD, json.dumps(record))
        return entry


def _attempt(case: Case, folder: Path) -> tuple[Entry, Example | None]:
    """Export a case into its folder, or say why not."""
    started = time.perf_counter()
    try:
        example = case.load()
        from pytest_hierexport import snapshot
        from pytest_hierexport.exporting import export_case

        exported = export_case(case, example, folder / MODEL)
        entry = Entry(
            folder,
            exported.exporter,
            exported.notes,
            exported.warnings,
            exported.attribution.coverage(),
            snapshot.of(folder / MODEL),
            time.perf_counter() - started,
        )
    except HierexportError as error:
        if error.__cause__ is not None:
            (folder / TRACEBACK).write_text("".join(traceback.format_exception(error.__cause__)), encoding="utf-8")
        # As its own base class: a process that reads the record knows only those of errors.py.
        return Entry(folder, error=_plain(error)), None
    except Exception as error:  # noqa: BLE001  # nothing that an export raises may cost the other models their tests
        (folder / TRACEBACK).write_text(traceback.format_exc(), encoding="utf-8")
        return Entry(folder, error=_unforeseen(case, error)), None
    return entry, example


def _ended(case: Case) -> CrashError:
    return CrashError(
        f"{case.name} to run without ending its process",
        found="a process of this run ended while it exported it",
        do="run one of its tests by itself with -n0, where all that it prints is seen",
    )


def _plain(error: HierexportError) -> HierexportError:
    kind = next(base for base in type(error).__mro__ if base.__module__ == errors.__name__)
    return kind(error.expected, found=error.found, do=error.do)  # type: ignore[no-any-return]


def _unforeseen(case: Case, error: Exception) -> ExportError:
    return ExportError(
        f"{case.name} to be exported",
        found=in_words(error),
        do=f"read {TRACEBACK} in the kept folder; an error of this kind is worth a report",
    )


def _exported_case(case: Case, entry: Entry, example: Example | None) -> ExportedCase:
    from pytest_hierexport.rules.base import ExportedCase

    return ExportedCase(case, entry.path, example, entry.exporter)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record
