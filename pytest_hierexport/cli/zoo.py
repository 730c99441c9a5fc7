"""Runs `hierexport zoo`: lists the built-in models."""

from __future__ import annotations

import argparse

from pytest_hierexport.cli.command import Command
from pytest_hierexport.cli.output import print_line

__all__ = ["COMMAND"]


def _add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: the list is short."""


def _run(_options: argparse.Namespace) -> None:
    from pytest_hierexport._cases.zoo import ZOO

    names, families = (max(map(len, column)) for column in (ZOO, {entry.family for entry in ZOO.values()}))
    for entry in ZOO.values():
        print_line(f"{entry.name:{names}}  {entry.family:{families}}  {entry.special}")


COMMAND = Command(
    name="zoo",
    summary="list the built-in models",
    description="List the built-in models: the name, the family, and what is special about each.",
    example="hierexport zoo",
    add_arguments=_add_arguments,
    run=_run,
)
