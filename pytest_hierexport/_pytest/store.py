"""Makes one export per model and run, which all rules and all processes of the run share.

Each export has a folder, named by the digest of the case and its options. The first process that needs it locks it and
exports; the others read the outcome. A failed export is remembered within the run. With a cache, a result of an earlier
run that still holds replaces an export or the check of a rule.
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hierexport._cache.cache import Cache
from pytest_hierexport._cases import Case
from pytest_hierexport._cases.exporting import module_of
from pytest_hierexport._cases.factories import file_of_spec, find_module
from pytest_hierexport._cases.steps import ONNXRUNTIME, exported_case
from pytest_hierexport._errors import CrashError, NoVerdictError, raise_if_disk_full
from pytest_hierexport._export.choices import is_own
from pytest_hierexport._files.paths import absolute, digest_of_all, is_installed, text_digest
from pytest_hierexport._files.unrecorded import unrecorded
from pytest_hierexport._pytest.outcome import RECORD, ExportOutcome, deploy_into, export_into, from_fields, from_record
from pytest_hierexport._rules.base import ExportedCase, Rule, Violation
from pytest_hierexport._stages import WAITING, stage

if TYPE_CHECKING:
    from filelock import BaseFileLock


@contextmanager
def _disk_full_reported() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise_if_disk_full(error)
        raise


_OF_PROJECT = "project"
"""Stands for the digest of code that is recorded when it is imported."""


@unrecorded()
def _code_digest(name: str) -> str:
    """Return the digest of an installed top-level package, or of the file of a module; empty where there is none.

    That of a rule or an exporter may be edited in place under the same version.
    """
    spec = find_module(name, Path.cwd()) if name else None
    # A package without `__init__.py` has no file, and may have several folders.
    folders = [absolute(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    places = folders or list(filter(None, [file_of_spec(spec)]))
    return " ".join(_digest_of(place) if is_installed(place) else _OF_PROJECT for place in places)


def _digest_of(place: Path) -> str:
    return digest_of_all(place, place.rglob("*.py")) if place.is_dir() else digest_of_all(place.parent, [place])


def _top(name: str) -> str:
    """Return the top-level package of `package.module` or `package.module:function`."""
    return re.split("[.:]", name)[0]


class ExportStore:
    """The exports of a run, and the violations of rules on them.

    Args:
        folder: Where the exports are, made when it is first needed; the same in every process of the run.
        cache: Holds the results of earlier runs.
    """

    def __init__(self, folder: Path, cache: Cache | None = None) -> None:
        self.folder, self.cache = folder, cache
        self._code = functools.cache(_code_digest)
        self._outcomes: dict[str, ExportOutcome] = {}
        self._latest: tuple[str, ExportedCase] | None = None

    @_disk_full_reported()
    def outcome(self, case: Case) -> ExportOutcome:
        """Return the outcome of the case's export; export it where no process has.

        Raises:
            DiskFullError: There is no room for it.
            NoVerdictError: The case before a step could not be exported.
        """
        key = _key(case)
        if key not in self._outcomes:
            self._outcomes[key] = from_record(self.folder / key) or self._make(key, case)
        return self._outcomes[key]

    def known_outcome(self, case: Case) -> ExportOutcome | None:
        """Return the outcome of the case's export, None where the run has not exported it."""
        key = _key(case)
        return self._outcomes.get(key) or from_record(self.folder / key)

    def succeeded(self, case: Case) -> ExportOutcome:
        """Return the outcome of the case's export, which succeeded.

        Raises:
            HierexportError: The export failed, here or in another process.
        """
        outcome = self.outcome(case)
        if outcome.error is not None:
            # The error is raised for each item anew; a traceback that grows would keep what its frames hold.
            raise outcome.error.with_traceback(None)
        return outcome

    def exported(self, case: Case) -> ExportedCase:
        """Return the export as the rules take it.

        Raises:
            HierexportError: The export failed, here or in another process.
        """
        outcome, key = self.succeeded(case), _key(case)
        if self._latest is None or self._latest[0] != key:
            if case.previous is None:
                exported = outcome.exported(case, None)
            else:
                exported = self.exported(case.previous).result_of_step(case, outcome.path)
            self._latest = (key, exported)
        return self._latest[1]

    @_disk_full_reported()
    def violations(self, case: Case, rule: Rule) -> list[Violation]:
        """Return the violations of a rule, from the cache where they are known and still hold.

        Raises:
            HierexportError: The case could not be exported, the rule returns something else or can give no verdict, or
                there is no room for what it writes.
        """
        export = self.outcome(case).cached
        code = self._code(_top(module_of(rule.check))) if export else ""
        if self.cache is None or not code:
            return self._checked(case, rule)
        question, about = f"{rule.id} on {_key(case)}", f"{export} {code}"
        found = self.cache.find(question, about)
        if found is not None:
            return _violations(found.value)
        model = exported_case(case).name
        with self.cache.computing(model):
            value = _verdict(partial(self._checked, case, rule))
        self.cache.keep(question, about, value, model=case.name, reads_of=model)
        return _violations(value)

    def _checked(self, case: Case, rule: Rule) -> list[Violation]:
        with stage(f"checking {rule.id}"), self.outcome(case).keeping_traceback(rule.id):
            return list(rule.violations(self.exported(case)))

    def _make(self, key: str, case: Case) -> ExportOutcome:
        """Export a case, unless a process of this run did, or ended during that: this process would end, too."""
        from filelock import FileLock

        previous = None if case.previous is None else self._previous(case.previous)
        self.folder.mkdir(parents=True, exist_ok=True)
        with _acquired(FileLock(self.folder / f"{key}.lock")):
            begun, outcome = self.folder / f"{key}.begun", from_record(self.folder / key)
            if outcome is not None:
                return outcome
            if begun.exists():
                return ExportOutcome(self.folder / key, error=_crash_error(case))
            begun.touch()
            try:
                make = partial(self._export, key, case, previous)
                about = self._about(case, previous)
                outcome = (
                    make() if self.cache is None or about is None else self._find(self.cache, key, about, case, make)
                )
                _publish(outcome.folder / RECORD, outcome.record())
            except Exception:
                begun.unlink(missing_ok=True)
                raise
            # What did not finish in time stays begun, like what ended its process.
            begun.unlink(missing_ok=True)
            return outcome

    def _previous(self, case: Case) -> ExportOutcome:
        """Return the outcome of the case that a step takes.

        Raises:
            NoVerdictError: It failed, which its own tests report.
        """
        outcome = self.outcome(case)
        if outcome.error is not None:
            raise NoVerdictError(f"{case.name} to be there", found=f"{case.name} could not be exported", do="see there")
        return outcome

    def _about(self, case: Case, previous: ExportOutcome | None) -> str | None:
        """Return what a cached export has to agree with besides the case; None where nothing can be cached."""
        if previous is None:
            return self._code(_top(case.exporter)) if is_own(case.exporter) else ""
        if not previous.cached:
            return None
        return previous.cached if case.step in ONNXRUNTIME else f"{previous.cached} {self._code(_top(case.step))}"

    def _find(self, cache: Cache, key: str, about: str, case: Case, make: Callable[[], ExportOutcome]) -> ExportOutcome:
        """Take an export from the cache, or make it and add it there."""
        folder = self.folder / key
        found = cache.find(key, about, folder, shared=False)
        if found is not None:
            return from_fields(folder, found.value, found.name)
        with cache.alone(key, f"export {case.name}"):
            found = cache.find(key, about, folder)
            if found is not None:
                return from_fields(folder, found.value, found.name)
            model = exported_case(case).name
            with cache.computing(model, case.files):
                outcome = make()
            files = sorted(folder.iterdir())
            # A result has files alone; an exporter of the project may write its weights into a folder.
            if outcome.error is not None or any(path.is_dir() for path in files):
                return outcome
            kept = cache.keep(key, about, outcome.fields(), files, model=case.name, reads_of=model)
            return replace(outcome, cached=kept)

    def _export(self, key: str, case: Case, previous: ExportOutcome | None) -> ExportOutcome:
        folder = self.folder / key
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if previous is not None:
            return deploy_into(folder, case, previous)
        outcome, example = export_into(folder, case)
        if outcome.error is None:
            self._latest = (key, outcome.exported(case, example))
        return outcome


