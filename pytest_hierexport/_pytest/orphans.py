"""Finds and removes orphans: snapshots of models that no selection states any more.

Several selections may share a folder of snapshots: two configuration files, a manifest and a factory on the command
line. The folder's list (see :mod:`pytest_hierexport._files.ownership`) names the selections that each snapshot was
written for. Only a complete run that makes a selection in full finds orphans:

    list:  bert.txt: a.ini     t5.txt: a.ini, b.ini     gpt.txt: b.ini     vit.txt: gone.ini     (swin.txt: not listed)
    a.ini states no model any more:
           bert.txt, vit.txt   orphans that an update removes: no selection that exists states them
           swin.txt            an orphan that the user removes: another selection may state it
           t5.txt, gpt.txt     no orphans: the snapshots of b.ini
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_hierexport._cases import Case
from pytest_hierexport._cases.selectors import EVERYTHING
from pytest_hierexport._cases.steps import exported_case
from pytest_hierexport._files import ownership
from pytest_hierexport._files.paths import SECTIONS, absolute, relative
from pytest_hierexport._pytest.ids import file_name, snapshot_file
from pytest_hierexport._pytest.options import is_updating
from pytest_hierexport._pytest.plan import Plan
from pytest_hierexport._report.results import SNAPSHOT, Results, Status
from pytest_hierexport._snapshot import is_hierarchy, is_snapshot
from pytest_hierexport._text import escape

_CHECKED = frozenset({Status.PASSED, Status.FAILED})
_FILES = ".toml", ".ini", ".cfg", "conftest.py"
"""The endings of manifests, configuration files and conftests."""
_HOOK = "pytest_hierexport_models"


@dataclass(frozen=True)
class Orphans:
    """The orphans of a run; none are known where it was not complete."""

    listed: tuple[Path, ...] = ()
    """Those that an update removes."""
    unlisted: tuple[Path, ...] = ()
    """Those on no list, which only the user can assign to a selection or remove."""
    removed: tuple[str, ...] = ()
    """The names of those that the run removed."""

    @property
    def files(self) -> list[Path]:
        """All that are there, sorted."""
        return sorted((*self.listed, *self.unlisted))


def settle(plan: Plan, results: Results) -> Orphans:
    """List the snapshots that a run updated, but for those that failed; remove orphans, or find them.

    Raises:
        OSError: A list cannot be written, or a snapshot not removed.
    """
    complete = _is_complete(plan, results)
    removed: list[str] = []
    if is_updating(plan.config):
        passed = {model.name for model in results.models if model.status(SNAPSHOT) is Status.PASSED}
        for folder in _folders(plan, whole=complete and _removes(plan, results)):
            removed += folder.update(passed)
    folders = list(_folders(plan, whole=True)) if complete else []
    listed = sorted(file for folder in folders for file in folder.listed())
    unlisted = sorted(file for folder in folders for file in folder.unlisted())
    return Orphans(tuple(listed), tuple(unlisted), tuple(sorted(removed)))


def former(plan: Plan, case: Case, file: Path, text: str) -> tuple[Path, bool] | None:
    """Return the snapshot that a model without one has probably had under another name, and whether it has the text.

    It belongs to no selected model, of this shard or another, and to no manifest or configuration file but those that
    state the case, and has the same text; of several, it is the one of the case's step. Where none has, it is the only
    orphan of whole selections, if the model is the only one without a snapshot; a shard does not know that.
    """
    names = {f"{file_name(case.name)}.txt" for case in plan.selected}
    folder = next(each for each in _folders(plan, whole=True) if each.path == file.parent)
    names |= folder.of_others(file.name)
    others = (each for each in sorted(file.parent.glob("*.txt")) if each.name not in names and is_hierarchy(each))
    same = [each for each in others if each.read_text(encoding="utf-8", errors="replace") == text]
    if same:
        step = escape(case.name.removeprefix(exported_case(case).name))
        return max(same, key=lambda each: each.stem.endswith(step)), True
    if plan.settings.chosen.shard is not None:
        return None
    left = [*folder.listed(), *folder.unlisted()]
    wanted = {plan.snapshot(case) for case in plan.cases}
    missing = [each for each in wanted if each.parent == file.parent and not each.exists()]
    return (left[0], False) if len(left) == len(missing) == 1 else None


def _is_complete(plan: Plan, results: Results) -> bool:
    """Whether the run checked the snapshot of every model: none filtered, deselected, skipped or in another shard."""
    option = plan.config.getoption
    filtered = option("keyword") or option("markexpr") not in {"", "hierexport"} or option("lf", default=False)
    ids = any("::" in argument for argument in option("file_or_dir") or ())
    unused = not option("disable_unused_snapshots", default=False)
    checked = all(model.status(SNAPSHOT) in _CHECKED for model in results.models)
    whole = plan.settings.chosen.shard is None
    return bool(checked and unused and whole and not (filtered or ids))


def _removes(plan: Plan, results: Results) -> bool:
    """Whether a complete run removes orphans: it updates snapshots, and nothing failed."""
    option = plan.config.getoption
    updates = option("update_snapshots", default=False) and not option("no_cleanup", default=False)
    return bool(updates and not results.failures())


@dataclass(frozen=True)
class _Folder:
    """A folder of snapshots and the selections of a run."""

    path: Path
    cases: Mapping[str, Case]
    """The run's case of each snapshot, by the file's name."""
    selections: Mapping[str, tuple[str, ...]]
    """The selections that state these cases, by the file's name."""
    whole: frozenset[str]
    """The selections of which the run selects every model."""

    def listed(self) -> list[Path]:
        """Return the snapshots of no case that were written for no other selection that still exists."""
        listed = ownership.read_list(self.path) if self.whole else {}
        gone = [name for name, owners in listed.items() if name not in self.cases and not self._others(owners)]
        return [self.path / name for name in gone if is_snapshot(self.path / name)]

    def unlisted(self) -> list[Path]:
        """Return the files of no case that are on no list and hold a hierarchy."""
        known = {*ownership.read_list(self.path), *self.cases}
        files = [file for file in self.path.glob("*.txt") if file.name not in known] if self.whole else []
        return [file for file in files if not file.is_symlink() and is_hierarchy(file)]

    def of_others(self, name: str) -> set[str]:
        """Return the files that are listed for another manifest or configuration file than those that state a case."""
        known = {*self.whole, *self.selections[name]}
        listed = ownership.read_list(self.path).items()
        return {file for file, owners in listed if known.isdisjoint(owners) and any(map(self._is_there, owners))}

    def update(self, passed: Iterable[str]) -> list[str]:
        """Remove orphans, write the list anew and return the names of the removed."""
        removed = ownership.remove(self.path, [file.name for file in self.listed()])
        listed = ownership.read_list(self.path)
        files = {name: self._others(owners) if self.whole else {*owners} for name, owners in listed.items()}
        for name, case in self.cases.items():
            if case.name in passed:
                files[name] = {*files.get(name, ()), *self.selections[name]}
        ownership.write_list(self.path, {name: tuple(sorted(owners)) for name, owners in files.items() if owners})
        return [Path(name).stem for name in removed]

    def _others(self, owners: Iterable[str]) -> set[str]:
        """Return the owners without the whole selections and without manifests or configuration files that are gone."""
        return {owner for owner in owners if owner not in self.whole and not self._is_gone(owner)}

    def _is_gone(self, owner: str) -> bool:
        """Whether an owner is a file that is there no more, or that pytest has left to other tools."""
        path = self.path.parent / owner
        # pytest names a pyproject.toml as its configuration also where that has no table of it.
        sections = () if path.name == "pyproject.toml" else SECTIONS.get(path.name, ())
        text = path.read_text("utf-8", errors="replace") if sections and path.exists() else ""
        is_there = any(each in text for each in sections) if sections else path.exists()
        return owner.endswith(_FILES) and not is_there

    def _is_there(self, owner: str) -> bool:
        return owner.endswith(_FILES) and not self._is_gone(owner)


