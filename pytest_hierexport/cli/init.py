"""Runs `hierexport init`: writes the manifest, the first snapshots and the CI system's workflow of a project."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._errors import CollectError, UsageError
from pytest_hierexport._files.temporary import temporary_folder
from pytest_hierexport._text import counted, first_names
from pytest_hierexport.cli.output import print_line, print_lines, progress

if TYPE_CHECKING:
    from pytest_hierexport._report.results import Results

SUMMARY = "start a project"
DESCRIPTION = (
    "Write a manifest of the project's models, their first snapshots and the workflow that checks them. "
    "Of the files that are there, none is changed but a manifest without the models that SELECTOR names."
)
EXAMPLE = "hierexport init my_model.py::build"

_LAST_LINES = 10
_MOST_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "selectors",
        metavar="SELECTOR",
        nargs="*",
        help="the models: file.py::factory, a checkpoint folder and the like; without any, the functions of the "
        "project that return a model with its inputs",
    )


def run(options: argparse.Namespace) -> int:
    from pytest_hierexport._cases import select
    from pytest_hierexport._cases.checkpoint import is_checkpoint
    from pytest_hierexport._cases.steps import with_deployed
    from pytest_hierexport._files.atomic import write_new
    from pytest_hierexport._pytest.ids import SNAPSHOTS, snapshot_file
    from pytest_hierexport._tools.starting import MANIFEST, add_models, manifest_text, to_configure, workflow_of

    here = Path.cwd()
    manifest = here / MANIFEST
    kept = False
    if not manifest.exists():
        models = _named(options.selectors, here) if options.selectors else _found(here)
        write_new(manifest, manifest_text(models))
        print_line(f"wrote {MANIFEST}: {first_names(list(models), _MOST_SHOWN)}")
    elif more := _missing_in(manifest, options.selectors):
        add_models(manifest, more)
        print_line(f"added to {MANIFEST}: {first_names(list(more), _MOST_SHOWN)}")
    else:
        print_line(f"kept {MANIFEST}, which was there")
        kept = True
    cases = select([MANIFEST], here)
    names = [each.name for case in cases for each in with_deployed(case)]
    kept = kept and all(snapshot_file(here, name).exists() for name in names)
    failed = _snapshots(names, here)
    workflow = workflow_of(here, ["transformers"] if any(map(is_checkpoint, cases)) else [])
    is_new = write_new(workflow.path, workflow.text)
    print_line(f"{'wrote' if is_new else 'kept'} {_shown(workflow.path, here)}{'' if is_new else ', which was there'}")
    files = [MANIFEST, SNAPSHOTS, _shown(workflow.path, here)]
    to_do = [
        *(["fix the models above, or remove them from the manifest, then: hierexport init"] if failed else []),
        *([workflow.to_do] if workflow.to_do else []),
        *([] if kept and not is_new else [f"read the snapshots, and commit: git add {shlex.join(files)}"]),
        *([f"let a plain pytest check the models: add {line}"] if (line := to_configure(here)) else []),
        f"check every rule: pytest {MANIFEST} --hierexport-models={MANIFEST}",
        f"after a change that is meant: pytest {MANIFEST} --hierexport-models={MANIFEST} --snapshot-update",
    ]
    print_lines(["next:", *(f"  {step}" for step in to_do)])
    return 1 if failed else 0


def _named(selectors: Sequence[str], root: Path) -> dict[str, str]:
    """Return the selected models: the selector of each by its name."""
    from pytest_hierexport._cases import select
    from pytest_hierexport._tools.starting import distinct_names

    cases = [case for selector in selectors for case in select([selector], root)]
    if any(case.manifest is not None for case in cases):
        raise UsageError("models for a manifest", found="a manifest", do="name its models one by one, or copy it")
    names = {case.source: case.name for case in cases}
    models = {name: source for source, name in names.items()}
    if len(models) < len(names):
        given = {name: source for name, source in models.items() if source.startswith(f"{name}=")}
        models = given | distinct_names(source for source, name in names.items() if name not in given)
    if len(models) < len(names):
        raise UsageError(
            "a different name for each model",
            found=f"{', '.join(source for source in names if source not in models.values())}, named as another",
            do="choose names: hierexport init NAME=SELECTOR …",
        )
    return models


def _missing_in(manifest: Path, selectors: Sequence[str]) -> dict[str, str]:
    """Return the selected models that a manifest does not have: the selector of each by its name.

    Raises:
        UsageError: The manifest has another model of that name.
    """
    from pytest_hierexport._cases.manifest import read_selectors

    if not selectors:
        return {}
    known = read_selectors(manifest)
    more = {name: each for name, each in _named(selectors, manifest.parent).items() if each not in known.values()}
    for name in sorted(more.keys() & known.keys()):
        raise UsageError(
            f"another name than {name} for {more[name]}",
            found=f"{known[name]} of this name in {manifest.name}",
            do=f"choose one: hierexport init NAME={more[name]}",
        )
    return more


def _found(root: Path) -> dict[str, str]:
    """Return the project's own models: the selector of each by its name.

    Raises:
        UsageError: None is found.
    """
    from pytest_hierexport._cases.searching import read_sources
    from pytest_hierexport._tools.starting import distinct_names

    sources = read_sources(root)
    models = distinct_names(sources.factories())
    if models:
        return models
    classes = f"; modules there: {first_names(sorted(sources.modules), _MOST_SHOWN)}" if sources.modules else ""
    raise UsageError(
        "a function without arguments that returns (model, inputs)",
        found=f"none in {counted(len(sources.files), 'Python file')}{classes}",
        do="write one, or name the models: hierexport init my_model.py::build, or the folder of a checkpoint",
    )


def _snapshots(names: Sequence[str], here: Path) -> bool:
    """Write the snapshots that are missing, and say of each model what came of it; return whether one failed."""
    from pytest_hierexport._pytest.ids import SNAPSHOTS, snapshot_file
    from pytest_hierexport._report.results import SNAPSHOT, Status

    missing = [name for name in names if not snapshot_file(here, name).exists()]
    kept = len(names) - len(missing)
    if kept:
        print_line(f"kept {counted(kept, 'snapshot')} in {SNAPSHOTS}, which {'was' if kept == 1 else 'were'} there")
    if not missing:
        return False
    with progress() as stage:
        stage(f"export {first_names(missing, _MOST_SHOWN)}")
        models = [model for model in _export(missing, here).models if model.name in missing]
        failed = [model.name for model in models if model.status(SNAPSHOT) not in {Status.PASSED, Status.SKIPPED}]
        if failed:
            stage.drop()
    for model in models:
        if model.status(SNAPSHOT) is Status.SKIPPED:
            print_line(f"no snapshot of {model.name}: {model.checks[SNAPSHOT].message}")
        elif model.name not in failed:
            print_line(f"wrote the snapshot of {model.name}: {counted(model.nodes, 'node')}, {model.exporter}")
        else:
            print_lines(model.checks[SNAPSHOT].message.splitlines() if SNAPSHOT in model.checks else ["it did not run"])
    return bool(failed)


def _export(names: Sequence[str], here: Path) -> Results:
    """Run the snapshot tests of the manifest's models with pytest, which writes the snapshots."""
    from pytest_hierexport._report.data import read_report
    from pytest_hierexport._text import escape
    from pytest_hierexport._tools.starting import MANIFEST

    items = [f"{MANIFEST}::{escape(name)}::test_snapshot" for name in names]
    # The project's own options may leave out the models' tests, as `-m "not hierexport"` does.
    command = ["pytest", "-m", "hierexport", f"--hierexport-models={MANIFEST}", "--snapshot-update", *items]
    with temporary_folder() as folder:
        report = Path(folder) / "report.json"
        run = [sys.executable, "-m", *command, f"--hierexport-report={report}"]
        # What it prints may be in any encoding.
        done = subprocess.run(  # noqa: S603  # pytest
            run, cwd=here, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
        if report.exists():
            return read_report(report)
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    raise CollectError(
        "pytest to write the snapshots",
        found=" / ".join(line for line in lines[-_LAST_LINES:] if line.strip()),
        do=f"run it by hand: {shlex.join(command)}",
    )


def _shown(path: Path, here: Path) -> str:
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
