"""The garbage collector: paused while a model is exported, and left as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from pytest_hierexport import export
from pytest_hierexport._errors import ExportError
from pytest_hierexport._export.collector import collector_paused


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.unfreeze()
    yield
    gc.unfreeze()
    (gc.enable if enabled else gc.disable)()


class Watching(nn.Module):
    """Notes the state of the collector while it runs, then fails if it is told to."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.fails = fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen.append((gc.isenabled(), gc.get_freeze_count() > 0))
        if self.fails:
            raise ValueError
        return x.tanh()


seen: list[tuple[bool, bool]] = []


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_export_pauses_the_collector_and_restores_it(enabled: bool, fails: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    seen.clear()
    try:
        export(Watching(fails=fails).eval(), (torch.randn(2),))
    except ExportError:
        assert fails
    assert set(seen) == {(False, True)}
    assert (gc.isenabled(), gc.get_freeze_count()) == (enabled, 0)


def test_objects_that_were_frozen_before_stay_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.get_freeze_count() == frozen
