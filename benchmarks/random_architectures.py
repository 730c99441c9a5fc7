"""The MUST rules on thousands of random module trees, and what those trees held.

    python benchmarks/random_architectures.py --count 10000 [--first SEED] [--calls N] [--jobs N] [--rules IDS]
                                              [--log FILE] [--markdown FILE]

A tree is drawn from its seed and the number of calls alone, so that any failure can be had again:
`--first SEED --count 1` prints its source.
With `--log`, every outcome is kept as a line of JSON as soon as it is there, and a later run with the same file and
the same rules goes on where that one stopped: start a new file after a change to the package or to the generator, and
for another number of calls.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_hierexport._rules.base import Rule

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

TREES_PER_PROCESS = 200
"""A process is replaced after so many: torch's caches grow with every model."""
BIN = 8
"""Module calls to a row of the histogram."""
LEFT_OUT = {"MUST-008"}
"""Rules that start a process for each model; they run where they are asked for."""


@dataclass(frozen=True)
class Outcome:
    """What one seed gave."""

    seed: int
    calls: int
    depth: int
    traits: tuple[str, ...]
    shared_or_repeated: bool
    violations: tuple[str, ...]
    source: str
    """The program, where there are violations."""
    refused: str = ""
    """Why torch's own exporter cannot export the program, where it cannot: then nothing is judged."""


@dataclass(frozen=True)
class Summary:
    """All seeds of a run."""

    outcomes: Sequence[Outcome]
    rules: Sequence[str]

    @property
    def failures(self) -> list[Outcome]:
        """The seeds that broke a rule."""
        return [outcome for outcome in self.outcomes if outcome.violations]

    @property
    def judged(self) -> list[Outcome]:
        """The seeds that torch can export."""
        return [outcome for outcome in self.outcomes if not outcome.refused]

    def lines(self) -> Iterator[str]:
        """Yield the report, in Markdown."""
        seeds = [outcome.seed for outcome in self.outcomes]
        if not self.judged:
            yield f"None that torch's own exporter can export, seeds {min(seeds)} to {max(seeds)}."
            return
        calls = [outcome.calls for outcome in self.judged]
        shared = sum(outcome.shared_or_repeated for outcome in self.judged) / len(self.judged)
        yield f"{len(self.judged)} architectures, seeds {min(seeds)} to {max(seeds)}."
        refused = len(seeds) - len(self.judged)
        if refused:
            yield f"{refused} more are left out: torch alone raises, or makes a graph that the ONNX checker refuses."
        yield f"Rules: {', '.join(self.rules)}. Architectures with a violation: {len(self.failures)}."
        yield ""
        yield f"Module calls: median {statistics.median(calls):g}, most {max(calls)}."
        yield f"Depth: most {max(outcome.depth for outcome in self.judged)}. Sharing or repetition in {shared:.1%}."
        yield ""
        sizes = Counter(count // BIN for count in calls)
        named = {f"{size * BIN} to {size * BIN + BIN - 1}": sizes[size] for size in sorted(sizes)}
        yield from self._table("module calls", named)
        yield ""
        traits = Counter(trait for outcome in self.judged for trait in outcome.traits)
        yield from self._table("trait", dict(traits.most_common()))

    def _table(self, title: str, counts: Mapping[str, int]) -> Iterator[str]:
        yield f"| {title} | architectures | share |"
        yield "|---|---|---|"
        for name, count in counts.items():
            yield f"| {name} | {count} | {count / len(self.judged):.1%} |"


def selected(ids: Sequence[str] | None) -> list[Rule]:
    """Return the rules of these ids and no other; all but those that start a process where None."""
    from pytest_hierexport._rules.registry import rules

    known = rules(ids)
    return [rule for rule in known if (rule.id not in LEFT_OUT if ids is None else rule.id in ids)]


def check(seed: int, ids: Sequence[str], calls: int) -> Outcome:
    """Draw, build, export and judge one architecture."""
    from architectures import features, generate
    from architectures.check import refusal, violations

    program = generate(Random(seed), calls)
    found = features(program, program.build())
    broken, refused = [], ""
    with tempfile.TemporaryDirectory() as folder:
        try:
            broken = violations(program, selected(ids), Path(folder))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding, and the run goes on
            broken = [f"{type(error).__name__}: {error}"]
    if broken and (refused := refusal(program)):
        broken = []
    source = program.source() if broken else ""
    traits = tuple(sorted(found.traits))
    return Outcome(seed, found.calls, found.depth, traits, found.shared_or_repeated, tuple(broken), source, refused)


def run(options: argparse.Namespace) -> Summary:
    """Check every seed that the log does not hold, printing each failure as it comes."""
    ids = [rule.id for rule in selected(options.rules.split(",") if options.rules else None)]
    log = Log(options.log, ids)
    outcomes = {seed: outcome for seed, outcome in log.read().items() if seed in options.seeds}
    seeds = [seed for seed in options.seeds if seed not in outcomes]
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.jobs, _quiet, maxtasksperchild=TREES_PER_PROCESS) as pool:
        for outcome in pool.imap_unordered(partial(check, ids=ids, calls=options.calls), seeds):
            outcomes[outcome.seed] = outcome
            log.append(outcome)
            _tell(outcome, len(outcomes), len(options.seeds))
    return Summary([outcomes[seed] for seed in options.seeds], ids)


@dataclass(frozen=True)
class Log:
    """Outcomes in a file, one a line, under the rules that gave them; nothing where there is no file."""

    path: Path | None
    rules: Sequence[str]

    def read(self) -> dict[int, Outcome]:
        """Return the outcomes under the same rules, by seed."""
        if self.path is None or not self.path.exists():
            return {}
        lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        return {line["outcome"]["seed"]: Outcome(**line["outcome"]) for line in lines if line["rules"] == self.rules}

    def append(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"rules": self.rules, "outcome": asdict(outcome)}) + "\n")


def _tell(outcome: Outcome, done: int, of: int) -> None:
    if outcome.violations:
        print(f"\nseed {outcome.seed}:\n  " + "\n  ".join(outcome.violations), flush=True)
        if of == 1:
            print(outcome.source)
    if done % 100 == 0:
        print(f"{done} of {of}", file=sys.stderr, flush=True)


def _quiet() -> None:
    """One thread a process, and no word from the exporters themselves."""
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def main() -> int:
    """Run, print and write the report; the exit code is 1 where a rule was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="architectures (default: 100)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed (default: 0)")
    parser.add_argument("--calls", type=int, default=60, metavar="N", help="module calls of each, about (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one per core)")
    parser.add_argument("--rules", metavar="IDS", help="comma-separated (default: all but MUST-008)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report to a file")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep every outcome there, and go on from it")
    options = parser.parse_args()
    options.seeds = range(options.first, options.first + options.count)
    summary = run(options)
    report = "\n".join(summary.lines()) + "\n"
    print(f"\n{report}")
    if options.markdown:
        options.markdown.write_text(report, encoding="utf-8")
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
