"""Reads the options of a run: what the command line gives, what the configuration file states, which of both holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hierexport._pytest.declarations import OPTIONS

if TYPE_CHECKING:
    import pytest

__all__ = ["Choices", "Settings", "read_settings"]


@dataclass(frozen=True)
class Choices:
    """The values of the options from one source, None for each that it does not set."""

    models: tuple[str, ...] | None
    rules: tuple[str, ...] | None
    exporter: str | None
    opset: int | None
    cache: Path | None
    report: tuple[Path, ...] | None
    summary: Path | None
    strict: bool | None
    require_snapshots: bool | None


@dataclass(frozen=True)
class Settings:
    """The options of a run."""

    given: Choices
    """From the command line."""
    stated: Choices
    """From the configuration file."""
    base: Path
    """The folder that the selectors' relative paths start from."""

    @property
    def selectors(self) -> tuple[str, ...]:
        """The selectors of the command line, else those of the configuration file."""
        return (self.stated.models or ()) if self.given.models is None else self.given.models

    @property
    def rules(self) -> tuple[str, ...] | None:
        """The rules to run beside the cardinal ones; None for all."""
        return self.given.rules or self.stated.rules or None

    @property
    def cache(self) -> Path | None:
        """The folder for results that last from run to run."""
        return self.given.cache or self.stated.cache

    @property
    def reports(self) -> tuple[Path, ...]:
        """The reports to write."""
        return self.given.report or self.stated.report or ()

    @property
    def summary(self) -> Path | None:
        """The summary to write."""
        return self.given.summary or self.stated.summary

    @property
    def outputs(self) -> list[Path]:
        """The reports and the summary."""
        return [*self.reports, *([self.summary] if self.summary else [])]

    @property
    def require_snapshots(self) -> bool:
        """Whether a missing snapshot fails, and one of a model that is gone."""
        return bool(self.given.require_snapshots or self.stated.require_snapshots)

    def arguments(self, selectors: Sequence[str]) -> list[str]:
        """Return the options that repeat the run for these selectors, which the configuration file may state."""
        given = self.given if self.given.models is None else replace(self.given, models=tuple(selectors))
        return [
            argument
            for option in OPTIONS
            if option.in_repeat
            for argument in option.arguments(getattr(given, option.key))
        ]


def read_settings(config: pytest.Config) -> Settings:
    """Read the options of a run.

    Raises:
        UsageError: An option's value makes no sense.
    """
    here, home = config.invocation_params.dir, (config.inipath.parent if config.inipath else config.rootpath)
    given = Choices(**{option.key: option.given(config, here) for option in OPTIONS})
    stated = Choices(**{option.key: option.stated(config, home) for option in OPTIONS})
    return Settings(given, stated, home if given.models is None else here)
