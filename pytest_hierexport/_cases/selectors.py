"""Resolves model selectors (zoo names, factories, manifests, checkpoints) to cases, without importing a model."""

from __future__ import annotations

import fnmatch
import importlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._cases.case import Case
from pytest_hierexport._cases.checkpoint import checkpoint_case
from pytest_hierexport._cases.factories import (
    call_by_name,
    check_defined,
    factories_of,
    file_of_spec,
    find_module,
    functions_of,
    load_from_file,
    load_from_module,
    proposed_function,
)
from pytest_hierexport._cases.manifest import read_manifest, read_selectors
from pytest_hierexport._errors import CollectError, NoVerdictError, UsageError, not_installed, proposal, similar
from pytest_hierexport._files.listings import names_in
from pytest_hierexport._files.paths import absolute, exists, is_folder

if TYPE_CHECKING:
    from pytest_hierexport._cases.zoo import Entry

_GLOB = frozenset("*?[")
_NAMED = re.compile(r"(?P<name>[^=:/\\]+)=(?P<selector>.+)", re.DOTALL)
_MANIFEST = ".toml"
EVERYTHING = "all"
_ONNX = ".onnx"
_FAMILY = "family:"


def split(text: str) -> list[str]:
    """Return the selectors of a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


@dataclass(frozen=True)
class _Project:
    """The models that a project offers, beside those of selectors that name a file."""

    root: Path
    own: Mapping[str, Case]
    manifests: Sequence[Path]

    def selectors(self) -> dict[str, str]:
        """Return the selector of each model by its name: of those in code, and in manifests, also in the root's."""
        found = dict(zip(self.own, self.own, strict=True))
        for path in (*self.manifests, *sorted(self.root.glob(f"*{_MANIFEST}"))):
            # A file that is no manifest offers none.
            with suppress(CollectError):
                for name in read_selectors(path):
                    found.setdefault(name, f"{os.path.relpath(path, self.root)}::{name}")
        return found


def select(
    selectors: Sequence[str],
    root: Path,
    own: Mapping[str, Case] | None = None,
    manifests: Sequence[Path] = (),
) -> list[Case]:
    """Return the cases of the selectors, in their order, without importing a model.

    Args:
        selectors: Zoo names and globs, `family:NAME`, `all`, `file.py::factory`, `file.py::*`,
            `package.module:factory`, manifests (`models.toml`) and models of one (`models.toml::name`), checkpoint
            folders or their `config.json`; `NAME=` before any of them that is one model gives it that name.
        root: The folder that relative paths start from.
        own: The cases that the project defines in code, by name.
        manifests: Those whose models a message may propose, beside those in the root.

    Raises:
        UsageError: A selector matches nothing (the message names the nearest), or two cases share a name.
        CollectError: A manifest cannot be read.
    """
    if not selectors:
        raise UsageError(
            "at least one model",
            found="an empty selection",
            do="name models: --hierexport-models=all, or file.py::factory",
        )
    cases: dict[str, Case] = {}
    project = _Project(root, own or {}, manifests)
    for case in (case for selector in selectors for case in _selected(selector, project)):
        known = cases.setdefault(case.name, case)
        if (known.source, known.anchor) != (case.source, case.anchor):
            raise UsageError(
                "a different name for each selected model",
                found=f"two models named {case.name}: {known.source} and {case.source}",
                do=f"give one of them a name: other={_single(case)}, or name the models in a manifest (models.toml)",
            )
    return list(cases.values())


def _single(case: Case) -> str:
    """Return a selector of a case alone, without a name that one gave it."""
    named = _NAMED.fullmatch(case.source)
    source = named["selector"] if named else case.source
    path, _, name = source.partition("::")
    return source if case.manifest is None or name else f"{path}::{case.name}"


def select_one(selector: str) -> Case:
    """Return the one case that a selector names, its paths from the working directory; see :func:`select`.

    Raises:
        UsageError: It matches nothing, or several models.
        CollectError: A manifest cannot be read.
    """
    cases = select([selector], Path.cwd())
    if len(cases) != 1:
        raise UsageError(
            "a selector of one model",
            found=", ".join(case.name for case in cases),
            do=f"name one of them, such as {_single(cases[0])}",
        )
    return cases[0]


def _selected(selector: str, project: _Project) -> list[Case]:
    if selector in project.own:
        return [project.own[selector]]
    named = _NAMED.fullmatch(selector)
    if named is None or exists(project.root / selector.partition("::")[0]):
        return _cases(selector, project)
    cases = _selected(named["selector"], project)
    if len(cases) == 1:
        return [replace(cases[0], name=named["name"], source=selector)]
    raise UsageError(
        f"one model for the name {named['name']}",
        found=", ".join(case.name for case in cases),
        do="give each of them a selector with a name of its own",
    )


def _cases(selector: str, project: _Project) -> list[Case]:
    root = project.root
    if selector.endswith(_MANIFEST) or f"{_MANIFEST}::" in selector:
        return _manifest(selector, root)
    if "::" in selector or selector.endswith(".py"):
        return _file_factories(selector, root)
    if "/" in selector or os.sep in selector or selector.endswith(".json"):
        return [_checkpoint(selector, root)]
    if entries := _from_zoo(selector):
        return [_zoo_case(entry) for entry in entries]
    if is_folder(root / selector):
        return [_bare_folder(selector, project)]
    if ":" in selector and not selector.startswith(_FAMILY):
        return [_module_factory(selector, root)]
    raise _unknown(selector, project)


