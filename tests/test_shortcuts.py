"""Work that an export leaves out: torch gives the same without it, and all is as before at the end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
import pytest
import torch
from onnxscript._framework_apis.torch_2_8 import get_torchlib_ops
from onnxscript._internal.values import Op, TracedOnnxFunction
from onnxscript.rewriter._rewrite_rule import RewriteRule
from torch._dispatch.python import enable_python_dispatcher
from torch._export import utils as export_utils
from torch._ops import OperatorBase
from torch._subclasses import FakeTensor
from torch.onnx._internal.exporter import _schemas as torch_schemas
from torch.utils import _traceback

from pytest_hierexport import ExportError, export
from pytest_hierexport._export.dynamo import shortcuts as module
from pytest_hierexport._export.dynamo.shortcuts import shortcuts

_schemas: Any = torch_schemas  # mypy would refuse what the tests ask of it


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


def calls_of(monkeypatch: pytest.MonkeyPatch, holder: Any, name: str) -> list[tuple[Any, ...]]:
    """Put in torch's place a function that notes its arguments."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(holder, name, lambda *args, **_: calls.append(args))
    return calls


@pytest.mark.parametrize("lost", ["_target_pattern", "_matcher"])
def test_a_rule_of_other_parts_is_tried_on_every_node(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule: Any = RewriteRule(lambda op, x: op.Relu(op.Neg(x)), lambda op, x: op.Relu(x))
    node = ir.node("Exp", [ir.Value(name="x")])
    calls = calls_of(monkeypatch, RewriteRule, "try_rewrite")
    with shortcuts():
        rule.try_rewrite(None, None, node)
        assert calls == []
        delattr(rule, lost)
        rule.try_rewrite(None, None, node)
    assert calls == [(rule, None, None, node)]


def test_a_rule_with_other_arguments_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    rule: Any = RewriteRule(lambda op, x: op.Relu(x), lambda op, x: op.Neg(x))
    calls = calls_of(monkeypatch, RewriteRule, "try_rewrite")
    with shortcuts():
        rule.try_rewrite("another")
    assert calls == [(rule, "another")]


@pytest.mark.parametrize("args", [((["a frame"], 0)), (["a frame"],)], ids=["no dictionaries", "one argument"])
def test_a_python_stack_of_another_form_is_kept(args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, _traceback, "_extract_symbolized_tb")
    with shortcuts():
        _traceback._extract_symbolized_tb(*args)
    assert calls == [args]


def test_a_function_without_an_opset_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    function = next(op.function for op in get_torchlib_ops() if isinstance(op.function, TracedOnnxFunction))
    domain = function.function_ir.domain
    parsed = function.function_ir
    monkeypatch.setattr(TracedOnnxFunction, "function_ir", property(lambda _: parsed))
    monkeypatch.delattr(Op, "opset")
    with shortcuts():
        assert function.function_ir is parsed
        assert function.function_ir.domain == domain


def relu(x: Any) -> Any:
    return x


def test_a_kept_signature_is_the_one_that_is_asked_for() -> None:
    read = _schemas.op_signature_from_function
    relu._pt_onnx_signature = kept = read(relu, "__traced")  # type: ignore[attr-defined]
    with shortcuts():
        assert _schemas.op_signature_from_function(relu, "__traced") is kept
        for asked, options in ((("other",), {}), (("__traced", "other"), {}), (("__traced",), {"since_version": 7})):
            found = _schemas.op_signature_from_function(relu, *asked, **options)
            assert found is not kept
            assert repr(found) == repr(read(relu, *asked, **options))


def test_a_signature_asked_for_in_another_way_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    relu._pt_onnx_signature = _schemas.op_signature_from_function(relu, "__traced")  # type: ignore[attr-defined]
    calls = calls_of(monkeypatch, _schemas, "op_signature_from_function")
    with shortcuts():
        _schemas.op_signature_from_function(relu, "__traced", strict=True)
    assert calls == [(relu, "__traced")]


def test_operators_are_made_again_when_there_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, export_utils, "_materialize_cpp_cia_ops")
    with shortcuts(), torch.library._scoped_library("hierexport_test", "DEF") as library:
        export_utils._materialize_cpp_cia_ops()
        export_utils._materialize_cpp_cia_ops()
        assert len(calls) == 1
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
        export_utils._materialize_cpp_cia_ops()
        assert len(calls) == 2


@pytest.fixture
def operator() -> Iterator[Any]:
    """Return a new operator, without kernels."""
    with torch.library._scoped_library("hierexport_test", "DEF") as library:
        library.define("half(Tensor x) -> Tensor")
        yield torch.ops.hierexport_test.half.default


def test_a_kernel_is_registered_as_by_torch(operator: Any) -> None:
    any_device, cpu, x = torch._C.DispatchKey.CompositeExplicitAutograd, torch._C.DispatchKey.CPU, torch.ones(1)
    with shortcuts(), enable_python_dispatcher():
        operator.py_impl(any_device)(torch.neg)
        assert operator(x) == -1  # from here on, torch keeps the kernel that it found
        assert operator.py_impl(cpu)(torch.zeros_like) is torch.zeros_like
        assert operator(x) == 0
        with pytest.raises(RuntimeError, match="Trying to override"):
            operator.py_impl(cpu)(torch.neg)


def test_other_kinds_of_kernels_are_left_to_torch(operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, OperatorBase, "py_impl")
    with shortcuts():
        for key in (torch._C.DispatchKey.Python, FakeTensor, "CPU"):
            operator.py_impl(key)
    assert [key for _, key in calls] == [torch._C.DispatchKey.Python, FakeTensor, "CPU"]


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
