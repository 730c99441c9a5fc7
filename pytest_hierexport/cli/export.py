"""Runs `hierexport export`: exports the one model of a selector to a tagged ONNX file and its sidecar."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._cases.exporters import check_exporter
from pytest_hierexport._errors import CollectError, ExportError, UsageError
from pytest_hierexport._export.choices import EXPORTERS, ExportOptions, check_opset, is_own
from pytest_hierexport._requests import check_choice
from pytest_hierexport.cli.files import check_onnx_output
from pytest_hierexport.cli.output import print_line, print_warning, progress

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._export.result import Export

SUMMARY = "export a model"
DESCRIPTION = "Export one model to tagged ONNX."
EXAMPLE = "hierexport export my_model.py::build -o tower.onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    selectors = "a zoo name, file.py::factory, package.module:factory, models.toml::name, a checkpoint's folder"
    add("selector", metavar="SELECTOR", help=selectors)
    add("-o", "--output", metavar="FILE", type=Path, required=True, help="the ONNX file to write")
    add("--exporter", help=f"{', '.join(EXPORTERS)}, or package.module:function (default: the model's own choice)")
    add("--opset", type=int, metavar="N", help="the ONNX opset (default: the exporter's own)")
    add("--tags", default="both", help="where to write tags: both, metadata, doc_string or none (default: %(default)s)")
    add("--keep", action="append", metavar="CLASS", help="a torch.nn class to show in tags; may be repeated")
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument(
        "--no-weights", action="store_true", help="build the model without weights: they take no memory"
    )
    weights.add_argument("--thin", action="store_true", help="export a model of the same modules with smaller widths")
    add("--strict", action="store_true", help="fail where auto would fall back to an exporter that records one run")
    add("--node-names", metavar="STYLE", help="name nodes after their modules: path or tag (default: as exported)")
    add("--no-optimize", action="store_true", help="leave out the exporter's own optimizer")
    add(
        "--external-data", action=argparse.BooleanOptionalAction, help="tensors in a file of their own (default: large)"
    )


def run(options: argparse.Namespace) -> None:
    check_onnx_output(options.output, piped=False)
    from pytest_hierexport._cases.exporting import export_case, own_function
    from pytest_hierexport._export.modules import kept_classes
    from pytest_hierexport._onnx.node_names import NAME_STYLES
    from pytest_hierexport._onnx.storage import check_tags

    check_tags(options.tags)
    if options.node_names is not None:
        check_choice("node names", options.node_names, NAME_STYLES)
    with _way_to_the_traceback(options), progress() as stage:
        stage("find the model")
        case = _case(options)
        # Building the model takes long: what can be wrong without it is found before.
        kept_classes(case.keep)
        if is_own(case.exporter):
            own_function(case.exporter)
        stage(f"build {case.name}")
        example = case.load()
        if case.weights == "thin":
            from pytest_hierexport._cases.thin_check import check_thin

            stage("compare the thin model with the real one")
            check_thin(case)
        stage(f"export to {options.output}")
        exported = export_case(case, example, options.output, _beyond_the_case(options))
    _show(exported, options.output)


@contextmanager
def _way_to_the_traceback(options: argparse.Namespace) -> Iterator[None]:
    """Tell with an error of the project's code how to see its traceback, which pytest keeps."""
    try:
        yield
    except (CollectError, ExportError) as error:
        is_of_file = isinstance(error, ExportError) and isinstance(error.__cause__, OSError)
        # pytest knows of missing and of thin weights by a manifest alone: it would build the whole model.
        if error.__cause__ is None or is_of_file or options.no_weights or options.thin:
            raise
        given = {"models": options.selector, "exporter": options.exporter, "opset": options.opset}
        stated = [f"--hierexport-{name}={value}" for name, value in given.items() if value is not None]
        stated += ["--hierexport-strict"] if options.strict else []
        command = shlex.join(["python", "-m", "pytest", "-m", "hierexport", *stated])
        do = f"{error.do}; to keep its traceback: {command}"
        raise type(error)(error.expected, found=error.found, do=do) from error.__cause__


def _case(options: argparse.Namespace) -> Case:
    """Return the case that the selector names, with the options that were stated."""
    from pytest_hierexport._cases import select_one

    case = select_one(options.selector)
    exporter = check_exporter(options.exporter or case.exporter, Path.cwd())
    if is_own(exporter):
        _refuse_options(exporter, options)
    return dataclasses.replace(
        case,
        exporter=exporter,
        opset=case.opset if options.opset is None else check_opset(options.opset),
        keep=tuple(options.keep or case.keep),
        strict=options.strict or case.strict,
        weights="none" if options.no_weights else "thin" if options.thin else case.weights,
        # The rules need generic weights; an exported file needs the model's.
        randomise=False,
    )


def _refuse_options(exporter: str, options: argparse.Namespace) -> None:
    """Refuse the options that a project's own exporter does not take."""
    flags = {
        "tags": "--tags",
        "optimize": "--no-optimize",
        "external_data": "--external-data",
        "node_names": "--node-names",
    }
    asked, default = _beyond_the_case(options), ExportOptions()
    stated = [flag for name, flag in flags.items() if getattr(asked, name) != getattr(default, name)]
    stated += ["--keep"] if options.keep else []
    if stated:
        raise UsageError(
            f"no option that {exporter} does not know",
            found=", ".join(stated),
            do=f"leave it out, or take an exporter of this package: {', '.join(EXPORTERS)}",
        )


def _beyond_the_case(options: argparse.Namespace) -> ExportOptions:
    """Return the options of an export that a case does not have."""
    return ExportOptions(
        tags=options.tags,
        optimize=not options.no_optimize,
        external_data=options.external_data,
        node_names=options.node_names,
    )


def _show(exported: Export, path: Path) -> None:
    from pytest_hierexport._onnx.sidecar import sidecar_path
    from pytest_hierexport._tools.analysis.rendering import coverage_line

    for note in exported.notes:
        print_line(f"note: {note}")
    for warning in exported.warnings:
        print_warning(f"warning: {warning}")
    print_line(f"{path} ({exported.exporter}), with {sidecar_path(path).name}")
    print_line(coverage_line(exported.attribution.coverage()))
