from __future__ import annotations

import datetime as dt
import os
import random
import sys
import types
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch

from pytest_hierexport import export
from pytest_hierexport._cases import Case, Example, KnownFailure, select
from pytest_hierexport._errors import CollectError, UsageError


class Halver(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.halve = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        halved: torch.Tensor = self.halve(x)
        return halved if y is None else halved + y


def case(factory: Callable[[], object], **options: object) -> Case:
    return Case("halver", factory, "halvers.py::build", **options)  # type: ignore[arg-type]


X = torch.ones(1, 4)


@pytest.mark.parametrize(
    ("made", "args", "kwargs"),
    [
        (lambda: (Halver(), (X,)), 1, []),
        (lambda: (Halver(), [X]), 1, []),
        (lambda: (Halver(), X), 1, []),
        (lambda: (Halver(), {"x": X}), 0, ["x"]),
        (lambda: (Halver(), (X,), {"y": X[:, :2]}), 1, ["y"]),
        (lambda: {"model": Halver(), "kwargs": {"x": X}}, 0, ["x"]),
        (lambda: {"model": Halver(), "args": (X,)}, 1, []),
        (lambda: Example(Halver(), (X,)), 1, []),
    ],
    ids=["args", "list", "tensor", "mapping", "kwargs", "named kwargs", "named args", "Example"],
)
def test_factory_may_return_any_documented_form(made: Callable[[], object], args: int, kwargs: list[str]) -> None:
    example = case(made).load()
    assert isinstance(example.model, Halver)
    assert (len(example.args), list(example.kwargs)) == (args, kwargs)


def test_example_takes_the_inputs_that_export_takes() -> None:
    model, x = torch.nn.Linear(2, 2), torch.ones(3, 2)
    assert Example(model, x).args == (x,)
    example = Example(model, {"input": x}, {"other": x})
    assert (example.args, example.kwargs) == ((), {"input": x, "other": x})
    assert Example(model, x, None).kwargs == {}  # type: ignore[arg-type]  # export takes it
    assert Example(model, {"input": x}, None).kwargs == {"input": x}  # type: ignore[arg-type]


def test_notes_of_a_factory_s_example_are_kept() -> None:
    assert case(lambda: Example(Halver(), (X,), notes=("small weights",))).load().notes == ("small weights",)


def test_a_model_alone_brings_its_inputs_as_dummy_inputs() -> None:
    class WithInputs(Halver):
        dummy_inputs = {"x": X}  # noqa: RUF012

    assert list(case(WithInputs).load().kwargs) == ["x"]


def test_a_model_that_takes_no_inputs_needs_none() -> None:
    class Constant(torch.nn.Module):
        def forward(self) -> torch.Tensor:
            return torch.ones(1)

    assert case(Constant).load().kwargs == {}


def test_model_without_found_inputs_gets_an_error_with_advice() -> None:
    with pytest.raises(CollectError, match=r"example inputs that halver runs on(.|\n)*\[models.NAME.inputs\]"):
        case(Halver).load()


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (None, "a NoneType"),
        ((), "a tuple of nothing"),
        ((X, Halver()), "a tuple of Tensor, Halver"),
        ({"module": 1}, "a mapping with the keys module"),
        (Halver, "a type"),
    ],
    ids=["None", "empty", "swapped", "other keys", "a class"],
)
def test_wrong_factory_result_is_named_in_the_error(made: object, found: str) -> None:
    with pytest.raises(CollectError) as error:
        case(lambda: made).load()
    assert error.value.found == found
    assert "(model, args, kwargs)" in error.value.expected


