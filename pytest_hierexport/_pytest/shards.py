"""Divides the models of a run among machines: each shard takes some models, and all shards together take each one once.

    recorded durations      --hierexport-shard=1/2     --hierexport-shard=2/2
    bert 60 s               bert                       llama
    llama 40 s                                         t5
    t5 20 s

The longest model goes first, each to the shard with the least time so far. Durations are read from a file in
pytest-split's format; a model that is not in it counts as the mean of the others, and so do all without a file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_hierexport._cases import Case
from pytest_hierexport._cases.steps import exported_case
from pytest_hierexport._errors import UsageError
from pytest_hierexport._files.atomic import locked, write_atomically
from pytest_hierexport._files.unrecorded import unrecorded

DURATIONS = ".test_durations"
"""The file that pytest-split keeps durations in."""
_FORM = re.compile(r"(?P<index>\d+|auto)(?:/(?P<count>\d+))?")
_ENVIRONMENT = (
    # The variables of a machine's number and of their count, and the number of the first.
    ("CI_NODE_INDEX", "CI_NODE_TOTAL", "1"),  # GitLab, with `parallel`
    ("CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL", "0"),
    ("BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", "0"),
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"),
    ("JOB_COMPLETION_INDEX", "", "0"),  # an indexed Job of Kubernetes, which does not tell the count
)


@dataclass(frozen=True)
class Shard:
    """One of several equal parts of a run."""

    index: int
    """From 1 on."""
    count: int


def parse_shard(text: str) -> Shard:
    """Parse `2/8`, `auto` (both numbers from the CI system's environment) or `auto/8` (the first alone).

    Raises:
        UsageError: The text is none of these, or the environment lacks a number.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None or (found["index"] != "auto" and found["count"] is None):
        raise _refused(repr(text), "write 2/8 for the second of eight, or auto on a CI system")
    if found["index"] != "auto":
        shard = Shard(int(found["index"]), int(found["count"]))
    else:
        shard = _from_environment(os.environ, found["count"])
    if not 1 <= shard.index <= shard.count:
        raise _refused(f"{shard.index}/{shard.count}", "write a number from 1 to the count")
    return shard


def _from_environment(environment: Mapping[str, str], count: str | None) -> Shard:
    for index, total, first in _ENVIRONMENT:
        stated = count or environment.get(total, "")
        start = environment.get(first, "0") if first.isidentifier() else first
        if index in environment and stated:
            numbers = environment[index], stated, start
            if not all(number.isdecimal() for number in numbers):
                raise _refused(f"{index}={environment[index]!r} of {stated!r}", "write the numbers: 2/8")
            return Shard(int(numbers[0]) - int(numbers[2]) + 1, int(numbers[1]))
    names = [index for index, *_ in _ENVIRONMENT]
    known = next((f"{name}={environment[name]} without a count" for name in names if name in environment), "")
    raise _refused(known or f"none of {', '.join(names)}", f"write {'the count: auto/8' if known else 'both: 2/8'}")


def _refused(found: str, do: str) -> UsageError:
    return UsageError("hierexport_shard to be a shard, INDEX/COUNT", found=found, do=do)


def in_shard(cases: Sequence[Case], shard: Shard, seconds: Mapping[str, float]) -> tuple[Case, ...]:
    """Return the cases of a shard in their order; the results of a model's steps stay with it."""
    groups: dict[str, float] = {}
    mean = sum(seconds.values()) / len(seconds) if seconds else 1.0
    for case in cases:
        model = exported_case(case).name
        groups[model] = groups.get(model, 0.0) + seconds.get(case.name, mean)
    loads = [0.0] * shard.count
    chosen = set()
    for name in sorted(groups, key=lambda name: (-groups[name], name)):
        least = loads.index(min(loads))
        loads[least] += groups[name]
        if least == shard.index - 1:
            chosen.add(name)
    return tuple(case for case in cases if exported_case(case).name in chosen)


@unrecorded()
def read_durations(path: Path) -> dict[str, float]:
    """Read the seconds of each test by its id, as pytest-split writes them; none where there is no file.

    Raises:
        UsageError: The file holds something else.
    """
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _no_durations(path, str(error)) from None
    if not isinstance(read, dict) or not all(isinstance(each, (int, float)) for each in read.values()):
        raise _no_durations(path, "other JSON")
    return {name: float(duration) for name, duration in read.items()}


def store_durations(path: Path, durations: Mapping[str, float]) -> None:
    """Write durations of tests into a file; those of other tests stay.

    Raises:
        OSError: It cannot be written.
        UsageError: It holds something else.
    """
    with locked(Path(os.path.realpath(path)).parent):
        stored = read_durations(path) | {name: round(seconds, 3) for name, seconds in durations.items()}
        write_atomically(path, json.dumps(stored, indent=4, sort_keys=True) + "\n")


def _no_durations(path: Path, found: str) -> UsageError:
    return UsageError(
        f"{path} to hold durations: a JSON object of seconds by test id",
        found=found,
        do="name another file, or delete it",
    )
