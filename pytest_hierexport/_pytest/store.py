"""One export per model and run, shared by all rules and by all processes of a run.

Each export has a folder named by the digest of what is known of it before the model is built: the case and its options.
Whoever comes first holds its lock and exports; the others read what is there. A failing export is remembered, too, but
only within the run. With `--hierexport-cache` what the cache holds of earlier runs goes before an export.
"""

from __future__ import annotations

import json
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport import _errors as errors
from pytest_hierexport._errors import CrashError, ExportError, HierexportError, in_words
from pytest_hierexport._files.atomic import write_atomically
from pytest_hierexport._pytest.identity import export_identity, key_of, rule_identity

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case, Example
    from pytest_hierexport._pytest.cache import Cache
    from pytest_hierexport._rules.base import ExportedCase, Rule, Violation

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
    kept: str = ""
    """The name of the export in the cache, empty where it is not there."""

    @property
    def path(self) -> Path:
        """The ONNX file."""
        return self.folder / MODEL


class ExportStore:
    """The exports of a run.

    Args:
        folder: Where they lie; every process of the run is given the same.
        run: Tells this run from others that use the folder.
        cache: Holds the exports of earlier runs, and the verdicts of rules on them.
    """

    def __init__(self, folder: Path, run: str, cache: Cache | None = None) -> None:
        """Use the folder, which is made when it is first needed."""
        self.folder, self.run, self.cache = folder, run, cache
        self._entries: dict[str, Entry] = {}
        self._latest: tuple[str, ExportedCase] | None = None

    def entry(self, case: Case) -> Entry:
        """Return what became of the case's export; export it where no process has."""
        key = key_of(case)
        if key not in self._entries:
            self._entries[key] = self._read(key) or self._make(key, case)
        return self._entries[key]

    def known(self, case: Case) -> Entry | None:
        """Return what became of the case's export in this run, None where nobody asked for it."""
        key = key_of(case)
        return self._entries.get(key) or self._read(key)

    def exported(self, case: Case) -> ExportedCase:
        """Return what the rules see.

        Raises:
            HierexportError: The export failed, here or in another process.
        """
        entry = self.entry(case)
        if entry.error is not None:
            raise entry.error
        key = key_of(case)
        if self._latest is None or self._latest[0] != key:
            self._latest = (key, _exported_case(case, entry, None))
        return self._latest[1]

    def verdict(self, case: Case, rule: Rule, check: Callable[[], Sequence[Violation]]) -> list[Violation]:
        """Return the violations of a rule; those of an earlier run where the cache holds them."""
        entry = self.entry(case)
        identity = rule_identity(rule, case)
        if self.cache is None or not entry.kept or identity is None:
            return list(check())
        question, about = f"{rule.id} on {key_of(case)}", f"{entry.kept} {identity}"
        kept = self.cache.find(question, about)
        if kept is not None:
            from pytest_hierexport._rules.base import Violation

            return [Violation(**violation) for violation in kept.value["violations"]]
        with self.cache.computing():
            violations = list(check())
        self.cache.keep(question, about, {"violations": [asdict(violation) for violation in violations]})
        return violations

    def _read(self, key: str) -> Entry | None:
        folder = self.folder / key
        record = _read_json(folder / _RECORD)
        if record is None or record["run"] != self.run:
            return None
        error = record.get("error")
        if error is not None:
            kind = getattr(errors, error.pop("kind"))
            return Entry(folder, error=kind(error["expected"], found=error["found"], do=error["do"]))
        return _entry(folder, record["entry"], record["kept"])

    def _make(self, key: str, case: Case) -> Entry:
        from filelock import FileLock

        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / f"{key}.lock"):
            return self._read(key) or self._export_once(key, case)

    def _export_once(self, key: str, case: Case) -> Entry:
        """Export a case, unless a process of this run ended while it did: so would this one."""
        begun = self.folder / f"{key}.begun"
        if begun.exists():
            return Entry(self.folder / key, error=_ended(case))
        begun.touch()
        try:
            entry = self._export(key, case) if self.cache is None else self._find_or_export(self.cache, key, case)
            self._remember(key, entry)
        finally:
            begun.unlink(missing_ok=True)
        return entry

    def _find_or_export(self, cache: Cache, key: str, case: Case) -> Entry:
        """Take an export from the cache, or put it there."""
        folder, identity = self.folder / key, export_identity(case)
        with cache.alone(key, f"export {case.name}"):
            kept = cache.find(key, identity, folder)
            if kept is not None:
                return _entry(folder, kept.value, kept.name)
            with cache.computing(case.files):
                entry = self._export(key, case)
            if entry.error is not None:
                return entry
            files = [path for path in sorted(folder.iterdir()) if path.is_file()]
            return replace(entry, kept=cache.keep(key, identity, _fields(entry), files))

    def _export(self, key: str, case: Case) -> Entry:
        folder = self.folder / key
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        entry, example = _attempt(case, folder)
        if entry.error is None:
            self._latest = (key, _exported_case(case, entry, example))
        return entry

    def _remember(self, key: str, entry: Entry) -> None:
        record: dict[str, Any] = {"run": self.run}
        if entry.error is None:
            record |= {"entry": _fields(entry), "kept": entry.kept}
        else:
            error = entry.error
            record["error"] = {
                "kind": type(error).__name__,
                "expected": error.expected,
                "found": error.found,
                "do": error.do,
            }
        write_atomically(self.folder / key / _RECORD, json.dumps(record))


def _fields(entry: Entry) -> dict[str, Any]:
    """Return what is known of a successful export, as JSON can hold it."""
    return {name: value for name, value in asdict(entry).items() if name not in {"folder", "error", "kept"}}


def _entry(folder: Path, fields: Mapping[str, Any], kept: str) -> Entry:
    lists = {name: tuple(fields[name]) for name in ("notes", "warnings")}
    return Entry(folder, **{**fields, **lists}, kept=kept)


def _attempt(case: Case, folder: Path) -> tuple[Entry, Example | None]:
    """Export a case into its folder, or say why not."""
    started = time.perf_counter()
    try:
        example = case.load()
        from pytest_hierexport._cases.exporting import export_case
        from pytest_hierexport._snapshot import text

        exported = export_case(case, example, folder / MODEL)
        entry = Entry(
            folder,
            exported.exporter,
            exported.notes,
            exported.warnings,
            exported.attribution.coverage(),
            text(exported.attribution, exported.operators),
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
    from pytest_hierexport._rules.base import ExportedCase

    return ExportedCase(case, entry.path, example, entry.exporter)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record