@pytest.mark.parametrize(
    ("raised", "quoted"),
    [
        (RuntimeError("no weights here\nsecond line"), "RuntimeError: no weights here second line"),
        (ValueError("No fit:\n- the axis 2 is 16\n- and more"), "ValueError: No fit: - the axis 2 is 16 - and more"),
        (SystemExit("no weights here"), "SystemExit: no weights here"),
    ],
    ids=["an error", "its list below a colon", "the end of the process"],
)
def test_a_factory_that_raises_is_quoted_with_the_place(
    raised: BaseException, quoted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build() -> object:
        raise raised

    for folder, file in ((Path(__file__).parents[1], "tests/test_cases.py"), (tmp_path, "test_cases.py")):
        monkeypatch.chdir(folder)
        with pytest.raises(CollectError) as error:
            case(build).load()
        assert error.value.found.startswith(f"{quoted} ({file}, line ")


@pytest.mark.parametrize("places", [("import os\nos.chdir('assets')", "pass"), ("import os", "os.chdir('assets')")])
def test_folder_that_a_factory_leaves_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").mkdir()
    head, body = places
    (tmp_path / "leaving.py").write_text(f"{head}\ndef fail():\n    {body}\n    raise ValueError('no data')\n")
    (case,) = select(["leaving.py::fail"], tmp_path)
    with pytest.raises(CollectError, match="no data"):
        case.load()
    assert Path.cwd() == tmp_path


def test_folder_that_a_factory_in_code_leaves_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").mkdir()

    def build() -> object:
        os.chdir("assets")
        return torch.nn.ReLU(), (torch.ones(1),)

    Case("leaving", build).load()
    assert Path.cwd() == tmp_path


def test_keyword_inputs_that_are_no_mapping_are_named() -> None:
    with pytest.raises(CollectError) as error:
        case(lambda: (Halver(), (X,), [1])).load()
    assert error.value.found == "a list of int"


def test_zoo_model_without_its_extra_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "pytest_hierexport._cases.zoo.encoder", raising=False)
    (bert,) = select(["bert"], Path.cwd())
    with pytest.raises(CollectError) as error:
        bert.load()
    assert error.value.do == "pip install 'pytest-hierexport[zoo]'"


def test_zoo_model_newer_than_transformers_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    package = "transformers.exporters"
    for module in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "pytest_hierexport._cases.zoo.components", raising=False)
    (prefill,) = select(["llama_prefill"], Path.cwd())
    with pytest.raises(CollectError) as error:
        prefill.load()
    assert error.value.found == f"transformers {version('transformers')}, which does not have it"
    assert error.value.do == "pip install --upgrade transformers"


def test_zoo_model_shows_why_a_module_of_transformers_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> NoReturn:
        # transformers tells so of any error in a module that it imports when the module is asked for.
        raise ModuleNotFoundError("Could not import module 'BertModel': no kernel of libfoo")

    monkeypatch.setattr("pytest_hierexport._cases.zoo.encoder.bert", build)
    (bert,) = select(["bert"], Path.cwd())
    with pytest.raises(CollectError, match="no kernel of libfoo"):
        bert.load()


def test_error_that_is_its_own_cause_is_told_once() -> None:
    def build() -> NoReturn:
        try:
            raise ValueError("no file")  # noqa: TRY301
        except ValueError as error:
            raise error from error

    with pytest.raises(CollectError) as error:
        case(build).load()
    assert error.value.found.count("no file") == 1


def test_building_draws_equal_numbers_and_keeps_the_global_state() -> None:
    def build() -> object:
        return Halver(), (torch.randn(1, 4) + random.random() + np.random.rand(),)  # noqa: NPY002

    before = torch.get_rng_state(), random.getstate()
    first, second = case(build).load(), case(build).load()
    assert torch.equal(first.args[0], second.args[0])
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_weights_are_made_generic_unless_the_case_says_otherwise() -> None:
    def build() -> object:
        model = Halver()
        torch.nn.init.zeros_(model.halve.bias)
        return model, (X,)

    generic, own = case(build).load().model, case(build, randomise=False).load().model
    assert isinstance(generic, Halver)
    assert isinstance(own, Halver)
    assert len(set(generic.halve.bias.tolist())) == 2
    assert own.halve.bias.tolist() == [0, 0]


def test_lazy_modules_get_generic_weights() -> None:
    lazy = torch.nn.Sequential(torch.nn.LazyLinear(2), torch.nn.LazyBatchNorm1d())
    scale = case(lambda: (lazy, (X,))).load().model.get_parameter("1.weight")
    assert scale[0] != scale[1]


def test_lazy_model_that_does_not_run_is_left_as_made() -> None:
    lazy = torch.nn.Sequential(torch.nn.Linear(5, 2), torch.nn.LazyLinear(2))
    model = case(lambda: (lazy, (X,))).load().model
    assert torch.nn.parameter.is_lazy(model.get_parameter("1.weight"))


