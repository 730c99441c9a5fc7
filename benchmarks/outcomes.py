"""What becomes of many models that an exporter is asked for: are they exported, are tags proven, numbers the model's?

Each model is made and exported in a process of its own; the proof then judges every module call, and MUST-006 the
outputs. A model that cannot be made is counted apart: nothing was asked of an exporter there. With `--log` every
outcome is kept as a line of JSON, and a later run goes on where that one stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

ONE = "--one"
EXPORTED, NOT_EXPORTED, NOT_BUILT = "exported", "not exported", "not built"


@dataclass(frozen=True)
class Population:
    """Models that are asked for by their names.

    A program of this folder defines one, and calls its :meth:`main`.
    """

    program: str
    """The module that defines it, which runs once more for each model."""
    names: Callable[[], Sequence[str]]
    """Gives the names of all models."""
    build: Callable[[str], object]
    """Makes the model of a name, as the factory of a case does."""

    def main(self, arguments: Sequence[str]) -> int:
        """Ask every model, print what became of it, then the totals; 1 where something is to be said against one.

        A model that cannot be built counts only if it was asked for by its name.
        """
        if arguments[:1] == [ONE]:
            print(json.dumps(asdict(_ask(arguments[1], self.build))))
            return 0
        options = _options(arguments, self.program)
        known = _read(options.log)
        names = options.only.split(",") if options.only else self.names()
        wanted = [name for name in names[: options.first] if name not in known]
        outcomes = [outcome for name, outcome in known.items() if name in names]
        with ThreadPoolExecutor(options.jobs) as pool:
            for outcome in pool.map(partial(_in_process, self.program, timeout=options.timeout), wanted):
                outcomes.append(outcome)
                _print_outcome(outcome)
                if options.log:
                    with options.log.open("a", encoding="utf-8") as log:
                        log.write(json.dumps(asdict(outcome)) + "\n")
        _print_totals(outcomes)
        asked = (outcome for outcome in outcomes if options.only or outcome.result != NOT_BUILT)
        return 0 if all(outcome.exact for outcome in asked) else 1


@dataclass(frozen=True)
class Outcome:
    """What became of one model."""

    name: str
    result: str
    """`exported`, `not exported` or `not built`."""
    exporter: str = ""
    seconds: float = 0.0
    verdicts: dict[str, int] = field(default_factory=dict)
    unproven: dict[str, str] = field(default_factory=dict)
    """The reason, value and tag of each unproven call, by its name."""
    nodes: int = 0
    untagged: int = 0
    derived: int = 0
    contaminated: int = 0
    numbers: list[str] = field(default_factory=list)
    """Where the outputs differ from the model's, and how."""
    error: str = ""

    @property
    def exact(self) -> bool:
        """Whether nothing at all is to be said against the tags and the numbers."""
        return not (self.error or self.unproven or self.untagged or self.derived or self.contaminated or self.numbers)


def _options(arguments: Sequence[str], program: str) -> argparse.Namespace:
    asks = str(sys.modules["__main__"].__doc__).partition("\n")[0]
    parser = argparse.ArgumentParser(f"python -m {program}", description=asks)
    parser.add_argument("--only", default="", help="these models alone, separated by commas")
    parser.add_argument("--first", type=int, help="only so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="models at a time")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a model counts as not exported")
    parser.add_argument("--log", type=Path, help="keep every outcome in this file and go on from it")
    return parser.parse_args(arguments)


