"""What is told of versions of other packages that this package does not support."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from projects import Project
from pytest_hierexport import export
from pytest_hierexport._errors import UsageError
from pytest_hierexport._files import versions
from pytest_hierexport.cli import main

TORCH = metadata.version("torch")


@pytest.fixture(autouse=True)
def _checked_anew() -> Iterator[None]:
    cached = versions.check_requirements, versions.installed_versions
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


@pytest.fixture
def requires(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function that states other requirements in the installed package's metadata."""
    found = metadata.distributions

    def state(*requirements: str) -> None:
        def distributions(**asked: Any) -> Any:
            own = asked == {"name": "pytest-hierexport"}
            return [SimpleNamespace(requires=list(requirements), version="0")] if own else found(**asked)

        monkeypatch.setattr(metadata, "distributions", distributions)

    return state


def told() -> str:
    with pytest.raises(UsageError) as raised:
        export(torch.nn.ReLU(), (torch.ones(1),))
    return str(raised.value)


def test_an_older_package_is_told_with_the_command_for_it(requires: Any) -> None:
    requires("torch>=99", "onnx>=1")
    assert told() == (
        f"expected torch>=99 beside pytest-hierexport; found torch {TORCH}\nto do: pip install 'torch>=99'"
    )


def test_commands_run_where_the_package_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metadata, "distributions", lambda **_: [])
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == "hierexport unknown\n"


def test_requirements_that_do_not_apply_are_not_checked(requires: Any) -> None:
    requires("torch>=1", "rich>=99; python_version < '3'", "pytest>=99; extra == 'zoo'", "no-such-package>=1")
    versions.check_requirements()


def test_the_command_line_tells_it_without_a_traceback(requires: Any, capsys: pytest.CaptureFixture[str]) -> None:
    requires("torch>=99")
    assert main(["zoo"]) == 4
    assert capsys.readouterr().err.startswith("hierexport: expected torch>=99 beside pytest-hierexport; found torch")


def test_pytest_tells_it_before_a_model_is_built(requires: Any, project: Project) -> None:
    requires("torch>=99")
    result = project.run("--hierexport-models=my_model.py::build")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: hierexport: expected torch>=99 beside pytest-hierexport; found torch *"])
    assert project.builds == 0
