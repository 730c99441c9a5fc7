"""A project with a model of its own, for tests of the plugin."""

from __future__ import annotations

import gc
import os
import shlex
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

import pytest

__all__ = ["MODEL", "OWN_RULE", "SET_UP", "WEIGHTS_IN_A_FOLDER", "Project", "forget_modules"]

WEIGHTS_IN_A_FOLDER = """
import onnx_ir
import pytest_hierexport

def export(model, args, kwargs, path):
    pytest_hierexport.export(model, args, kwargs, path)
    path.with_name("weights").mkdir()
    onnx_ir.save(onnx_ir.load(path), path, external_data="weights/all.bin", size_threshold_bytes=0)
    path.with_name(f"{path.stem}.hierarchy.json").unlink()
"""
"""The source of an exporter that writes its weights into a folder beside the model."""

MODEL = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))

class Tower(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def build():
    with open(__file__ + ".log", "a") as log:
        log.write("built\\n")
    return Tower().eval(), (torch.ones(2, 4),)
"""

OWN_RULE = """
from pytest_hierexport import Rule, Violation

def pytest_hierexport_rules(config):
    return [Rule("OWN-001", "nothing", lambda exported: [Violation("here", "nothing", "something", "do nothing")])]
"""
"""A plugin, or conftest.py, with a rule that every model breaks."""

SET_UP = (
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
    "-p",
    "syrupy",
    "-p",
    "xdist",
    "-p",
    "pytest_hierexport.plugin",
)
"""The plugins that a run is about: every other one that is installed here costs time."""


class Project:
    """An empty folder with a single `my_model.py` and no configuration file, and pytest to run in it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.options: tuple[str, ...] = ()
        """Options of every run."""

    def write(self, name: str, text: str) -> Path:
        """Write a file, with the folders above it."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in a fork of this process: apart from it, as in a process of its own, but without the imports."""
        started = time.perf_counter()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                _be_pytest([*self.options, *arguments], out.fileno(), err.fileno())
            _, status = os.waitpid(child, 0)
            outlines, errlines = _lines(out), _lines(err)
        sys.stdout.write("\n".join([*outlines, *errlines]))
        duration = time.perf_counter() - started
        return pytest.RunResult(os.waitstatus_to_exitcode(status), outlines, errlines, duration)

    def process(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in a process of its own."""
        return self.pytester.runpytest_subprocess(*arguments)

    @property
    def builds(self) -> int:
        """How often the model was built."""
        log = self.path / "my_model.py.log"
        return len(log.read_text().splitlines()) if log.exists() else 0


def _be_pytest(arguments: Sequence[str], out: int, err: int) -> NoReturn:
    code = 70
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        gc.freeze()
        # It visits each frozen object, 0.05 s, and an export asks for it: that some are frozen is enough.
        gc.get_freeze_count = lambda: 1
        # A process of its own would not know the tests' modules, nor count what they keep in memory.
        forget_modules(Path(__file__).parent)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        # No part of the command line, which the command that repeats a failing test shows.
        os.environ["PYTEST_ADDOPTS"] = shlex.join([*SET_UP, *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))])
        code = int(pytest.main([*arguments]))
    except BaseException:  # noqa: BLE001  # the fork must not go on to run the tests of its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def forget_modules(folder: Path) -> None:
    """Forget the modules that were imported from a folder, as if they never had been."""
    # Thousands of modules are loaded: a `Path` of each would take 0.1 s, after every test.
    within = f"{folder}{os.sep}"
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(within):
            del sys.modules[name]


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode().splitlines()
