"""What the rules cost: each of them, and the proof, against a bare `torch.onnx.export` of the same model.

    python -m benchmarks.rule_costs [MODEL …] [--repeats N] [--json FILE]

A repeat makes the bare export, then lets every rule but MUST-008 look at a file that is there, as a run does it; a rule
pays for what it is the first to ask for. Ratios are those within a repeat, a model's that of its median repeat.
MUST-008 starts a process for all models of a run together, and is left out of the design's budget.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.export_overhead import export_by_torch, timed
from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._errors import NoVerdictError
from pytest_hierexport._rules.base import ExportedCase, Rule
from pytest_hierexport._rules.registry import BUILT_IN

PROOF = "MUST-007"
LEFT_OUT = "MUST-008"
PROOF_BUDGET, ALL_BUDGET = 1.0, 4.0
"""DESIGN's, in bare exports: the proof of a case, and all rules but MUST-008."""


@dataclass(frozen=True)
class Costs:
    """The median costs of one model, in bare exports."""

    model: str
    bare: float
    """The bare export, in seconds."""
    rules: dict[str, float]

    @property
    def total(self) -> float:
        """All rules together."""
        return sum(self.rules.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; 1 where a median over the models is beyond its budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("selectors", nargs="*", default=["all"], help="models as the plugin selects them")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    names = [rule.id for rule in BUILT_IN if rule.id != LEFT_OUT]
    print(f"{'model':<18}{'bare s':>8}" + "".join(f"{name[-3:]:>7}" for name in names) + f"{'all':>8}")
    costs = []
    for case in select(options.selectors, Path.cwd()):
        costs.append(measure(case, options.repeats))
        print(_row(costs[-1]), flush=True)
    proof = statistics.median(cost.rules[PROOF] for cost in costs)
    total = statistics.median(cost.total for cost in costs)
    print(f"median: proof {proof:.2f} bare exports (at most {PROOF_BUDGET}), all rules {total:.2f} ({ALL_BUDGET})")
    if options.json:
        rows = [{"model": cost.model, "bare_seconds": cost.bare, "rules": cost.rules} for cost in costs]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0 if proof <= PROOF_BUDGET and total <= ALL_BUDGET else 1


def measure(case: Case, repeats: int) -> Costs:
    """Let every rule look at a case's export, beside bare exports; the first round of all warms up."""
    example = case.load()
    bare: list[float] = []
    shares: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        exporter = export_case(case, example, path).exporter
        for _ in range(repeats + 1):
            seconds = timed(partial(export_by_torch, example)).wall
            bare.append(seconds)
            exported = ExportedCase(case, path, example, exporter)
            for rule in BUILT_IN:
                if rule.id != LEFT_OUT:
                    took = timed(partial(_judge, rule, exported)).wall
                    shares.setdefault(rule.id, []).append(took / seconds)
    rules = {name: statistics.median(values[1:]) for name, values in shares.items()}
    return Costs(case.name, statistics.median(bare[1:]), rules)


def _judge(rule: Rule, exported: ExportedCase) -> None:
    """Let a rule say all that it has to say."""
    with suppress(NoVerdictError):
        list(rule.check(exported))


def _row(costs: Costs) -> str:
    rules = "".join(f"{share:>7.2f}" for share in costs.rules.values())
    return f"{costs.model:<18}{costs.bare:>8.2f}{rules}{costs.total:>8.2f}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
