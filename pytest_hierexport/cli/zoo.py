"""Runs `hierexport zoo`: lists the built-in models."""

from __future__ import annotations

import argparse

from pytest_hierexport._errors import UsageError, proposal
from pytest_hierexport.cli.output import print_line

SUMMARY = "list the built-in models"
DESCRIPTION = "List the built-in models: the name, the family, and what is special about each."
EXAMPLE = "hierexport zoo vision"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("family", nargs="?", metavar="FAMILY", help="only the models of this family")


def run(options: argparse.Namespace) -> None:
    from pytest_hierexport._cases.zoo import EXTRAS, ZOO

    every = {**ZOO, **EXTRAS}
    entries = [entry for entry in every.values() if options.family in {None, entry.family}]
    families = {entry.family for entry in every.values()}
    if not entries:
        do = proposal(options.family, sorted(families))
        raise UsageError("a family of the zoo", found=f"no {options.family!r}", do=do)
    widths = [max(map(len, column)) for column in (every, families)]
    for entry in entries:
        print_line(f"{entry.name:{widths[0]}}  {entry.family:{widths[1]}}  {entry.special}")
