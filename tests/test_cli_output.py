"""What commands print of their progress."""

from __future__ import annotations

import pytest

from pytest_hierexport.cli.output import progress


def test_stage_that_fails_leaves_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with progress() as stage:
            stage("load")
            stage("compare")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    printed = capsys.readouterr().err
    assert "load" in printed
    assert "compare" not in printed
