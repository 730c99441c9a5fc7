"""Collects items without a test file: a class per case, below the case's anchor."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from pytest_hierexport._cases import Case
from pytest_hierexport._files.paths import absolute, is_folder, relative
from pytest_hierexport._pytest import items
from pytest_hierexport._pytest.plan import Plan
from pytest_hierexport._pytest.run import RUN
from pytest_hierexport._text import counted, escape, first_names, one_line


class CasesFile(pytest.Module):
    """The models of one anchor; its module is the packaged suite, so the anchor is never imported."""

    cases: tuple[Case, ...]

    def _getobj(self) -> ModuleType:
        return items

    def collect(self) -> Iterable[CaseClass]:
        """Yield a class per model."""
        for case in self.cases:
            node = CaseClass.from_parent(self, name=escape(case.name))
            node.case = case
            yield node


class CaseClass(pytest.Class):
    """The tests of one model."""

    case: Case

    def _getobj(self) -> type[items.ModelSuite]:
        document = one_line(f"The MUST rules and the snapshot on {self.case.name} ({self.case.source}).")
        namespace = {"case": self.case, "__module__": items.__name__, "__doc__": document}
        return type(self.name, (items.ModelSuite,), namespace)

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield the tests at the place of their model, where editors and annotations lead their users."""
        file, line = self.config.stash[RUN].plan.place(self.case)
        for item in super().collect():
            if isinstance(item, pytest.Item):
                item.location = (relative(file, self.config.rootpath), line - 1, item.location[2])
            yield item


class Relay(pytest.Collector):
    """Collects the anchors that pytest would not reach, or whose items it could not name by id.

    It is no `pytest.File`: `--lf` skips files without failures of their own.
    """

    anchors: Mapping[Path, tuple[Case, ...]]

    def collect(self) -> Iterator[CaseClass]:
        """Yield the classes themselves, so that the model's name follows the path in an id."""
        for anchor, cases in self.anchors.items():
            yield from cases_file(self, anchor, cases).collect()


def cases_file(parent: pytest.Collector, anchor: Path, cases: tuple[Case, ...]) -> CasesFile:
    """Return the collector of an anchor's cases."""
    # `-k` searches the names of an item's collectors: that of the project's own folder would select all models.
    name = os.curdir if anchor == parent.config.rootpath else None
    file = CasesFile.from_parent(parent, path=anchor, name=name)
    file.cases = cases
    return file


def relayed(plan: Plan) -> dict[Path, tuple[Case, ...]]:
    """Return the anchors that the relay collects, with their cases.

    - The root directory: an id cannot start with a folder.
    - A file that a walk from the root would ignore: pytest drops an argument below another one and walks instead.
    - A file whose path holds `[`, which begins the parameters of a test in an argument.

    Where the arguments choose among the models, it collects those alone.
    """
    root, wanted = plan.config.rootpath, named_anchors(plan) if chooses(plan) else plan.anchors
    return {
        anchor: cases
        for anchor, cases in plan.anchors.items()
        if anchor in wanted and (anchor == root or "[" in plan.shown(anchor) or _is_ignored(plan.config, anchor))
    }


def _is_ignored(config: pytest.Config, anchor: Path) -> bool:
    below = [path for path in (anchor, *anchor.parents) if config.rootpath in path.parents]
    return any(config.hook.pytest_ignore_collect(collection_path=path, config=config) for path in below)


def _split(argument: str, here: Path) -> tuple[Path, str]:
    """Split an argument of pytest into its path and the rest: `::bert::test_must[MUST-001]`."""
    path, colons, rest = argument.partition("::")
    return absolute(here / path), colons + rest


def names_a_file(config: pytest.Config, files: Iterable[Path]) -> bool:
    """Whether an argument is one of these files, or an id below one."""
    return not {_split(argument, config.invocation_params.dir)[0] for argument in config.args}.isdisjoint(files)


def named_anchors(plan: Plan) -> dict[Path, str]:
    """Return the anchors that arguments name, with the rest of each argument; only an id names a folder."""
    named = (_split(argument, plan.settings.here) for argument in plan.config.args)
    return {path: rest for path, rest in named if path in plan.anchors and (rest or path.is_file())}


def not_named(plan: Plan) -> str:
    """Return the line that tells why no model runs, where the arguments name none, and what runs them."""
    files = [plan.shown(anchor) for anchor in plan.anchors if anchor.is_file()]
    run = f"pytest {first_names(files)}" if files else "pytest without paths"
    models = counted(len(plan.selected), "model")
    return one_line(f"hierexport: {models} not selected, as the command line names other paths; to run them: {run}")


def chooses(plan: Plan) -> bool:
    """Whether the arguments choose among the models: by an item's id, or among those of the ini by their files."""
    by_file = plan.settings.given.models is None and plan.config.args_source is plan.config.ArgsSource.ARGS
    return by_file or any(named_anchors(plan).values())


def arguments(plan: Plan) -> list[str]:
    """Return pytest's arguments; where they do not choose among the models, with every anchor added.

    A walk through a folder among the arguments reaches what lies below it. pytest 9 drops an argument for a file
    there; pytest 8 walks no further than that file.
    """
    here, named, by_relay = plan.settings.here, named_anchors(plan), relayed(plan)
    split = [(argument, *_split(argument, here)) for argument in plan.config.args]
    own = by_relay.keys() & named.keys()
    given = list(dict.fromkeys(f"{plan.relay}{rest}" if path in own else argument for argument, path, rest in split))
    if chooses(plan):
        return given
    if plan.config.args_source is plan.config.ArgsSource.INVOCATION_DIR:
        given, split = [os.curdir], [(os.curdir, here, "")]
    walked = {path for _, path, rest in split if not rest and is_folder(path)}
    reached = {each for each in plan.anchors if each not in by_relay and not walked.isdisjoint(each.parents)}
    added = (each for each, cases in plan.anchors.items() if cases and each not in named and each not in reached)
    # Relative, for the name of a folder above may hold `[`, too; pathlib would drop the leading dot.
    return [*given, *dict.fromkeys(str(plan.relay) if each in by_relay else f"./{plan.shown(each)}" for each in added)]


def replaces_module(plan: Plan, path: Path) -> bool:
    """Whether pytest would import an anchor as a test module only because it is among our arguments.

    The file of a factory is imported when its model is built, not while tests are collected.
    """
    if path not in plan.anchors or any(path.match(pattern) for pattern in plan.config.getini("python_files")):
        return False
    names = {escape(case.name) for case in plan.anchors[path]}
    split = [_split(argument, plan.settings.here) for argument in plan.config.invocation_params.args]
    return all(rest.removeprefix("::").partition("::")[0] in names for named, rest in split if named == path)
