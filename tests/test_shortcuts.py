"""Work that an export leaves out: torch gives the same without it, and all is as before at the end."""

from __future__ import annotations

import gc

import pytest
import torch
from onnxscript._framework_apis.torch_2_8 import get_torchlib_ops
from onnxscript._internal.values import TracedOnnxFunction
from onnxscript.rewriter._rewrite_rule import RewriteRule

from pytest_hierexport import ExportError, export
from pytest_hierexport._export.dynamo import shortcuts as module
from pytest_hierexport._export.dynamo.shortcuts import shortcuts


def test_functions_of_torchs_library_keep_their_domains() -> None:
    parsed = [(op.qualified_name, op.domain) for op in get_torchlib_ops()]
    with shortcuts():
        assert [(op.qualified_name, op.domain) for op in get_torchlib_ops()] == parsed


def test_a_function_is_parsed_for_all_but_its_domain() -> None:
    function = next(op.function for op in get_torchlib_ops() if isinstance(op.function, TracedOnnxFunction))
    inputs = len(function.function_ir.inputs)
    with shortcuts():
        assert len(function.function_ir.inputs) == inputs


def test_torchs_functions_are_back_after_an_error() -> None:
    before = TracedOnnxFunction.function_ir, RewriteRule.try_rewrite
    with pytest.raises(KeyError), shortcuts():
        raise KeyError
    assert before == (TracedOnnxFunction.function_ir, RewriteRule.try_rewrite)


@pytest.mark.parametrize("place", [("onnxscript.no_such_module", "f"), ("onnxscript", "no_such_function")])
def test_a_function_that_has_moved_is_passed_over(place: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHORTCUTS", {place: lambda original: original, **module._SHORTCUTS})
    before = RewriteRule.try_rewrite
    with shortcuts():
        assert RewriteRule.try_rewrite is not before


class Counting(torch.nn.Module):
    """Notes how many objects the garbage collector leaves alone."""

    def __init__(self, counts: list[int], *, fails: bool = False) -> None:
        super().__init__()
        self.note, self.fails = counts.append, fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add one, or fail."""
        self.note(gc.get_freeze_count())
        if self.fails:
            raise ValueError
        return x + 1


def test_the_collector_is_as_found_after_an_export() -> None:
    counts: list[int] = []
    export(Counting(counts), (torch.ones(2),), exporter="dynamo")
    assert min(counts) > 0
    assert gc.get_freeze_count() == 0
    with pytest.raises(ExportError):
        export(Counting(counts, fails=True), (torch.ones(2),), exporter="dynamo")
    assert gc.get_freeze_count() == 0


def test_what_the_user_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        export(Counting([]), (torch.ones(2),), exporter="dynamo")
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
