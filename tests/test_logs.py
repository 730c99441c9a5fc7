"""torch's trace of a capture in what pytest shows of a failing test."""

from __future__ import annotations

from pathlib import Path

import pytest

from projects import Project


@pytest.fixture
def failing(project: Project) -> Project:
    """Give a project with a test that exports a model, logs and fails."""
    project.write(
        "test_own.py",
        """
        import logging
        import torch

        class Halver(torch.nn.Module):
            def forward(self, x):
                return x + x

        def test_it(hierexport, caplog):
            hierexport(Halver(), torch.ones(1))
            logging.getLogger("own").warning("a warning of the project's")
            assert "torch.__trace" not in caplog.text
            caplog.set_level(logging.DEBUG)
            hierexport(Halver(), torch.ones(1))
            assert "torch.__trace" in caplog.text
            raise AssertionError
        """,
    )
    return project


def test_a_failing_test_shows_its_own_log_without_the_trace(failing: Project) -> None:
    result = failing.run()
    result.stdout.fnmatch_lines(["*own:test_own.py:*a warning of the project's", "FAILED *::test_it - AssertionError"])


def test_the_trace_shows_only_where_a_level_asks(project: Project) -> None:
    project.write(
        "test_own.py",
        """
        import torch

        def test_it(hierexport):
            hierexport(torch.nn.ReLU(), torch.ones(1))
            raise AssertionError
        """,
    )
    assert "torch.__trace" not in project.run("-o", "log_cli=true", "--log-level=INFO").stdout.str()
    assert "torch.__trace" in project.run("--log-level=DEBUG").stdout.str()


def test_the_file_of_torch_s_own_gets_the_trace(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = Path(project.path, "traces")
    monkeypatch.setenv("TORCH_TRACE", str(traces))
    project.write(
        "test_own.py",
        """
        import torch

        def test_it(hierexport):
            hierexport(torch.nn.ReLU(), torch.ones(1))
        """,
    )
    assert project.process("test_own.py").ret == 0
    assert any(path.stat().st_size for path in traces.iterdir())


def test_logging_switched_off_in_pytest_changes_nothing(project: Project) -> None:
    project.write("test_own.py", "def test_it(): pass\n")
    assert project.run("-p", "no:logging").ret == 0
