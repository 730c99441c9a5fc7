"""What was asked: the options, with their ini twins behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._cases.exporters import check_exporter
from pytest_hierexport._cases.selectors import split
from pytest_hierexport._errors import UsageError
from pytest_hierexport._export.choices import check_opset
from pytest_hierexport._files.paths import absolute, exists, is_folder
from pytest_hierexport._pytest.outputs import check_output

if TYPE_CHECKING:
    import pytest

__all__ = ["Settings", "arguments_of", "check_outputs", "read_settings"]

REPORT_SUFFIXES = (".html", ".json")


@dataclass(frozen=True)
class Settings:
    """The options of a run."""

    selectors: tuple[str, ...]
    """The selectors of the option; those of the ini where it is not given."""
    base: Path
    """The folder that the selectors' relative paths start from."""
    from_option: bool
    stated: tuple[str, ...]
    """The selectors of the ini."""
    rules: tuple[str, ...] | None
    """The rules to run beside the cardinal ones; None for all."""
    exporter: str | None
    """From the command line: it goes before what a manifest says."""
    opset: int | None
    """From the command line: it goes before what a manifest says."""
    default_exporter: str
    default_opset: int | None
    strict: bool
    """From the command line: it goes before what a manifest says."""
    default_strict: bool
    cache: Path | None
    reports: tuple[Path, ...]
    summary: Path | None
    require_snapshots: bool


def read_settings(config: pytest.Config) -> Settings:
    """Read the options of a run.

    Raises:
        UsageError: An option's value makes no sense.
    """
    option, ini = config.getoption, config.getini
    here, home = config.invocation_params.dir, (config.inipath.parent if config.inipath else config.rootpath)
    stated = tuple(selector for line in ini("hierexport_models") for selector in split(line))
    given: list[str] | None = option("hierexport_models")
    selectors = stated if given is None else tuple(selector for value in given for selector in split(value))
    rules: list[str] = option("hierexport_rules") or ini("hierexport_rules")
    reports: list[str] | None = option("hierexport_report")
    summary = _path(option("hierexport_summary"), here) or _path(ini("hierexport_summary"), home)
    return Settings(
        selectors=selectors,
        base=home if given is None else here,
        from_option=given is not None,
        stated=stated,
        rules=tuple(rule for value in rules for rule in split(value)) or None,
        exporter=_exporter(option("hierexport_exporter"), here),
        opset=check_opset(option("hierexport_opset")),
        default_exporter=_exporter(ini("hierexport_exporter"), home) or "auto",
        default_opset=check_opset(_opset(ini("hierexport_opset"))),
        strict=option("hierexport_strict"),
        default_strict=ini("hierexport_strict"),
        cache=_path(option("hierexport_cache"), here) or _path(ini("hierexport_cache"), home),
        reports=tuple(_report(_absolute(report, here)) for report in reports)
        if reports
        else tuple(_report(_absolute(report, home)) for report in ini("hierexport_report")),
        summary=summary,
        require_snapshots=option("hierexport_require_snapshots") or ini("hierexport_require_snapshots"),
    )


def _exporter(text: str | None, base: Path) -> str | None:
    return check_exporter(text, base) if text else None


def _opset(text: str) -> int | None:
    if not text:
        return None
    if not text.strip().isdecimal():
        raise UsageError("an opset as a whole number in hierexport_opset", found=repr(text), do="write 20, for example")
    return int(text)


def _path(text: str | None, base: Path) -> Path | None:
    return _absolute(text, base) if text else None


def _absolute(text: str, base: Path) -> Path:
    return absolute(base / text)


def _report(path: Path) -> Path:
    if path.suffix not in REPORT_SUFFIXES:
        raise UsageError(
            f"a report that ends in {' or '.join(REPORT_SUFFIXES)}", found=str(path), do="its ending is its format"
        )
    return path


def check_outputs(settings: Settings) -> None:
    """Find out before the run, not after it, that what it shall write is in the place of something else.

    Raises:
        UsageError: Something is.
    """
    if settings.cache is not None:
        _check_folder(settings.cache)
    for path in (*settings.reports, *([settings.summary] if settings.summary else [])):
        check_output(path)


def _check_folder(folder: Path) -> None:
    """See that a folder is there or can be made; one that cannot be written is of use all the same."""
    existed = exists(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        found = f"a file, {folder}" if exists(folder) and not is_folder(folder) else str(error)
        raise UsageError("a folder for the cache that can be written", found=found, do="name another folder") from None
    if not existed:
        folder.rmdir()


def arguments_of(settings: Settings, sources: Sequence[str]) -> list[str]:
    """Return the options that repeat a run for these selectors."""
    options = [f"--hierexport-models={','.join(sources)}"] if settings.from_option else []
    if settings.exporter is not None:
        options.append(f"--hierexport-exporter={settings.exporter}")
    if settings.opset is not None:
        options.append(f"--hierexport-opset={settings.opset}")
    if settings.strict:
        options.append("--hierexport-strict")
    return options