def _manifest(selector: str, root: Path) -> list[Case]:
    file, ending, name = selector.partition(f"{_MANIFEST}::")
    path = _existing(f"{file}{_MANIFEST}" if ending else selector, root, "a manifest")
    return read_manifest(path, selector, select, name or None)


def _file_factories(selector: str, root: Path) -> list[Case]:
    """Return the case of a factory, or of every factory of a file whose name matches a glob."""
    file, _, name = selector.rpartition("::") if "::" in selector else (selector, "", "")
    path = _existing(file, root, "a Python file")
    if is_folder(path):
        raise UsageError("file.py::factory", found=f"{selector}, whose file is a folder", do="name a Python file in it")
    if not name:
        raise UsageError(
            "file.py::factory",
            found=selector,
            do=f"name one of its functions: {', '.join(functions_of(path)) or 'it has none'}",
        )
    if _GLOB.isdisjoint(name):
        check_defined(path, name, "a factory named")
        return [Case(name, partial(load_from_file, path, name), selector, anchor=path)]
    found = [other for other in factories_of(path) if fnmatch.fnmatchcase(other, name)]
    if found:
        return [Case(other, partial(load_from_file, path, other), f"{file}::{other}", anchor=path) for other in found]
    raise UsageError(
        f"a factory that {name} matches in {path}",
        found="no function of that name that takes no argument and returns something",
        do=proposed_function(path, name),
    )


def _module_factory(selector: str, root: Path) -> Case:
    module, _, name = selector.partition(":")
    found = find_module(module, root)
    if found is None or not name:
        raise UsageError(
            "package.module:factory",
            found=f"{selector}, and no module {module} on sys.path or in {root}" if name else selector,
            do="name an installed module, add its folder to PYTHONPATH (in a test run, or to pytest's pythonpath), or "
            "write file.py::factory",
        )
    if (file := file_of_spec(found)) is not None:
        check_defined(file, name, "a factory named")
    return Case(name.rpartition(".")[2], partial(load_from_module, module, name, root, file), selector, anchor=file)


def _checkpoint(selector: str, root: Path) -> Case:
    return checkpoint_case(_existing(selector, root, "a checkpoint folder"), selector)


def _bare_folder(selector: str, project: _Project) -> Case:
    """Return the case of a checkpoint whose folder may have the name of a model, as that of a package often has."""
    try:
        return _checkpoint(selector, project.root)
    except UsageError as error:
        offered = project.selectors()
        if not similar(selector, offered):
            raise
        do = f"{proposal(selector, offered, offered)}; else {error.do}"
        raise UsageError(error.expected, found=error.found, do=do) from None


def _existing(text: str, root: Path, what: str) -> Path:
    path = absolute(root / text)
    if exists(path):
        return path
    others = sorted(names_in(path.parent))
    if not similar(path.name, others):
        others = [name for name in others if Path(name).suffix == path.suffix] or others
    near = f", {proposal(path.name, others)}" if others else ""
    raise UsageError(what, found=f"no {text} in {root}", do=f"give a path that exists{near}")


def _from_zoo(selector: str) -> list[Entry]:
    """Return the zoo's entries that match a selector, in the zoo's order."""
    from pytest_hierexport._cases.zoo import EXTRAS, ZOO

    named = {**ZOO, **EXTRAS}
    if selector == EVERYTHING:
        return list(ZOO.values())
    if selector.startswith(_FAMILY):
        family = selector.removeprefix(_FAMILY)
        return [entry for entry in named.values() if entry.family == family]
    if _GLOB.isdisjoint(selector):
        return [named[selector]] if selector in named else []
    return [entry for name, entry in ZOO.items() if fnmatch.fnmatchcase(name, selector)]


def _unknown(selector: str, project: _Project) -> UsageError:
    from pytest_hierexport._cases.zoo import EXTRAS, ZOO

    named = {**ZOO, **EXTRAS}
    if selector.endswith(_ONNX):
        return UsageError(
            "a PyTorch model",
            found=f"{selector}, the name of an ONNX file",
            do=f"name the model that it was exported from; hierexport validate {selector} checks the file by itself",
        )
    if selector.startswith(_FAMILY):
        family, families = selector.removeprefix(_FAMILY), sorted({entry.family for entry in named.values()})
        return UsageError("a family of the zoo", found=f"no {family!r}", do=proposal(family, families))
    offered = project.selectors()
    files = sorted(path.name for path in project.root.glob("*") if path.suffix in {_MANIFEST, ".py"})
    return UsageError(
        "a model of the zoo, file.py::factory, a manifest or a checkpoint",
        found=f"no {selector!r}",
        do=proposal(selector, dict.fromkeys([*offered, *files, *named]), offered),
    )


def _zoo_case(entry: Entry) -> Case:
    module, _, factory = entry.factory.partition(":")
    make = partial(_zoo_model, module, factory, extra=entry.extra)
    return Case(entry.name, make, entry.name, tolerances=entry.tolerances)


def _zoo_model(module: str, factory: str, *, extra: str) -> object:
    what = "for a model of the zoo"
    try:
        return call_by_name(importlib.import_module(module), factory)
    except ModuleNotFoundError as error:
        if error.name is None:  # transformers raises it for any error in one of its modules, with that in its message
            raise
        if not extra:
            raise not_installed(error.name, what) from None
        command = f"pip install 'pytest-hierexport[{extra}]'"
        raise NoVerdictError(
            f"{error.name} {what}", found=f"not run: {error.name} is not installed; {command}", do=command
        ) from None
