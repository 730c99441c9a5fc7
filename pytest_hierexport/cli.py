"""`hierexport export` and `hierexport analyze`: wiring only."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_hierexport._calls.names import one_line
from pytest_hierexport._cases.exporters import check_exporter
from pytest_hierexport._errors import CollectError, ExportError, HierexportError, UsageError
from pytest_hierexport._export.choices import EXPORTERS, check_opset, is_own
from pytest_hierexport._files.paths import exists, is_folder

if TYPE_CHECKING:
    from pytest_hierexport._cases import Case
    from pytest_hierexport._cases.exporting import Exported

__all__ = ["main"]

_FAILED = 1
_USAGE = 4
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 where it failed, 4 where it cannot be served, 130 interrupted.

    Args:
        argv: The arguments after the program's name; None takes the process's.
    """
    try:
        options = _parser().parse_args(argv)
        run: Callable[[argparse.Namespace], None] = options.run
        run(options)
    except (UsageError, CollectError) as error:
        return _say(error, _USAGE)
    except HierexportError as error:
        return _say(error, _FAILED)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever reads has seen enough; without a sink Python would complain of it once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    return 0


def _say(error: HierexportError, code: int) -> int:
    print(f"hierexport: {error}", file=sys.stderr)  # noqa: T201
    return code


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"arguments as in `{self.format_usage().removeprefix('usage: ').strip()}`",
            found=message,
            do=f"see {self.prog} --help",
        )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hierexport",
        description="Export PyTorch models to ONNX with every node tagged.",
        epilog=f"exit codes: 0 done, {_FAILED} failed, {_USAGE} not to be served as asked, {_INTERRUPTED} interrupted",
    )
    parser.add_argument("--version", action="version", version=f"hierexport {metadata.version('pytest-hierexport')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_export(commands.add_parser("export", help="export a model", description="Export one model to tagged ONNX."))
    _add_analyze(
        commands.add_parser("analyze", help="show what a file holds", description="Show what a tagged ONNX file holds.")
    )
    return parser


def _add_export(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("selector", metavar="SELECTOR", help="a zoo name, file.py::factory, package.module:factory, checkpoint folder")
    add("-o", "--output", metavar="FILE", type=Path, required=True, help="the ONNX file to write")
    add("--exporter", help=f"{', '.join(EXPORTERS)}, or package.module:function (default: the model's own choice)")
    add("--opset", type=int, metavar="N", help="the ONNX opset (default: the exporter's own)")
    add("--tags", default="both", help="where tags stand: both, metadata, doc_string or none (default: %(default)s)")
    add("--keep", action="append", metavar="CLASS", help="a torch.nn class to show in tags; may be repeated")
    add("--strict", action="store_true", help="fail where auto would fall back to an exporter that records one run")
    add("--no-optimize", action="store_true", help="leave out the exporter's own optimizer")
    add(
        "--external-data", action=argparse.BooleanOptionalAction, help="tensors in a file of their own (default: large)"
    )
    parser.set_defaults(run=_export)


def _add_analyze(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a tagged ONNX file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--depth", type=_number, metavar="N", help="show N levels of modules below the root")
    parser.set_defaults(run=_analyze)


def _number(text: str) -> int:
    levels = int(text)
    if levels < 0:
        raise argparse.ArgumentTypeError(f"no number of levels: {text}")
    return levels


def _export(options: argparse.Namespace) -> None:
    if not is_folder(options.output.parent):
        raise ExportError(
            f"a folder to write {options.output.name} into", found=f"no {options.output.parent}", do="create the folder"
        )
    _check_output(options.output)
    from pytest_hierexport._cases.exporting import export_case

    with _progress() as stage:
        stage("find the model")
        case = _select(options)
        stage(f"build {case.name}")
        example = case.load()
        stage(f"export to {options.output}")
        result = export_case(case, example, options.output, **_stated(options))
    _show_export(result, options.output)


def _refuse_options(exporter: str, options: argparse.Namespace) -> None:
    """Refuse what an exporter of the project's own cannot be asked for."""
    flags = {"tags": "--tags", "optimize": "--no-optimize", "external_data": "--external-data"}
    stated = [flags[name] for name in _stated(options)] + (["--keep"] if options.keep else [])
    if stated:
        raise UsageError(
            f"no option that {exporter} does not know",
            found=", ".join(stated),
            do=f"leave it out, or take an exporter of this package: {', '.join(EXPORTERS)}",
        )


def _stated(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of an export that were stated."""
    stated: dict[str, Any] = {} if options.tags == "both" else {"tags": options.tags}
    if options.no_optimize:
        stated["optimize"] = False
    if options.external_data is not None:
        stated["external_data"] = options.external_data
    return stated


def _check_output(path: Path) -> None:
    """Refuse to write over what is no ONNX file: it may be the model's own source."""
    if not exists(path):
        return
    from pytest_hierexport._onnx.storage import load_proto

    try:
        load_proto(path)
    except HierexportError:
        raise UsageError(
            f"a new file, or an ONNX file to replace, at {path}",
            found="a folder" if path.is_dir() else "something else",
            do="give another name",
        ) from None


def _select(options: argparse.Namespace) -> Case:
    from pytest_hierexport._cases import select

    cases = select([options.selector], Path.cwd())
    if len(cases) != 1:
        raise UsageError(
            "a selector of one model", found=", ".join(case.name for case in cases), do="export them one by one"
        )
    case = cases[0]
    exporter = check_exporter(options.exporter or case.exporter, Path.cwd())
    if is_own(exporter):
        _refuse_options(exporter, options)
    return dataclasses.replace(
        case,
        exporter=exporter,
        opset=case.opset if options.opset is None else check_opset(options.opset),
        keep=tuple(options.keep or case.keep),
        strict=options.strict or case.strict,
        # The rules need generic weights; who exports a model wants its own.
        randomise=False,
    )


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show on stderr which stage is running and how long each took."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(finished_text="✓"), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def stage(name: str) -> None:
            finish()
            progress.add_task(one_line(name), total=1)

        def finish() -> None:
            for task in progress.tasks:
                progress.update(task.id, completed=1)

        yield stage
        finish()


def _show_export(result: Exported, path: Path) -> None:
    from pytest_hierexport._onnx.storage import sidecar_path
    from pytest_hierexport._tools.analysis_text import coverage_line

    for note in result.notes:
        _print(f"note: {note}")
    for warning in result.warnings:
        _warn(f"warning: {warning}")
    coverage = result.attribution.coverage()
    _print(f"{path} ({result.exporter}), with {sidecar_path(path).name}")
    _print(coverage_line(sum(coverage.values()), coverage))


def _analyze(options: argparse.Namespace) -> None:
    from pytest_hierexport._tools.analysis import analyze
    from pytest_hierexport._tools.analysis_text import as_dict, as_lines

    analysis = analyze(options.file)
    if options.json:
        print(json.dumps(as_dict(analysis, options.depth), indent=1))  # noqa: T201
        return
    # Into a pipe or a file names stay whole, however long.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in as_lines(analysis, options.file.name, options.depth, width):
        _print(line)


def _warn(line: str) -> None:
    """Print a line in red, where the terminal has colours."""
    from rich.console import Console

    Console().print(one_line(line), style="bold red", markup=False, highlight=False, soft_wrap=True)


def _print(line: str) -> None:
    """Print a line; whatever name from a model or a file stands in it, it stays one line and text alone."""
    print(one_line(line))  # noqa: T201
