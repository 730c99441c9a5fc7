"""Composes the commands that messages propose: they run one item again, or update the snapshots, as this run would.

pytest --hierexport-models=bert -m hierexport -k snapshot       the run
pytest --hierexport-models=bert .::bert::test_snapshot          repeats an item
pytest --hierexport-models=bert -m hierexport --snapshot-update updates the snapshots
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from pytest_hierexport._cases import Case
from pytest_hierexport._files.paths import CONFIGURATIONS
from pytest_hierexport._pytest.options import in_repeat
from pytest_hierexport._pytest.plan import Plan

_HOOKS = "pytest_hierexport_models", "pytest_hierexport_rules"


def repeat_command(plan: Plan, case: Case, test: str, *more: str) -> str:
    """Return the command that runs one item again, from the folder that pytest was started in."""
    item, anchor = plan.item_id(case, test, plan.settings.here), plan.anchor(case)
    # pytest loads the conftests on the way to a path, and those of `test*` folders only without one.
    hidden = [path for path in plan.conftests(*_HOOKS) if path.parent not in (anchor, *anchor.parents)]
    return shlex.join(["pytest", *more, *_options(plan, [case.source], anchor), *map(plan.shown, hidden), item])


def update_command(plan: Plan) -> str:
    """Return the command that updates all models' snapshots, removes orphans and keeps other tests' snapshots."""
    return shlex.join(["pytest", *_options(plan, plan.settings.selectors), "-m", "hierexport", "--snapshot-update"])


def _options(plan: Plan, selectors: Sequence[str], named: Path | None = None) -> list[str]:
    """Return the options that repeat the run, where the command names a path."""
    config = plan.config
    file, root, ini = config.getoption("inifilename"), config.getoption("rootdir"), config.inipath
    if named is not None and not file and _has_nearer(named, ini.parent if ini else config.rootpath):
        file = plan.shown(ini) if ini else os.devnull
        root = root or (None if ini else plan.shown(config.rootpath))
    own = [*(["-c", str(file)] if file else []), *([f"--rootdir={root}"] if root else [])]
    overrides = filter(in_repeat, config.getoption("override_ini") or ())
    pairs = (*(("-p", name) for name in _plugins(config.invocation_params.args)), *(("-o", each) for each in overrides))
    return [*own, *(part for pair in pairs for part in pair), *plan.settings.arguments(selectors)]


def _plugins(arguments: Sequence[str]) -> list[str]:
    """Return the plugins that a command line loads."""
    pairs = pairwise((*arguments, ""))
    names = (after if each == "-p" else each[2:] for each, after in pairs if each.startswith("-p"))
    return [name for name in names if name and not name.startswith("no:")]


def _has_nearer(path: Path, stated: Path) -> bool:
    """Whether pytest, given this path, may take a configuration file that lies nearer to it than a folder."""
    between = (folder for folder in path.parents if stated in folder.parents)
    return any((folder / name).is_file() for folder in between for name in CONFIGURATIONS)