def _read(log: Path | None) -> dict[str, Outcome]:
    if log is None or not log.exists():
        return {}
    outcomes = [Outcome(**json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]
    return {outcome.name: outcome for outcome in outcomes}


def _in_process(program: str, name: str, timeout: float) -> Outcome:
    command = [sys.executable, "-m", program, ONE, name]
    started = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True)
        return Outcome(**json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        error = f"not done after {timeout:.0f} s"
    except subprocess.CalledProcessError as failed:
        error = f"exit {failed.returncode}: {(failed.stderr.strip().splitlines() or [''])[-1]}"
    except (ValueError, IndexError):
        error = "printed something else than what became of it"
    return Outcome(name, NOT_EXPORTED, seconds=time.perf_counter() - started, error=error)


def _ask(name: str, build: Callable[[str], object]) -> Outcome:
    warnings.simplefilter("ignore")
    from pytest_hierexport import export
    from pytest_hierexport._cases import Case
    from pytest_hierexport._errors import HierexportError
    from pytest_hierexport._proof import prove
    from pytest_hierexport._rules import must_006
    from pytest_hierexport._rules.base import ExportedCase

    started = time.perf_counter()
    case = Case(name, partial(build, name), f"{ONE} {name}")
    try:
        example = case.load()
    except HierexportError as error:
        return Outcome(name, NOT_BUILT, error=str(error))
    example.model.eval()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            exported = export(example.model, example.args, example.kwargs, path=path)
        except HierexportError as error:
            return Outcome(name, NOT_EXPORTED, seconds=time.perf_counter() - started, error=str(error))
        seconds = time.perf_counter() - started
        coverage = exported.attribution.coverage()
        violations = must_006.check(ExportedCase(case, path, example, exported.exporter))
        numbers = [f"{it.where}: expected {it.expected}, found {it.found}" for it in violations]
        try:
            proof = prove(example, exported.model, exported.attribution)
        except HierexportError as error:
            # What torch wrote down does not run: there is nothing to compare the model with.
            return Outcome(name, EXPORTED, exported.exporter, seconds, numbers=numbers, error=f"not proven: {error}")
    return Outcome(
        name,
        EXPORTED,
        exported.exporter,
        seconds,
        proof.counts(),
        {name: f"{verdict.reason}: {verdict.value} ({verdict.tag})" for name, verdict in proof.unproven.items()},
        len(exported.attribution.nodes),
        coverage["untagged"],
        coverage["derived"],
        len(proof.contaminated),
        numbers,
    )


def _print_outcome(outcome: Outcome) -> None:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in outcome.verdicts.items() if count)
    print(f"{outcome.name}: {outcome.result} {outcome.exporter} {counts} {outcome.error}".rstrip(), flush=True)
    if outcome.derived or outcome.untagged or outcome.contaminated:
        print(f"  {outcome.derived} derived, {outcome.untagged} untagged, {outcome.contaminated} contaminated")
    for name, reason in outcome.unproven.items():
        print(f"  {name or 'root'}: {reason}")
    for number in outcome.numbers:
        print(f"  {number}")


def _print_totals(outcomes: Sequence[Outcome]) -> None:
    results = Counter(outcome.result for outcome in outcomes)
    exported = [outcome for outcome in outcomes if outcome.result == EXPORTED]
    verdicts = sum((Counter(outcome.verdicts) for outcome in exported), Counter[str]())
    asked = results[EXPORTED] + results[NOT_EXPORTED]
    nodes = sum(outcome.nodes for outcome in exported)
    print(f"\n{asked} models asked, {results[NOT_BUILT]} not built here")
    print(f"exported: {results[EXPORTED]} ({results[EXPORTED] / max(asked, 1):.1%})", end=" ")
    print(dict(Counter(outcome.exporter for outcome in exported)))
    counted = verdicts["proven"] + verdicts["unproven"] + verdicts["ambiguous"]
    print(f"module calls: {sum(verdicts.values())}, {dict(verdicts)}")
    print(f"proven, of those proven, unproven and ambiguous: {verdicts['proven'] / max(counted, 1):.3%}")
    print(f"nodes: {nodes}, derived {sum(o.derived for o in exported)}, untagged {sum(o.untagged for o in exported)}")
    print(f"outputs differ from the model's: {sum(bool(outcome.numbers) for outcome in exported)}")
    print(f"exported and not to be run: {sum(bool(outcome.error) for outcome in exported)}")
    print(f"models without anything to say against: {sum(outcome.exact for outcome in exported)}")
