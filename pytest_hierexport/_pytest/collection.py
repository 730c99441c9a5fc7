"""Items without a test file: they hang on an anchor, a class per case."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hierexport._calls.names import one_line
from pytest_hierexport._files.paths import absolute
from pytest_hierexport._pytest import items
from pytest_hierexport._pytest.ids import escape

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._pytest.run import Run

__all__ = [
    "CaseClass",
    "CasesFile",
    "Relay",
    "arguments",
    "cases_file",
    "named_anchors",
    "relay",
    "relayed",
    "replaces_module",
]


class CasesFile(pytest.Module):
    """The models that hang on one anchor; its module is the packaged suite, so the anchor is never imported."""

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
        namespace: Mapping[str, Any] = {"case": self.case, "__module__": items.__name__, "__doc__": document}
        return type(self.name, (items.ModelSuite,), dict(namespace))


class Relay(pytest.Collector):
    """Stands for the anchors that pytest would not reach, or whose items it would not let be named by id.

    It is no `pytest.File`, which `--lf` would skip for having no failures itself.
    """

    anchors: Mapping[Path, tuple[Case, ...]]

    def collect(self) -> Iterator[CaseClass]:
        """Yield the classes themselves: an id's first name after the path is the model's."""
        for anchor, cases in self.anchors.items():
            yield from cases_file(self, anchor, cases).collect()


def cases_file(parent: pytest.Collector, anchor: Path, cases: tuple[Case, ...]) -> CasesFile:
    """Return the collector of the cases that hang on an anchor."""
    file = CasesFile.from_parent(parent, path=anchor)
    file.cases = cases
    return file


def relay(parent: pytest.Collector, path: Path, anchors: Mapping[Path, tuple[Case, ...]]) -> Relay:
    """Return the collector that stands for these anchors."""
    node = Relay.from_parent(parent, name=path.name, path=path)
    node.anchors = anchors
    return node


def relayed(run: Run) -> dict[Path, tuple[Case, ...]]:
    """Return the anchors that go by the relay, with their cases.

    An id cannot start with a folder, so the root directory does. So does a file that a walk from the root would
    ignore: pytest drops the arguments that lie below another one and walks there by itself. So does a file whose
    path holds `[`, which begins the parameters of a test in an argument.
    """
    root, here = run.config.rootpath, run.config.invocation_params.dir
    return {
        anchor: cases
        for anchor, cases in run.anchors.items()
        if anchor == root or "[" in _argument(anchor, here) or _is_ignored(run.config, anchor)
    }


def _argument(path: Path, here: Path) -> str:
    """Return a path as an argument of pytest: from the folder that it was started in, whose name may hold `[`."""
    try:
        return os.path.join(os.curdir, os.path.relpath(path, here))  # noqa: PTH118  # Path drops the leading dot
    except ValueError:  # another drive
        return str(path)


def _is_ignored(config: pytest.Config, anchor: Path) -> bool:
    below = [path for path in (anchor, *anchor.parents) if config.rootpath in path.parents]
    return any(config.hook.pytest_ignore_collect(collection_path=path, config=config) for path in below)


def split_argument(argument: str, here: Path) -> tuple[Path, str]:
    """Split a command line's argument into its path and what follows the path: `::bert::test_must[MUST-001]`."""
    path, colons, rest = argument.partition("::")
    return absolute(here / path), colons + rest


def named_anchors(run: Run) -> dict[Path, str]:
    """Return the anchors that arguments name, with what follows the path; a folder is named by an id alone."""
    named = (split_argument(argument, run.config.invocation_params.dir) for argument in run.config.args)
    return {path: rest for path, rest in named if path in run.anchors and (rest or path.is_file())}


def arguments(run: Run) -> list[str]:
    """Return pytest's arguments with every anchor among them; where an item is named by its id, with that alone."""
    here, named, by_relay = run.config.invocation_params.dir, named_anchors(run), relayed(run)
    split = [(argument, *split_argument(argument, here)) for argument in run.config.args]
    given = [f"{run.relay}{rest}" if rest and path in by_relay else argument for argument, path, rest in split]
    if any(named.values()):
        return given
    if run.config.args_source is run.config.ArgsSource.INVOCATION_DIR:
        given = [os.curdir]
    added = [
        str(run.relay) if anchor in by_relay else _argument(anchor, here)
        for anchor in run.anchors
        if anchor not in named
    ]
    return [*given, *dict.fromkeys(added)]


def replaces_module(run: Run, path: Path) -> bool:
    """Whether pytest would import an anchor as a test module only because we named it.

    The file of a factory is imported when its model is built, not while tests are collected.
    """
    patterns = run.config.getini("python_files")
    if any(path.match(pattern) for pattern in patterns):
        return False
    names = {escape(case.name) for case in run.anchors.get(path, ())}
    for argument in run.config.invocation_params.args:
        named, rest = split_argument(argument, run.config.invocation_params.dir)
        if named == path and rest.removeprefix("::").partition("::")[0] not in names:
            return False
    return path in run.anchors
