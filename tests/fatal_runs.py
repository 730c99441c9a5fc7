"""Runs of pytest with two living models, and others that end their process or hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import carrying
from projects import MODEL

__all__ = ["Outcome", "Runs"]

HANGS = 300
"""After how many seconds a run is taken to hang."""

LIVING = """
def a():
    return build()

def b():
    return build()
"""


@dataclass(frozen=True)
class Outcome:
    """What a run printed, wrote and left."""

    code: int
    text: str
    report: dict[str, Any]
    left: list[str]
    """The commands of processes that are still there."""

    def checks(self, model: str) -> dict[str, str]:
        """Return how each check of a model ended."""
        (found,) = (each for each in self.report["models"] if each["name"] == model)
        return {name: check["verdict"] for name, check in found["checks"].items()}


class Runs:
    """Runs pytest in one folder, with a cache that holds the living models: none but deadly ones need torch."""

    def __init__(self, folder: Path, *options: str, **texts: str) -> None:
        self.folder, self.options = folder, options
        for name, text in {"my_model.py": MODEL + LIVING, **texts}.items():
            (folder / name).write_text(text)

    def run(self, *arguments: str) -> Outcome:
        """Run pytest without any test file but those named."""
        mark, report = uuid.uuid4().hex, self.folder / "report.json"
        report.unlink(missing_ok=True)
        options = ("--hierexport-cache=cache", f"--hierexport-report={report}", *self.options)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfEs", *options, *arguments]
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=_environment(self.folder, mark),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HANGS,
            check=False,
        )
        sys.stdout.write(ended.stdout)
        written = json.loads(report.read_text()) if report.exists() else {}
        return Outcome(ended.returncode, ended.stdout, written, carrying(mark))

    def write(self, name: str, text: str) -> str:
        """Write a test file and return its name."""
        (self.folder / name).write_text(textwrap.dedent(text))
        return name

    def begun(self) -> int:
        """Return how often a deadly factory was called, and forget it."""
        log = self.folder / "deadly.py.log"
        count = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return count


def _environment(folder: Path, mark: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**inherited, "PYTHONPATH": path, "HIEREXPORT_TEST_RUN": mark}
