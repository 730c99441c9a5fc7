"""Declares the options with their ini twins, and reads them: what is given, what is stated, which of both holds.

The plugin imports this module in every session of pytest, so it imports the standard library and pytest alone; what
parses a value is imported when a value is parsed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pytest

    from pytest_hierexport._pytest.shards import Shard

TIMEOUT = 30 * 60.0
"""The seconds that a test of a model may take where nothing else is stated."""
_REPORT_SUFFIXES = (".html", ".json", ".ctrf.json")


@dataclass(frozen=True)
class Option:
    """An option `--hierexport-NAME` with its ini twin `hierexport_NAME`; on the command line, hyphens divide words."""

    name: str
    help: str
    metavar: str = ""
    """The name of the value in the help; empty for a flag."""
    parse: Callable[[str, Path], Any] = lambda text, _: text
    """Parses a text; relative paths start from the folder. A repeatable option's value is a tuple."""
    repeatable: bool = False
    in_repeat: bool = False
    """Whether the command that repeats a failing item carries the option."""
    shown: Callable[[Any, Path], str] = lambda value, _: str(value)
    """Writes a value for the command line in a folder, without what is secret."""

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--hierexport-{self.name.replace('_', '-')}"

    def declare(self, parser: pytest.Parser, group: pytest.OptionGroup) -> None:
        """Add the option and its twin to pytest's parser."""
        type_: Literal["string", "bool", "linelist"] = "linelist" if self.repeatable else "string"
        kind: dict[str, Any] = {"metavar": self.metavar, "help": self.help}
        if not self.metavar:
            kind, type_ = {"default": False, "action": "store_true", "help": self.help}, "bool"
        elif self.repeatable:
            kind |= {"action": "append", "help": f"{self.help} (repeatable)"}
        group.addoption(self.flag, dest=f"hierexport_{self.name}", **kind)
        parser.addini(f"hierexport_{self.name}", self.help, type=type_)

    def parsed(self, value: Any, base: Path) -> Any:
        """Return the value for what pytest read, None where that is nothing."""
        if not value:
            return None
        if isinstance(value, list):
            return tuple(part for text in value for part in self.parse(text, base))
        return self.parse(value, base) if isinstance(value, str) else value

    def arguments(self, value: Any, here: Path) -> list[str]:
        """Return the command line's arguments for a value of the option, typed in a folder."""
        if value is None:
            return []
        if not self.metavar:
            return [self.flag]
        return [f"{self.flag}={','.join(value) if self.repeatable else self.shown(value, here)}"]


def _names(text: str, _: Path) -> tuple[str, ...]:
    from pytest_hierexport._cases.selectors import split

    return tuple(split(text))


def _exporter(text: str, base: Path) -> str:
    from pytest_hierexport._cases.exporters import check_exporter

    return check_exporter(text, base)


def _steps(text: str, base: Path) -> tuple[str, ...]:
    from pytest_hierexport._cases.steps import check_step

    return tuple(check_step(name, base) for name in _names(text, base))


def _opset(text: str, _: Path) -> int | None:
    from pytest_hierexport._errors import UsageError
    from pytest_hierexport._export.choices import check_opset

    if not text.strip().isdecimal():
        raise UsageError("an opset as a whole number in hierexport_opset", found=repr(text), do="write 20, for example")
    return check_opset(int(text))


def _seconds(text: str, _: Path) -> float:
    from pytest_hierexport._errors import UsageError

    with suppress(ValueError):
        # An option that is set is true, also where there is no limit.
        if (seconds := float(text)) >= 0:
            return seconds or math.inf
    raise UsageError("a number of seconds in hierexport_timeout", found=repr(text), do="write 600, or 0 for no limit")


def _path(text: str, base: Path) -> Path:
    from pytest_hierexport._files.paths import absolute

    return absolute(base / text)


def _cache(text: str, base: Path) -> Path | str:
    return text if "://" in text else _path(text, base)


def _shown_cache(cache: Path | str, here: Path) -> str:
    from pytest_hierexport._cache.places import without_login

    return without_login(cache) if isinstance(cache, str) else os.path.relpath(cache, here)


def _size(text: str, _: Path) -> int:
    from pytest_hierexport._cache.upkeep import parse_size

    return parse_size(text)


def _shard(text: str, _: Path) -> Shard:
    from pytest_hierexport._pytest.shards import parse_shard

    return parse_shard(text)


def _report(text: str, base: Path) -> tuple[Path]:
    from pytest_hierexport._files.paths import check_ending

    path = _path(text, base)
    check_ending(path, *_REPORT_SUFFIXES)
    return (path,)


def _option(*about: Any, **more: Any) -> Any:
    """Return the field of an :class:`Option`, given all but its name."""
    return field(metadata={"named": lambda name: Option(name, *about, **more)})


