"""Words the commands that a message tells the user to run: to repeat an item, to update the snapshots."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.plan import Plan

__all__ = ["repeat_command", "update_command"]


def repeat_command(plan: Plan, case: Case, test: str, *more: str) -> str:
    """Return the command that runs one item again, with more options, from the folder that pytest was started in."""
    item = plan.item_id(case, test, plan.config.invocation_params.dir)
    return shlex.join(["pytest", *more, *_options(plan, [case.source]), item])


def update_command(plan: Plan) -> str:
    """Return the command that updates all models' snapshots, removes orphans and keeps other tests' snapshots."""
    return shlex.join(["pytest", *_options(plan, plan.settings.selectors), "-m", "hierexport", "--snapshot-update"])


def _options(plan: Plan, selectors: Sequence[str]) -> list[str]:
    file, root = plan.config.getoption("inifilename"), plan.config.getoption("rootdir")
    own = [*(["-c", str(file)] if file else []), *([f"--rootdir={root}"] if root else [])]
    return [*own, *plan.settings.arguments(selectors)]