def _verdict(check: Callable[[], list[Violation]]) -> dict[str, Any]:
    """Return what the cache keeps of a rule's verdict; that there is none is one, too.

    MUST-008 has none on modernbert, whose calls depend on the hash seed: asked again about an export from the cache, it
    would compare that with another process's, and find another difference each time.
    """
    try:
        return {"violations": [asdict(violation) for violation in check()]}
    except NoVerdictError as error:
        return {"violations": [], "no_verdict": {"expected": error.expected, "found": error.found, "do": error.do}}


def _violations(value: Mapping[str, Any]) -> list[Violation]:
    if (missing := value.get("no_verdict")) is not None:
        raise NoVerdictError(**missing)
    return [Violation(**violation) for violation in value["violations"]]


@contextmanager
def _acquired(lock: BaseFileLock) -> Iterator[None]:
    from filelock import Timeout

    try:
        lock.acquire(timeout=0)
    except Timeout:
        with stage(WAITING):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _publish(path: Path, text: str) -> None:
    """Write a file that the other processes of the run see whole or not at all; it does not outlive the machine."""
    made = path.with_name(f"{path.name}.new")
    made.write_text(text, encoding="utf-8")
    made.replace(path)


def _key(case: Case) -> str:
    """Return the digest of a case: of all that its export rests on, as stated, which names its factory, too.

    A manifest and its entry name the factory, however they were selected; a known failure decides about no result.
    """
    before = "" if case.previous is None else _key(case.previous)
    source = "" if case.manifest is not None else case.source
    alone = replace(case, source=source, known_failures=(), previous=None)
    stated = [repr(getattr(alone, field.name)) for field in fields(alone) if field.repr]
    return text_digest("\0".join([*stated, before]))[:32]


def _crash_error(case: Case) -> CrashError:
    return CrashError(
        f"{case.name} to run without ending its process",
        found="a process of this run ended, or did not finish, while it exported it",
        do="run one of its tests by itself with -n0, where all that it prints is seen",
    )
