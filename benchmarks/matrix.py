"""Which versions of Python and of other packages this package works with.

    make matrix [ROWS="oldest newest"] [MODELS=3] [TESTS=none] [TORCH=2.13.0] [ON=python3.11]

Builds the wheel and the source distribution once. For each row of `matrix.toml` it makes an environment with uv,
installs the wheel in it, and runs there, with the package's source out of reach: README's example, the MUST rules on
models of the zoo, and tests. A row that ran as `matrix.toml` states it is written to the table of docs/versions.md.

Environments are made one at a time and removed, since torch takes gigabytes. uv is told of the folders in which pip is
configured to look for packages. `UV_TORCH_BACKEND=cpu` takes torch's CPU builds where torch's own index can be reached.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
STATED = ROOT / "benchmarks" / "matrix.toml"
PAGE = ROOT / "docs" / "versions.md"
PACKAGE = "pytest_hierexport"
BEGIN, END = "<!-- matrix: written by `make matrix` -->", "<!-- end of matrix -->"
SHOWN = ("torch", "onnx", "onnxruntime", "onnxscript", "transformers", "pytest", "syrupy", "rich", "jsonschema")
"""The packages with a column."""
COLUMNS = ("row", "Python", *SHOWN, "README", "rules", "snapshots", "tests", "day")
TELL = """
import json, platform, sys
from importlib.metadata import version
print(json.dumps({"python": platform.python_version(), "versions": {name: version(name) for name in sys.argv[1:]}}))
"""
KEPT = {"passed", "does not apply", "known failure"}


@dataclass(frozen=True)
class Row:
    """An environment: what is installed beside the package."""

    name: str
    about: str
    python: str
    constraints: str = ""
    """A file of the repository; the empty text for none."""
    requirements: Sequence[str] = ()
    extras: str = "zoo,test"
    models: Sequence[str] = ()
    """Models beside those of every row."""
    torch: str = ""
    """A version in the place of the row's own."""


@dataclass(frozen=True)
class Plan:
    """What runs in every environment."""

    models: Sequence[str]
    tests: Sequence[str]
    workers: int


@dataclass(frozen=True)
class Built:
    """The distributions, made once."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Outcome:
    """What came of one row."""

    row: Row
    python: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    readme: str = "-"
    rules: str = "-"
    snapshots: str = "-"
    tests: str = "-"
    problems: Sequence[str] = ()
    """What did not pass, a line each."""

    def cells(self) -> list[str]:
        """Return the row of the table."""
        versions = (self.versions.get(name, "-") for name in SHOWN)
        about = f"`{self.row.name}`: {self.row.about}"
        day = datetime.now(timezone.utc).date().isoformat()
        return [about, self.python, *versions, self.readme, self.rules, self.snapshots, self.tests, day]


@dataclass(frozen=True)
class Environment:
    """A fresh environment that holds the installed wheel, and a folder of the tests without the package's source."""

    folder: Path
    project: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.folder / "bin" / "python"

    def pytest(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run pytest and show how it ends."""
        ran = run([self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], cwd=cwd, check=False)
        print("\n".join(ran.stdout.splitlines()[-40:]), flush=True)
        return ran


class StepError(Exception):
    """A command that a row needs failed."""


def run(command: Sequence[str | Path], *, cwd: Path = ROOT, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command and return it with its output; the package's source is not on its path.

    Raises:
        StepError: It failed and `check` is set; the end of its output says why.
    """
    print(f"$ {shlex.join(map(str, command))}", flush=True)
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    environment["OMP_NUM_THREADS"] = "1"
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if check and ran.returncode:
        raise StepError(f"{command[0]} {command[1]} …: " + " ".join(ran.stdout.split())[-400:])
    return ran


def built(folder: Path) -> Built:
    """Build the source distribution, and the wheel from it."""
    run([sys.executable, "-m", "build", "--outdir", folder])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, sdist)


def unpacked(sdist: Path, folder: Path) -> Path:
    """Unpack the source distribution without the package and return its folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)  # noqa: S202  # our own, made a moment ago
    (project,) = folder.iterdir()
    shutil.rmtree(project / PACKAGE)
    return project


def places() -> list[str]:
    """Return uv's options for the folders in which pip is configured to look: uv does not read pip's configuration."""
    listed = run([sys.executable, "-m", "pip", "config", "list"], check=False).stdout
    found = re.findall(r"find-links='([^']*)'", listed)
    return [part for place in dict.fromkeys(" ".join(found).split()) for part in ("--find-links", place)]


def constraints(row: Row, folder: Path) -> list[str | Path]:
    """Return uv's options for the row's constraints, without torch's where the row takes another."""
    if not row.constraints:
        return []
    lines = (ROOT / row.constraints).read_text(encoding="utf-8").splitlines()
    path = folder / "constraints.txt"
    path.write_text("\n".join(line for line in lines if not (row.torch and line.startswith("torch=="))))
    return ["--constraints", path]


@contextlib.contextmanager
def environment(row: Row, distributions: Built) -> Iterator[Environment]:
    """Make the row's environment, and remove it in the end.

    Raises:
        StepError: A package cannot be installed.
    """
    uv: list[str | Path] = [sys.executable, "-m", "uv"]
    with tempfile.TemporaryDirectory(prefix="hierexport-matrix-") as name:
        folder = Path(name)
        made = Environment(folder / "venv", unpacked(distributions.sdist, folder / "source"))
        run([*uv, "venv", "--python", row.python, made.folder])
        torch = [f"torch=={row.torch}"] if row.torch else []
        kept = [each for each in row.requirements if not (torch and each.startswith("torch="))]
        wanted = [f"{distributions.wheel}[{row.extras}]", *kept, *torch]
        install = [*uv, "pip", "install", "--python", made.python]
        run([*install, *places(), *constraints(row, folder), *wanted])
        run([*uv, "pip", "check", "--python", made.python])
        yield made