@dataclass(frozen=True)
class Choices:
    """The options, and their values from one source: None for each that it does not set."""

    # ruff: noqa: RUF009  # the calls make the fields
    models: tuple[str, ...] | None = _option(
        "models to export and test, comma-separated: zoo names and globs, family:NAME, all, file.py::factory, "
        "file.py::*, package.module:factory, a manifest (models.toml), a model of it (models.toml::name), a "
        "checkpoint folder; NAME=SELECTOR names a model",
        "SELECTORS",
        _names,
        repeatable=True,
        in_repeat=True,
    )
    rules: tuple[str, ...] | None = _option(
        "rules to run, comma-separated; the cardinal ones always run", "IDS", _names, repeatable=True, in_repeat=True
    )
    fast: bool | None = _option(
        "run the snapshot and the rules that need no other run of the model, nor another export", in_repeat=True
    )
    exporter: str | None = _option("the exporter; auto takes the first that can", "NAME", _exporter, in_repeat=True)
    opset: int | None = _option("the ONNX opset", "N", _opset, in_repeat=True)
    after: tuple[str, ...] | None = _option(
        "steps from the exported file to the one that is shipped, comma-separated: onnxruntime:basic, "
        "onnxruntime:extended, onnxruntime:all, package.module:function; the result of each is tested too",
        "STEPS",
        _steps,
        repeatable=True,
        in_repeat=True,
    )
    cache: Path | str | None = _option(
        "keep exports and verdicts there from run to run; a URL (https://, s3://) names a cache that machines share",
        "FOLDER",
        _cache,
        in_repeat=True,
        shown=_shown_cache,
    )
    cache_size: int | None = _option("the size that the cache may have: 500MB, 2GB (default: 5GB)", "SIZE", _size)
    cache_push: bool | None = _option("add results to the cache at a URL, which is only read otherwise")
    shard: Shard | None = _option(
        "run some of the models: 2/8 for the second of eight parts, auto on a CI system", "PART", _shard
    )
    durations: Path | None = _option(
        "the file of durations that shards are made even by (default: .test_durations)", "FILE", _path
    )
    store_durations: bool | None = _option("write how long each test took into the file of durations")
    timeout: float | None = _option(
        "stop a test of a model after that time, 1800 by default; 0: never", "SECONDS", _seconds
    )
    report: tuple[Path, ...] | None = _option(
        "write a report: .html, .json or .ctrf.json", "FILE", _report, repeatable=True
    )
    summary: Path | None = _option("write a summary in Markdown", "FILE", _path)
    strict: bool | None = _option(
        "fail where auto would fall back to an exporter that records one run of the model", in_repeat=True
    )
    details: bool | None = _option(
        "put output shapes, parameters and modules of torch.nn into snapshots, too", in_repeat=True
    )
    require_snapshots: bool | None = _option("a missing snapshot fails, and so does one of a model that is gone")


OPTIONS: tuple[Option, ...] = tuple(each.metadata["named"](each.name) for each in fields(Choices))


@dataclass(frozen=True)
class Settings:
    """The options of a run."""

    given: Choices
    """From the command line."""
    stated: Choices
    """From the configuration file."""
    chosen: Choices
    """Of each option the given value, else the stated one; a manifest may override a stated one."""
    base: Path
    """The folder that the selectors' relative paths start from."""
    home: Path
    """The folder of the configuration file, else the root directory."""
    here: Path
    """The folder that pytest was started in."""

    @property
    def selectors(self) -> tuple[str, ...]:
        """The selectors of the command line, else those of the configuration file."""
        return (self.stated.models or ()) if self.given.models is None else self.given.models

    @property
    def manifests(self) -> list[Path]:
        """The manifests that the configuration file names."""
        from pytest_hierexport._files.paths import absolute

        stated = {absolute(self.home / selector.partition("::")[0]) for selector in self.stated.models or ()}
        return sorted(path for path in stated if path.suffix == ".toml")

    @property
    def outputs(self) -> list[Path]:
        """The reports and the summary."""
        return [*(self.chosen.report or ()), *([self.chosen.summary] if self.chosen.summary else [])]

    @property
    def durations(self) -> Path:
        """The file of durations."""
        from pytest_hierexport._pytest.shards import DURATIONS

        return self.chosen.durations or self.home / DURATIONS

    def arguments(self, selectors: Sequence[str]) -> list[str]:
        """Return the options that repeat the run for these selectors, which the configuration file may state."""
        given = self.given if self.given.models is None else replace(self.given, models=tuple(selectors))
        repeated = (option for option in OPTIONS if option.in_repeat)
        return [
            argument for option in repeated for argument in option.arguments(getattr(given, option.name), self.here)
        ]


def read_settings(config: pytest.Config) -> Settings:
    """Read the options of a run.

    Raises:
        UsageError: An option's value makes no sense.
    """
    here, home = config.invocation_params.dir, (config.inipath.parent if config.inipath else config.rootpath)
    given = {each.name: each.parsed(config.getoption(f"hierexport_{each.name}"), here) for each in OPTIONS}
    stated = {each.name: each.parsed(config.getini(f"hierexport_{each.name}"), home) for each in OPTIONS}
    chosen = {key: stated[key] if value is None or value == () else value for key, value in given.items()}
    base = home if given["models"] is None else here
    return Settings(Choices(**given), Choices(**stated), Choices(**chosen), base, home, here)


def in_repeat(override: str) -> bool:
    """Whether the command that repeats a failing item carries an override of the configuration, `NAME=VALUE`."""
    # A cache's URL may hold a password.
    left_out = {f"hierexport_{each.name}" for each in OPTIONS if not each.in_repeat or each.name == "cache"}
    return override.partition("=")[0].strip() not in left_out


def is_updating(config: pytest.Config) -> bool:
    """Whether snapshots are written in this run."""
    return bool(
        config.getoption("update_snapshots", default=False)
        or config.getoption("update_new_snapshots_only", default=False)
    )
