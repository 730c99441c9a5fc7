"""Work of torch's exporter that is left out: it gives what torch's own functions give."""

from __future__ import annotations

import pytest
from onnxscript._framework_apis.torch_2_8 import get_torchlib_ops
from onnxscript._internal.values import TracedOnnxFunction
from onnxscript.rewriter._rewrite_rule import RewriteRule

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