def _folders(plan: Plan, *, whole: bool) -> Iterator[_Folder]:
    by_file = {plan.snapshot(case): case for case in plan.cases}
    complete = _whole(plan) if whole else []
    beside = [snapshot_file(path, "any").parent for path in complete if isinstance(path, Path)]
    for folder in dict.fromkeys([*(file.parent for file in by_file), *beside]):
        cases = {file.name: case for file, case in by_file.items() if file.parent == folder}
        selections = {name: _named(_selections_of(plan, case), folder) for name, case in cases.items()}
        yield _Folder(folder, cases, selections, frozenset(_named(complete, folder)))


def _named(selections: Iterable[Path | str], folder: Path) -> tuple[str, ...]:
    """Return selections as a list names them: files by their path from the parent of the list's folder."""
    return tuple(
        relative(selection, folder.parent) if isinstance(selection, Path) else selection for selection in selections
    )


def _selections_of(plan: Plan, case: Case) -> list[Path | str]:
    """Return the selections that state a case: files, else its selector, else `all` where it is of the zoo.

    The result of a step that the command line states belongs to that option.
    """
    from pytest_hierexport._cases.zoo import ZOO

    settings, ini = plan.settings, plan.config.inipath
    if case.previous is not None and settings.given.after:
        # No selection states this step: a run without the option must not take its snapshots for orphans.
        return ["--hierexport-after"]
    by_ini = ini is not None and (settings.given.models is None or case.source in (settings.stated.models or ()))
    files = [path for path in (case.manifest, ini if by_ini else None) if path is not None]
    files += plan.conftests(_HOOK) if by_ini and exported_case(case).name in plan.in_code else []
    return [*files] or [EVERYTHING if case.source in ZOO else case.source]


def _whole(plan: Plan) -> list[Path | str]:
    """Return the selections of which a run selects every model."""
    settings, ini = plan.settings, plan.config.inipath
    if settings.given.after:
        return []  # The steps that a selection states are not run.
    overridden = any(text.startswith("hierexport_models") for text in plan.config.getoption("override_ini") or ())
    stated, in_code = settings.stated.models, plan.config.hook.pytest_hierexport_models.get_hookimpls()
    # Selectors on the command line leave out the models of a hook.
    repeated = bool(stated and not in_code and set(stated) <= set(settings.selectors))
    by_ini = not overridden and (settings.given.models is None or repeated)
    # The source of a single model, or of the result of its step, is `models.toml::name`.
    stating = [case.manifest for case in plan.cases if case.manifest == absolute(settings.base / case.source)]
    whole: list[Path | str] = [manifest for manifest in stating if manifest is not None]
    whole += [ini, *plan.conftests(_HOOK)] if ini is not None and by_ini else []
    return [*whole, EVERYTHING] if EVERYTHING in settings.selectors else whole