def outcome(row: Row, plan: Plan, distributions: Built) -> Outcome:
    """Run everything in the row's environment."""
    try:
        with environment(row, distributions) as made:
            return _outcome(row, plan, made)
    except StepError as error:
        return Outcome(row, problems=[str(error)])


def _outcome(row: Row, plan: Plan, made: Environment) -> Outcome:
    told = json.loads(run([made.python, "-c", TELL, *SHOWN]).stdout)
    readme = made.pytest("tests/test_readme.py", cwd=made.project)
    rules, snapshots, broken = _rules(made, (*plan.models, *row.models), plan.workers)
    tests = _tests(made, plan)
    problems = [
        *broken,
        *(["README's example"] if readme.returncode else []),
        *(["tests"] if "failed" in tests else []),
    ]
    example = "fails" if readme.returncode else "pass"
    return Outcome(row, told["python"], told["versions"], example, rules, snapshots, tests, problems)


def _rules(made: Environment, models: Sequence[str], workers: int) -> tuple[str, str, list[str]]:
    """Check models of the zoo; return what is told of the rules, of the snapshots, and the rules that are broken."""
    folder = made.folder.parent / "zoo"
    shutil.copytree(made.project / "__hierexport__", folder / "__hierexport__")
    asked = (f"--hierexport-models={','.join(models)}", "--hierexport-report=report.json")
    ran = made.pytest(*asked, "-n", str(workers), cwd=folder)
    report = folder / "report.json"
    if not report.exists():
        return "fails", "-", [f"rules: {ran.stdout.strip().splitlines()[-1:]}"]
    checks: dict[tuple[str, str], str] = {
        (model["name"], name): check["verdict"]
        for model in json.loads(report.read_text(encoding="utf-8"))["models"]
        for name, check in model["checks"].items()
    }
    same = [verdict in KEPT for (_, name), verdict in checks.items() if name == "snapshot"]
    rules = {key: verdict for key, verdict in checks.items() if key[1] != "snapshot"}
    broken = [f"{model} {name}: {verdict}" for (model, name), verdict in rules.items() if verdict not in KEPT]
    if not rules:
        broken = ["rules: none ran"]
    told = f"{len(rules) - len(broken)} of {len(rules)}" if broken else f"all {len(rules)}"
    return told, f"{sum(same)} of {len(same)}", broken


def _tests(made: Environment, plan: Plan) -> str:
    if not plan.tests:
        return "-"
    ran = made.pytest("-n", str(plan.workers), *plan.tests, cwd=made.project)
    counted = re.findall(r"(\d+) (failed|passed|skipped|errors?)\b", ran.stdout.splitlines()[-1])
    told = ", ".join(f"{count} {word}" for count, word in counted)
    return told if ran.returncode == 0 else f"failed: {told or ran.returncode}"


def table(rows: Mapping[str, Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows.values()))


def write(found: Outcome, order: Sequence[str]) -> None:
    """Put an outcome into the page's table, in the place of an older one of the same row."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    rows: dict[str, Sequence[str]] = {}
    for line in old.splitlines():
        if named := re.match(r"\| `(\S+)`", line):
            rows[named[1]] = line.strip("| ").split(" | ")
    rows[found.row.name] = found.cells()
    ordered = {name: rows[name] for name in order if name in rows}
    PAGE.write_text(f"{before}{BEGIN}\n{table(ordered)}\n{END}{after}", encoding="utf-8")


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file states."""
    stated: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return stated


def read_rows(stated: Mapping[str, Any]) -> dict[str, Row]:
    """Return the rows of `matrix.toml` by name."""
    return {name: Row(name=name, **row) for name, row in stated["rows"].items()}


def main() -> int:
    """Run the rows and return 1 if anything failed in one."""
    stated = read_toml(STATED)
    rows = read_rows(stated)
    parser = argparse.ArgumentParser(description="Run the package beside other versions of what it needs.")
    parser.add_argument("--rows", nargs="*", choices=list(rows), help="all rows where none is named")
    parser.add_argument("--models", type=int, default=len(stated["models"]), help="how many models of the list")
    parser.add_argument("--tests", nargs="*", help="instead of those listed; `none` for none")
    parser.add_argument("--torch", default="", help="a version of torch in the place of the rows' own")
    parser.add_argument("--python", default="", help="an interpreter in the place of the rows' own")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    changed: dict[str, str] = {key: getattr(options, key) for key in ("torch", "python") if getattr(options, key)}
    tests = stated["tests"] if not options.tests else [each for each in options.tests if each != "none"]
    plan = Plan(stated["models"][: options.models], tests, options.workers)
    as_stated = not changed and plan == Plan(stated["models"], stated["tests"], options.workers)
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        distributions = built(Path(folder))
        for name in options.rows or rows:
            print(f"\n=== {name}", flush=True)
            started = time.monotonic()
            outcomes.append(outcome(Row(**{**vars(rows[name]), **changed}), plan, distributions))
            if as_stated:
                write(outcomes[-1], list(rows))
            print(f"=== {name}: {time.monotonic() - started:.0f} s", *outcomes[-1].problems, sep="\n", flush=True)
    print("\n" + table({each.row.name: each.cells() for each in outcomes}))
    return int(any(each.problems for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
