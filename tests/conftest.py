"""The project that tests of the plugin run in, and what must be imported before it."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from projects import MODEL, Project, forget_modules

# Imported before a run is forked off, so that it starts with them: each costs seconds.
_HEAVY = (
    "jsonschema",
    "torch",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "onnxscript",
    "transformers",
    "pytest_hierexport._cases.zoo",
    "pytest_hierexport._export",
    "pytest_hierexport._proof",
    "pytest_hierexport._pytest.session",
    "pytest_hierexport._rules.must_001",
)


@pytest.fixture(scope="session")
def _heavy_modules() -> None:
    # Before pytester comes in, which takes modules out again that were imported under it.
    for name in _HEAVY:
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
    import torch

    from pytest_hierexport import export

    export(torch.nn.ReLU(), (torch.ones(1),))


@pytest.fixture(scope="session", autouse=True)
def _no_kept_bytecode() -> Iterator[None]:
    """Compile what tests import each time: Python takes its kept bytecode for a file of equal size and second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        yield


@pytest.fixture(autouse=True)
def _as_at_a_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide CI and xdist from what tests start: in CI pytest says things twice, in a worker syrupy says nothing."""
    for name in list(os.environ):
        if name == "CI" or name.startswith(("GITHUB_", "PYTEST_XDIST_")):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    """Forget what a test has imported of its own folder: the next has files of the same names.

    Other folders stay on the path: a package that adds one (onnxruntime.transformers) imports from it later, too.
    Modules that are put into what this gives come back first.
    """
    folder = tmp_path_factory.getbasetemp()
    kept: dict[str, ModuleType] = {}
    yield kept
    sys.modules.update({name: module for name, module in kept.items() if name not in sys.modules})
    sys.path[:] = [entry for entry in sys.path if not Path(entry).is_relative_to(folder)]
    forget_modules(folder)


@pytest.fixture(autouse=True)
def _own_log_level() -> Iterator[None]:
    """Let the next test log again: a program that silences a process may run in a test."""
    before = logging.root.manager.disable
    yield
    logging.disable(before)


@pytest.fixture
def hub_exporter() -> type[Any]:
    """Give the class that exports in transformers; skip where transformers is too old to have one."""
    exporter: type[Any] = pytest.importorskip("transformers.exporters.exporter_onnx").OnnxExporter
    return exporter


@pytest.fixture
def pytester(pytester: pytest.Pytester, _own_modules: dict[str, ModuleType]) -> Iterator[pytest.Pytester]:
    """Give pytest's own, but keep the modules that it takes out: a package that imports one twice has two classes."""
    yield pytester
    _own_modules.update(sys.modules)


@pytest.fixture
def project(_heavy_modules: None, pytester: pytest.Pytester) -> Project:
    """Give an empty folder with a single `my_model.py` and no configuration file."""
    project = Project(pytester)
    project.write("my_model.py", MODEL)
    return project
