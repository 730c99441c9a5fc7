"""Runs `hierexport cache`: shows, checks or removes what `--hierexport-cache` keeps in a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_hierexport._errors import UsageError
from pytest_hierexport.cli.output import print_line, print_lines

SUMMARY = "show, check or remove what a cache holds"
DESCRIPTION = (
    "Look after the folder of --hierexport-cache: info shows what it holds, verify compares each file with "
    "its digest, clear removes what the cache wrote. Exit codes: 0 done, 1 verify found damage."
)
EXAMPLE = "hierexport cache info .hierexport/cache"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("info", "verify", "clear"), help="what to do")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder of the cache")


def run(options: argparse.Namespace) -> int:
    from pytest_hierexport._cache import upkeep
    from pytest_hierexport._pytest.kept_files import CACHE

    folder: Path = options.folder
    if not folder.is_dir() or not upkeep.is_cache(folder):
        raise UsageError(
            "the folder of a cache",
            found=f"{folder}, which holds no result of a run" if folder.is_dir() else f"no folder {folder}",
            do=f"name one of --hierexport-cache; what a run took from a URL is in {CACHE} of the project",
        )
    if options.action == "clear":
        print_line(f"removed results: {upkeep.clear(folder)}")
    elif options.action == "verify":
        damaged = list(upkeep.damages(folder))
        print_lines([*(f"damaged: {name}" for name in damaged), f"damaged files: {len(damaged)}"])
        return int(bool(damaged))
    else:
        print_lines(upkeep.described(folder))
    return 0