def test_the_case_s_dynamic_shapes_go_before_the_factory_s() -> None:
    def build() -> object:
        return Halver(), (X,), {}, {"x": {0: "theirs"}}

    assert case(build).load().dynamic_shapes == {"x": {0: "theirs"}}
    assert case(build, dynamic_shapes={"x": {0: "ours"}}).load().dynamic_shapes == {"x": {0: "ours"}}


def test_inputs_without_a_dynamic_dimension_are_named_as_static() -> None:
    shapes = {"x": {0: "batch"}}
    assert case(lambda: (Halver(), (X, X[:, :2])), dynamic_shapes=shapes).load().dynamic_shapes == {**shapes, "y": None}


def test_missing_dynamic_axis_is_named_with_the_shape() -> None:
    with pytest.raises(CollectError) as error:
        case(lambda: (Halver(), (X,)), dynamic_shapes={"x": {7: "batch"}}).load()
    assert (error.value.found, error.value.do) == ("7", "count from 0; the shape of x is [1, 4]")


@pytest.mark.parametrize("name", ["z", "y"], ids=["no parameter", "a parameter that is not given"])
def test_dynamic_shape_of_unknown_input_names_the_inputs(name: str) -> None:
    with pytest.raises(CollectError) as caught:
        case(lambda: (Halver(), (X,)), dynamic_shapes={name: {0: "batch"}}).load()
    assert (caught.value.found, "for its inputs: x" in caught.value.expected) == (name, True)


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        ("x", "'x'"),
        (5, "5"),
        ({"x": "batch"}, "'batch'"),
        ({"x": {0: 3}}, "3 for axis 0"),
        ({"x": {"0": "batch"}}, "0"),
        ({"x": {-2: "batch"}}, "-2"),
        (({0: "batch"}, None), "2 entries"),
        (([{0: "batch"}],), "[{0: 'batch'}]"),
    ],
)
def test_dynamic_shapes_that_do_not_fit_are_refused(shapes: object, found: str) -> None:
    with pytest.raises(CollectError) as caught:
        case(lambda: (Halver(), (X,)), dynamic_shapes=shapes).load()
    with pytest.raises(UsageError) as by_function:
        export(Halver(), (X,), dynamic_shapes=shapes)
    assert (caught.value.found, by_function.value.found) == (found, found)


@pytest.mark.parametrize("inputs", [((X, X, X),), ((), {"q": X}), ()], ids=["too many", "no such name", "none"])
def test_inputs_that_forward_refuses_are_named_with_its_signature(inputs: tuple[object, ...]) -> None:
    with pytest.raises(CollectError) as caught:
        case(lambda: {"model": Halver(), **dict(zip(("args", "kwargs"), inputs or ((),), strict=False))}).load()
    assert "forward(x:" in caught.value.do


def test_given_inputs_are_counted_by_position_and_named() -> None:
    with pytest.raises(CollectError) as caught:
        case(lambda: (Halver(), (X, X, X), {"y": X, "mod": X})).load()
    assert caught.value.found.endswith("; given: 3 by position; y, mod by name")


def test_a_known_failure_is_accepted_through_its_last_day() -> None:
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    assert not KnownFailure("MUST-005", today, "").expired
    assert KnownFailure("MUST-005", today - dt.timedelta(days=1), "").expired


def test_selecting_imports_neither_torch_nor_the_project_s_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("raise AssertionError('imported')\ndef build(): ...\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise AssertionError('imported')\n")
    (tmp_path / "package" / "inner.py").write_text("raise AssertionError('imported')\ndef make(): ...\n")
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    cases = select(["model.py::build", "package.inner:make", "bert", "nested"], tmp_path)
    assert [selected.name for selected in cases] == ["build", "make", "bert", "nested"]


def test_a_dictionary_as_one_input_is_told_to_be_wrapped() -> None:
    class Reads(torch.nn.Module):
        def forward(self, readings: dict[str, torch.Tensor]) -> torch.Tensor:
            return readings["wind"]

    case = Case("reads", lambda: (Reads(), {"wind": torch.ones(2)}), "test")
    with pytest.raises(CollectError, match=r"tuple: \(model, \(dictionary,\)\)"):
        case.load()
