"""An eager run: what every call takes and gives, whatever it is wrapped in, and the model left as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

from pytest_hierexport._calls.hierarchy import Hierarchy
from pytest_hierexport._cases import Example
from pytest_hierexport._proof.call_values import EagerCall
from pytest_hierexport._proof.eager import Mode, ModelError, run_eager
from pytest_hierexport._proof.tensors import fingerprint_of
from pytest_hierexport._proof.values import Values

X = torch.tensor([[1.0, -2.0]])


class Relu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


@dataclass
class Ran:
    calls: dict[str, EagerCall]
    values: Values

    def number(self, tensor: torch.Tensor) -> int:
        shown = fingerprint_of(tensor)
        assert shown is not None
        return self.values.add(shown)

    def took(self, name: str) -> set[str]:
        return set(self.calls[name].inputs.values())


def run(model: nn.Module, *args: Any, mode: Mode = Mode.EXPORTING, **kwargs: Any) -> Ran:
    values = Values()
    calls = run_eager(Example(model, args, kwargs), Hierarchy([]), values, mode)
    return Ran({seen.call.name: seen for seen in calls}, values)


def test_every_call_has_its_inputs_and_outputs() -> None:
    ran = run(nn.Sequential(Relu(), nn.Flatten(0)), X)
    assert list(ran.calls) == ["0", "1", ""]
    assert list(ran.calls["0"].inputs) == [ran.number(X)]
    assert list(ran.calls["0"].returned) == [ran.number(X.relu())]
    assert ran.calls["1"].call.parent == ""


def test_calls_that_began_earlier_may_end_later() -> None:
    calls = run(nn.Sequential(Relu()), X).calls
    assert calls[""].start < calls["0"].start


def test_input_changed_in_place_keeps_its_value_on_entry() -> None:
    class Doubling(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2)

    ran = run(nn.Sequential(Doubling()), X)
    assert ran.number(X) in ran.calls["0"].inputs
    assert ran.number(X * 2) in ran.calls["0"].effects
    assert X.tolist() == [[1, -2]]


def test_input_written_between_two_calls_has_both_values() -> None:
    class Writing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Relu(), nn.ReLU(inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            whole = x * 3
            self.first(whole)
            self.second(whole.add_(1)[:, 1:])
            return whole

    ran = run(Writing(), X)
    assert ran.number(X * 3) in ran.calls["first"].inputs
    assert ran.number(X * 3) not in ran.calls["second"].inputs
    assert ran.number(X * 3 + 1) in ran.calls["second"].inputs


def test_numbers_among_inputs_are_copied_with_tensors() -> None:
    class Scaling(nn.Module):
        def forward(self, x: torch.Tensor, factor: int, *, shift: float) -> torch.Tensor:
            return x.mul_(factor).add_(shift)

    ran = run(Scaling(), X, 2, shift=0.5)
    assert ran.number(X * 2 + 0.5) in ran.calls[""].returned
    assert X.tolist() == [[1, -2]]


def test_tensor_written_through_a_view_is_input_and_given() -> None:
    class Slicing(nn.Module):
        def __init__(self, inplace: bool) -> None:
            super().__init__()
            self.relu = nn.ReLU(inplace)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            whole = x * 3
            self.relu(whole[:, 1:])
            return whole

    ran = run(Slicing(inplace=True), X)
    assert ran.number(X * 3) in ran.calls["relu"].inputs
    assert ran.number(torch.relu(X) * 3) in ran.calls["relu"].effects
    ran = run(Slicing(inplace=False), X)
    assert ran.number(X * 3) not in ran.calls["relu"].available


def test_cached_tensors_are_inputs_and_new_ones_given() -> None:
    class Cache:
        def __init__(self, *keys: torch.Tensor) -> None:
            self.keys = list(keys)

    class Appending(nn.Module):
        def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
            cache.keys.append(x + 1)
            return x + cache.keys[0]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Appending()

        def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
            out: torch.Tensor = self.inner(x, cache)
            return out

    ran = run(Model(), X, cache=Cache(X * 3))
    assert ran.calls["inner"].inputs[ran.number(X * 3)] == "[0][1].keys[0]"
    assert ran.number(X + 1) in ran.calls["inner"].available


def test_attribute_set_during_run_is_input_constant_buffer_is_not() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Buffer(torch.tensor([5.0, 6.0]))
            self.noted: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert self.noted is not None
            return x + self.table + self.noted

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.holder = Holder()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.holder.noted = x * 7
            out: torch.Tensor = self.holder(x)
            return out

    model = Model()
    ran = run(model, X)
    assert ran.took("holder") == {"[0][0]", "captured noted"}
    assert model.holder.noted is None


@pytest.mark.parametrize(
    ("mode", "reported"),
    [
        (Mode.EXPORTING, (True, True, False, True)),
        (Mode.TRACING, (False, False, True, True)),
        (Mode.PROGRAM, (True, True, False, False)),
        (Mode.PLAIN, (False, False, False, False)),
    ],
)
def test_model_runs_in_eval_mode_and_torch_reports_mode(mode: Mode, reported: tuple[bool, ...]) -> None:
    def answers() -> tuple[bool, ...]:
        jit: Any = torch.jit
        compiler, onnx = torch.compiler, torch.onnx
        return compiler.is_exporting(), compiler.is_compiling(), jit.is_tracing(), onnx.is_in_onnx_export()

    seen: list[tuple[bool, ...]] = []

    class Asking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((self.training, *answers()))
            return x

    model = Asking().train()
    run(model, X, mode=mode)
    assert seen == [(False, *reported)]
    assert model.training
    assert not any(answers())


def test_calls_in_a_compiled_module_are_seen() -> None:
    compiled: Any = torch.compile(nn.Sequential(Relu()))
    assert list(run(nn.Sequential(compiled), X).calls) == ["0._orig_mod.0", "0._orig_mod", "0", ""]


def test_calls_of_a_model_compiled_in_place_are_seen() -> None:
    model = nn.Sequential(Relu(), Relu())
    for module in (model, model[0]):
        module.register_forward_hook(lambda module, args, output: output + 1)
        module.compile()
    compiled = model._compiled_call_impl
    ran = run(model, X)
    assert list(ran.calls) == ["0", "1", ""]
    assert list(ran.calls[""].returned) == [ran.number(X.relu() + 2)]
    assert model._compiled_call_impl is compiled
    assert "_compiled_call_impl" not in vars(model[1])


def test_calls_below_a_model_with_its_own_call_are_seen() -> None:
    class Direct(Relu):
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return self.forward(x)

    assert list(run(Direct(), X).calls) == [""]


def test_model_that_does_not_run_its_forward_raises() -> None:
    class Other(nn.Sequential):
        def __call__(self, x: torch.Tensor) -> Any:
            return self[0](x)

    with pytest.raises(ModelError, match="Other does not: its calls are not seen"):
        run(Other(Relu()), X)


def test_calls_in_a_region_to_be_compiled_once_are_seen() -> None:
    class Region(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Relu()

        @torch.compiler.nested_compile_region
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.inner(x)
            return out

    assert list(run(nn.Sequential(Region()), X).calls) == ["0.inner", "0", ""]


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.inside = Relu(), Relu()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.cond(x.sum() > 0, self.inside, lambda x: self.inside(-x), (self.before(x),))
        return out


class Looping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = Relu()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor
        _, out = while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, self.inside(x) + 1), (torch.tensor(0), x))
        return out


def test_call_made_by_branch_is_marked() -> None:
    calls = run(Branching(), X).calls
    assert {name: seen.in_body for name, seen in calls.items()} == {"before": False, "inside": True, "": False}


def test_a_loop_makes_a_call_in_every_iteration() -> None:
    ran = run(Looping(), X)
    assert list(ran.calls) == ["inside", "inside@1", ""]
    assert ran.number(X.relu() + 1) in ran.calls["inside@1"].inputs


def test_tensors_made_in_inference_mode_are_seen_as_well() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.tensor([5.0, 6.0]))
            self.inner = Relu()

        @torch.inference_mode()
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            doubled = x * 2
            first = self.inner(doubled)
            doubled += 1
            out: torch.Tensor = first + self.inner(doubled) + self.table
            return out

    with torch.inference_mode():
        model, x = Model(), X.clone()
    ran = run(model, x)
    assert ran.took("inner") == {"[0][0]"}
    assert list(ran.calls["inner@1"].inputs) == [ran.number(X * 2 + 1)]


def test_module_tensors_written_in_inference_mode_are_inputs() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.constant = nn.Buffer(torch.tensor([5.0, 6.0]))
            self.rewritten = nn.Buffer(torch.tensor([7.0, 8.0]))
            self.noted: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert self.noted is not None
            return x + self.constant + self.rewritten + self.noted

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.holder = Holder()

        @torch.inference_mode()
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.holder.noted = x * 7
            self.holder.rewritten.mul_(x[0])
            out: torch.Tensor = self.holder(x)
            return out

    with torch.inference_mode():
        model, x = Model(), X.clone()
    assert run(model, x).took("holder") == {"[0][0]", "captured noted", "captured rewritten"}


def test_an_input_with_a_history_of_gradients_is_no_obstacle() -> None:
    x = X.clone().requires_grad_() * 1
    assert list(run(nn.Sequential(Relu()), x).calls) == ["0", ""]


def test_an_error_of_the_models_leaves_everything_as_it_was() -> None:
    class Failing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    original = torch.nn.Module._call_impl
    with pytest.raises(ModelError, match="ValueError: no"):
        run(nn.Sequential(Failing()), X)
    assert torch.nn.Module._call_impl is original
    assert not torch.compiler.is_exporting()
