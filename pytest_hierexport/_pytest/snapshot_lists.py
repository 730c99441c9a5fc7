"""Which snapshots are whose, and removing those of models that a selection states no longer.

Several selections may share a folder of snapshots: two configuration files, a manifest and a factory on the command
line. The folder's list (see :mod:`pytest_hierexport._files.ownership`) says for which of them each was written;
a run removes what was written for its own selections alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._cases.selectors import EVERYTHING
from pytest_hierexport._files import ownership
from pytest_hierexport._pytest.snapshots import is_updating
from pytest_hierexport._report.results import SNAPSHOT, Results, Verdict

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.run import Run

__all__ = ["find_orphans", "update_lists"]


def update_lists(run: Run, results: Results, *, complete: bool) -> list[str]:
    """List the snapshots of a run that updates them; remove the stale ones and return their names.

    Args:
        run: The run.
        results: What became of its checks: a snapshot that failed was not written.
        complete: Whether it checked all that it selects; else nothing is stale.

    Raises:
        OSError: A list cannot be written, or a snapshot not removed.
    """
    if not is_updating(run.config):
        return []
    passed = {model.name for model in results.models if model.verdict(SNAPSHOT) is Verdict.PASSED}
    folders = _folders(run, whole=complete)
    return sorted(name for folder in folders for name in folder.update(passed))


def find_orphans(run: Run) -> list[Path]:
    """Return the snapshots of models that the run's selections state no longer; for a complete run alone."""
    return sorted(file for folder in _folders(run, whole=True) for file in folder.stale())


@dataclass(frozen=True)
class _Folder:
    """A folder of snapshots, as a run sees it."""

    path: Path
    cases: Mapping[str, Case]
    """The run's case of each snapshot, by the file's name."""
    selections: Mapping[str, tuple[str, ...]]
    """What states these cases, by the file's name."""
    whole: frozenset[str]
    """The selections that the run makes in full: it knows all that they state."""

    def stale(self) -> list[Path]:
        """Return the snapshots of no case that were written for whole selections, and for no other that is left."""
        from pytest_hierexport._snapshot import is_snapshot

        listed = ownership.read_list(self.path)
        gone = [name for name, owners in listed.items() if self.whole.intersection(owners) and not self._others(owners)]
        return [self.path / name for name in gone if name not in self.cases and is_snapshot(self.path / name)]

    def update(self, passed: Iterable[str]) -> list[str]:
        """Write the list anew, remove what is stale and return its names."""
        removed = ownership.remove(self.path, [file.name for file in self.stale()])
        files = {name: self._others(owners) for name, owners in ownership.read_list(self.path).items()}
        for name, case in self.cases.items():
            if case.name in passed:
                files[name] = {*files.get(name, ()), *self.selections[name]}
        ownership.write_list(self.path, {name: tuple(sorted(owners)) for name, owners in files.items() if owners})
        return [Path(name).stem for name in removed]

    def _others(self, owners: Iterable[str]) -> set[str]:
        """Return the owners but for the whole selections and for files that there are no longer."""
        return {owner for owner in owners if owner not in self.whole and not self._is_gone(owner)}

    def _is_gone(self, owner: str) -> bool:
        return owner.endswith((".toml", ".ini", ".cfg")) and not (self.path.parent / owner).exists()


def _folders(run: Run, *, whole: bool) -> Iterator[_Folder]:
    from pytest_hierexport._pytest.extension import snapshot_file

    by_file = {snapshot_file(run.anchor(case), case.name): case for case in run.cases}
    for folder in dict.fromkeys(file.parent for file in by_file):
        cases = {file.name: case for file, case in by_file.items() if file.parent == folder}
        selections = {name: _named(_selections_of(run, case), folder) for name, case in cases.items()}
        yield _Folder(folder, cases, selections, frozenset(_named(_whole(run), folder) if whole else ()))


def _named(selections: Iterable[Path | str], folder: Path) -> tuple[str, ...]:
    """Return selections as a list names them: files by their path from the folder that the list's folder lies in."""
    return tuple(
        Path(os.path.relpath(selection, folder.parent)).as_posix() if isinstance(selection, Path) else selection
        for selection in selections
    )


def _selections_of(run: Run, case: Case) -> list[Path | str]:
    """Return what states a case: files, else its selector, else `all` where it is of the zoo."""
    from pytest_hierexport._cases.zoo import ZOO

    settings, ini = run.settings, run.config.inipath
    by_ini = ini is not None and (not settings.from_option or case.source in settings.stated)
    files = [path for path in (case.manifest, ini if by_ini else None) if path is not None]
    return [*files] or [EVERYTHING if case.source in ZOO else case.source]


def _whole(run: Run) -> list[Path | str]:
    """Return the selections that a run makes in full."""
    settings, ini = run.settings, run.config.inipath
    overridden = any(text.startswith("hierexport_models") for text in run.config.getoption("override_ini") or ())
    by_ini = not settings.from_option or (settings.stated and set(settings.stated) <= set(settings.selectors))
    whole: list[Path | str] = [case.manifest for case in run.cases if case.manifest is not None]
    whole += [ini] if ini is not None and by_ini and not overridden else []
    return [*whole, EVERYTHING] if EVERYTHING in settings.selectors else whole
