"""Everything that the design promises about cost, measured by one command, as a table and plots in docs/benchmarks.md.

    python -m benchmarks.everything FOLDER [--quick | --whole] [--only PART …]

Each part is a command of its own, and its figures are a file of JSON in FOLDER; a file that is there is used again.
Each part measures its peer in the same run. Together they take some 20 minutes on two idle cores: a few models of all
families stand for the zoo. `--whole` takes the whole zoo and more repeats, which takes hours; `--quick` only tries each
part out.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import FIGURES, plots, table
from pytest_hierexport._files.versions import installed_versions

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end of measured -->\n"
SMALL = ("bert", "llama", "vit", "t5", "convnext", "mamba", "mixtral")
SOME = (*SMALL, "whisper", "swin", "clip", "detr", "patchtst")
"""Models of all families."""
_DISTRIBUTIONS = ("torch", "transformers", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "pytest")


@dataclass(frozen=True)
class Part:
    """A command that measures."""

    command: tuple[str, ...]
    """After `python -m`."""
    quick: tuple[str, ...]
    """The same with less to do."""
    whole: tuple[str, ...] = ()
    """The same with more to do, where there is more."""


PARTS = {
    "overhead": Part(
        ("benchmarks.export_overhead", *SOME, "--repeats", "3"),
        ("benchmarks.export_overhead", "bert", "--repeats", "1"),
        ("benchmarks.export_overhead",),
    ),
    "layers": Part(
        ("benchmarks.export_overhead", "--layers", "2", "8", "32", "96", "--repeats", "3"),
        ("benchmarks.export_overhead", "--layers", "2", "8", "--repeats", "1"),
        ("benchmarks.export_overhead", "--layers", "2", "8", "32", "96"),
    ),
    "idle": Part(("benchmarks.import_cost",), ("benchmarks.import_cost", "--repeats", "2")),
    "rules": Part(
        ("benchmarks.rule_costs", *SMALL, "--repeats", "2"),
        ("benchmarks.rule_costs", "bert", "--repeats", "1"),
        ("benchmarks.rule_costs", *SMALL),
    ),
    "zoo": Part(
        ("benchmarks.zoo_runs", *SOME, "--workers", "2"),
        ("benchmarks.zoo_runs", "sequential", "--workers", "0"),
        ("benchmarks.zoo_runs",),
    ),
    "tags": Part(("benchmarks.tag_storage",), ("benchmarks.tag_storage", "--repeats", "2")),
    "memory": Part(("benchmarks.large_models",), ("benchmarks.large_models", "--layers", "2")),
    "carry": Part(("benchmarks.carry_growth",), ("benchmarks.carry_growth", "--nodes", "10", "100", "1000")),
    "proof": Part(
        ("benchmarks.attribution", *SOME), ("benchmarks.attribution", "bert"), ("benchmarks.attribution", "all")
    ),
}


def main() -> int:
    """Measure what is not there yet and write the page; 1 where a part could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="keeps the figures of each part")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="fewer models and repeats, and no page")
    size.add_argument("--whole", action="store_true", help="the whole zoo, and more repeats")
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be repeated (default: all)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only or PARTS:
        file = options.folder / f"{name}.json"
        if not file.exists():
            command = _command(PARTS[name], options)
            print(f"\n== {name}: python -m {' '.join(command)}", flush=True)
            # Exit code 1 tells that a budget is exceeded: the figures are there all the same.
            subprocess.run([sys.executable, "-m", *command, "--json", str(file)], check=False)
    found = {name: json.loads(path.read_text()) for name in PARTS if (path := options.folder / f"{name}.json").exists()}
    rows = table(found, {name: " ".join(_command(part, options)) for name, part in PARTS.items()})
    print("\n" + rows)
    if not options.quick:
        _write(rows, plots(found, PAGE.parent / "images"))
    return 0 if found.keys() >= set(options.only or PARTS) & FIGURES.keys() else 1


def _command(part: Part, options: argparse.Namespace) -> tuple[str, ...]:
    if options.quick:
        return part.quick
    return (options.whole and part.whole) or part.command


def _write(rows: str, images: list[Path]) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions(_DISTRIBUTIONS).items())
    machine = f"Python {platform.python_version()}, {platform.machine()}; {versions}."
    shown = "".join(f"\n![{path.stem.replace('_', ' ')}](images/{path.name})\n" for path in images)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{rows}\n{machine}\n{shown}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
