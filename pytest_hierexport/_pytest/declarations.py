"""Declares what users may set: the options with their ini twins, and the hook by which projects add rules.

The plugin imports this module in every session of pytest, so it imports the standard library and pytest alone; what
parses a value is imported when a value is parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_hierexport._rules.base import Rule

__all__ = ["OPTIONS", "Hooks", "Option"]

_REPORT_SUFFIXES = (".html", ".json")


@dataclass(frozen=True)
class Option:
    """An option `--hierexport-NAME` with its ini twin `hierexport_NAME`."""

    name: str
    help: str
    metavar: str = ""
    """The name of the value in the help; empty for a flag."""
    parse: Callable[[str, Path], Any] = lambda text, _: text
    """Turns a text into the value; relative paths start from the folder. A repeatable option's value is a tuple."""
    repeatable: bool = False
    in_repeat: bool = False
    """Whether the command that repeats a failing item carries the option."""

    @property
    def key(self) -> str:
        """The name as an identifier."""
        return self.name.replace("-", "_")

    def declare(self, parser: pytest.Parser, group: pytest.OptionGroup) -> None:
        """Add the option and its twin to pytest's parser."""
        kind: dict[str, Any] = {"default": None, "metavar": self.metavar, "help": self.help}
        type_: Any = "string"
        if not self.metavar:
            kind, type_ = {"default": False, "action": "store_true", "help": self.help}, "bool"
        elif self.repeatable:
            kind |= {"action": "append", "help": f"{self.help} (repeatable)"}
            type_ = "linelist"
        group.addoption(f"--hierexport-{self.name}", dest=f"hierexport_{self.key}", **kind)
        default: object = {"string": "", "bool": False, "linelist": []}[type_]
        parser.addini(f"hierexport_{self.key}", self.help, type=type_, default=default)

    def given(self, config: pytest.Config, base: Path) -> Any:
        """Return the value from the command line, None where there is none."""
        return self._parsed(config.getoption(f"hierexport_{self.key}"), base)

    def stated(self, config: pytest.Config, base: Path) -> Any:
        """Return the value from the configuration file, None where there is none."""
        return self._parsed(config.getini(f"hierexport_{self.key}") or None, base)

    def _parsed(self, value: Any, base: Path) -> Any:
        if isinstance(value, list):
            return tuple(part for text in value for part in self.parse(text, base))
        return self.parse(value, base) if value and isinstance(value, str) else value or None

    def arguments(self, value: Any) -> list[str]:
        """Return the command line's arguments for a value of the option."""
        if value is None:
            return []
        if not self.metavar:
            return [f"--hierexport-{self.name}"]
        return [f"--hierexport-{self.name}={','.join(value) if self.repeatable else value}"]


def _names(text: str, _: Path) -> tuple[str, ...]:
    from pytest_hierexport._cases.selectors import split

    return tuple(split(text))


def _exporter(text: str, base: Path) -> str:
    from pytest_hierexport._cases.exporters import check_exporter

    return check_exporter(text, base)


def _opset(text: str, _: Path) -> int | None:
    from pytest_hierexport._errors import UsageError
    from pytest_hierexport._export.choices import check_opset

    if not text.strip().isdecimal():
        raise UsageError("an opset as a whole number in hierexport_opset", found=repr(text), do="write 20, for example")
    return check_opset(int(text))


def _path(text: str, base: Path) -> Path:
    from pytest_hierexport._files.paths import absolute

    return absolute(base / text)


def _report(text: str, base: Path) -> tuple[Path]:
    from pytest_hierexport._errors import UsageError

    path = _path(text, base)
    if path.suffix not in _REPORT_SUFFIXES:
        raise UsageError(
            f"a report that ends in {' or '.join(_REPORT_SUFFIXES)}", found=str(path), do="its ending is its format"
        )
    return (path,)


OPTIONS = (
    Option(
        "models",
        "models to export and test, comma-separated: zoo names and globs, family:NAME, all, file.py::factory, "
        "package.module:factory, a manifest (models.toml), a checkpoint folder",
        "SELECTORS",
        _names,
        repeatable=True,
        in_repeat=True,
    ),
    Option("rules", "rules to run, comma-separated; the cardinal ones always run", "IDS", _names, repeatable=True),
    Option("exporter", "the exporter; auto takes the first that can", "NAME", _exporter, in_repeat=True),
    Option("opset", "the ONNX opset", "N", _opset, in_repeat=True),
    Option("cache", "keep exports and verdicts there from run to run", "FOLDER", _path),
    Option("report", "write a report: .html or .json", "FILE", _report, repeatable=True),
    Option("summary", "write a summary in Markdown", "FILE", _path),
    Option(
        "strict", "fail where auto would fall back to an exporter that records one run of the model", in_repeat=True
    ),
    Option("require-snapshots", "a missing snapshot fails, and so does one of a model that is gone"),
)


class Hooks:
    """The hooks that projects may implement, in a conftest or a plugin."""

    @staticmethod
    @pytest.hookspec
    def pytest_hierexport_rules(config: pytest.Config) -> list[Rule]:
        """Return rules of the project's own; they run on every selected model, after the built-in ones.

        A rule's `check` takes an :class:`~pytest_hierexport.ExportedCase` and returns its violations. Import what it
        needs inside it: the hook is called while tests are collected.
        """
        raise NotImplementedError  # a specification: pluggy never calls it
