"""How exports under other names are compared: `pytest_hierexport._rules.renamed_export`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.exporting import export_case
from pytest_hierexport._errors import NoVerdictError
from pytest_hierexport._rules.base import ExportedCase, Violation
from pytest_hierexport._rules.must_001 import exporter_sources
from pytest_hierexport._rules.renamed_export import _changed_attributes, renaming_violations

REGISTRY: dict[str, float] = {}


class Block(nn.Module):
    """One projection."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projected: torch.Tensor = self.projection(x)
        return projected


class Plain(nn.Module):
    """A block, called by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        blocked: torch.Tensor = self.block(x)
        return blocked


class GrowsWithEachExport(Plain):
    """Computes more each time that it is exported."""

    exports = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        GrowsWithEachExport.exports += torch.compiler.is_exporting()
        for _ in range(GrowsWithEachExport.exports):
            x = super().forward(x)
        return x


class Counts(Plain):
    """Assigns to a buffer of its own."""

    runs: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs = self.runs + 1
        counted: torch.Tensor = super().forward(x) + self.runs
        return counted


class Registers(Counts):
    """Registers its buffer again in each call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.register_buffer("runs", torch.arange(2.0), persistent=False)
        self.runs = self.runs + 1
        return Plain.forward(self, x) + self.runs


class FindsPartsByName(Plain):
    """A model that decides by the names of its own parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, child in self.named_children():
            x = child(x) if name == "block" else -child(x)
        return x


class NeedsItsName(Plain):
    """A model that runs under its own names alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "block" not in dict(self.named_children()):
            raise RuntimeError("no block")
        return super().forward(x)


class SumsByName(Plain):
    """A model with an attribute of an operator that depends on a name."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = self.block(x).softmax(dim=0 if "block" in dict(self.named_children()) else 1)
        return summed


class ScalesByName(Plain):
    """A model with a constant that depends on a name."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = self.block(x) * (2.5 if "block" in dict(self.named_children()) else 3.5)
        return scaled


class Chooses(nn.Module):
    """A model whose branches torch compiles, modules and all."""

    def __init__(self) -> None:
        super().__init__()
        self.here, self.there = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(
            x.sum() > 0, lambda x: self.here(x).sin(), lambda x: self.there(x).relu(), (x,)
        )
        return chosen


class FindsItselfByWhatItPrints(Plain):
    """A model that looks itself up in a table, as some libraries' models do."""

    def __init__(self) -> None:
        super().__init__()
        REGISTRY[str(type(self))] = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * REGISTRY.get(str(type(self)), 3.0) * REGISTRY.get(str(type(self)), 5.0)


class Alone(type):
    """Makes classes that forbid subclasses."""

    def __new__(cls, name: str, bases: tuple[type, ...], held: dict[str, Any]) -> Any:
        if any(isinstance(base, Alone) for base in bases):
            raise TypeError("this class is final")
        return super().__new__(cls, name, bases, held)


class Final(Plain, metaclass=Alone):
    pass


ROW = torch.ones(1, 2)


def violations(folder: Path, model: nn.Module, exporter: str = "dynamo", given: object = ROW) -> list[Violation]:
    case = Case("model", lambda: (model, (given,)), "tests", exporter=exporter, randomise=False)
    example = case.load()
    export_case(case, example, folder / "model.onnx")
    exported = ExportedCase(case, folder / "model.onnx", example, exporter)
    return list(renaming_violations(exported, exporter_sources(exported)))


def found(folder: Path, model: nn.Module) -> list[tuple[str, str]]:
    return [(violation.where, violation.found) for violation in violations(folder, model)]


def test_model_without_names_shows_no_difference(tmp_path: Path) -> None:
    assert not found(tmp_path, Plain())


def test_graph_that_changes_with_each_export_has_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(NoVerdictError, match="under the same names, too, the second export differs, first at "):
        violations(tmp_path, GrowsWithEachExport())


EXPORTS_ONCE = """
import copy

from torch.nn.utils import parametrize
from pytest_hierexport import export as tagged

def export(model, args, kwargs, path):
    copied = copy.deepcopy(model)
    for module in [each for each in copied.modules() if parametrize.is_parametrized(each)]:
        parametrize.remove_parametrizations(module, "weight")
    tagged(copied, args, kwargs, path=path)
"""


def test_exporter_that_breaks_the_model_has_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exports_once.py").write_text(EXPORTS_ONCE)
    monkeypatch.syspath_prepend(tmp_path)
    model = Plain()
    # The class that torch made for the parametrisation is the copy's too, and loses its `weight`.
    nn.utils.parametrizations.weight_norm(model.block.projection)
    with pytest.raises(NoVerdictError, match="under the same names, too, the second export fails: "):
        violations(tmp_path, model, "exports_once:export")


@pytest.mark.parametrize("cls", [Counts, Registers])
def test_model_that_assigns_to_its_buffer_shows_no_difference(cls: type[nn.Module], tmp_path: Path) -> None:
    assert not violations(tmp_path, cls())


def test_model_that_fails_under_other_names_says_how(tmp_path: Path) -> None:
    (violation,) = violations(tmp_path, NeedsItsName())
    assert violation.expected == "the same export"
    assert violation.found.startswith("none after all classes, modules and parameters were renamed: expected ")
    assert "no block" in violation.found


def test_modules_of_torch_fx_show_no_difference(tmp_path: Path) -> None:
    made = torch.fx.GraphModule(Plain(), torch.fx.Tracer().trace(Plain()))
    assert type(made).__name__ != type(made).__qualname__.rpartition(".")[2]
    assert not violations(tmp_path, made)


def test_class_with_a_dot_in_its_name_shows_no_difference(tmp_path: Path) -> None:
    assert not violations(tmp_path, type("Plain.v2", (Plain,), {})())


def test_modules_in_compiled_branches_show_no_difference(tmp_path: Path) -> None:
    assert not found(tmp_path, Chooses())


def test_model_that_finds_parts_by_name_gives_another_graph(tmp_path: Path) -> None:
    ((_, what),) = found(tmp_path, FindsPartsByName())
    assert "Neg(" in what


def test_other_attributes_of_an_operator_are_found(tmp_path: Path) -> None:
    ((_, what),) = found(tmp_path, SumsByName())
    assert what == "another axis, after all classes, modules and parameters were renamed"


def test_another_constant_is_found(tmp_path: Path) -> None:
    ((where, _),) = found(tmp_path, ScalesByName())
    assert where.startswith("initializer ")


def test_lookup_by_the_printed_class_shows_no_difference(tmp_path: Path) -> None:
    assert not found(tmp_path, FindsItselfByWhatItPrints())


def test_model_that_cannot_be_renamed_is_a_violation(tmp_path: Path) -> None:
    ((where, what),) = found(tmp_path, Final())
    assert where == "the model under other names"
    assert "Final: TypeError: this class is final" in what


DECIDES_BY_NAME = """
import onnx_ir as ir

from pytest_hierexport import Attribution, Origin, attach, export as tagged, read, save


def export(model, args, kwargs, path):
    tagged(model, args, kwargs, path=path)
    graph, found = ir.load(path), read(path)
    moved = {k: tuple(Origin(to_block(o.call), o.evidence) for o in origins) for k, origins in found.nodes.items()}
    attribution = Attribution(found.hierarchy, moved)
    attach(graph, attribution)
    save(graph, attribution, path)


def to_block(call):
    return "block" if call == "block.projection" else call
"""


def test_calls_are_shown_whose_tags_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "decides_by_name.py").write_text(DECIDES_BY_NAME)
    monkeypatch.syspath_prepend(tmp_path)
    found = violations(tmp_path, Plain(), "decides_by_name:export")
    violation = next(each for each in found if each.where.startswith("node "))
    assert violation.expected == "call 'block', /Plain/Block (traced)"
    assert violation.found.startswith("call 'block.projection', /Plain/Block (traced), after all classes")


PICKLES = """
import pickle

from pytest_hierexport import export as tagged


def export(model, args, kwargs, path):
    {}
    tagged(pickle.loads(pickle.dumps(model)), args, kwargs, path=path)
"""


def test_exporter_that_pickles_the_model_has_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "pickles.py").write_text(PICKLES.format("pass"))
    with pytest.raises(NoVerdictError, match="does not pickle the model"):
        violations(tmp_path, Plain(), "pickles:export")
    (tmp_path / "decides_first.py").write_text(PICKLES.format("hasattr(model, 'block')"))
    assert violations(tmp_path, Plain(), "decides_first:export")[0].where == "decides_first.py:8"


class TwoHeads(nn.Module):
    """Two projections, the one that is last in the alphabet first."""

    def __init__(self) -> None:
        super().__init__()
        self.upper, self.lower = Block(), Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stacked: torch.Tensor = self.lower(self.upper(x))
        return stacked


CHANGES = """
from pathlib import Path

import onnx_ir as ir

from pytest_hierexport import export as tagged

NAMES = Path("names.txt").read_text().split()


def export(model, args, kwargs, path):
    done = tagged(model, args, kwargs)
    graph = done.model.graph
    has = any(name in NAMES for name, _ in model.named_children())
    {}
    done.save(path)
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("held = sorted(graph.initializers.items()); graph.initializers.clear(); graph.initializers.update(held)", []),
        ("graph.outputs.extend([graph.node(0).outputs[0]] * has)", ["outputs of the graph"]),
        ("graph.node(0).outputs[0].metadata_props.update({'kept': 'yes'} if has else {})", ["value "]),
        ("graph.node(0).outputs[0].metadata_props['kept'] = 'yes'", []),
        ("graph.node(0).attributes.add(ir.AttrString('mode', 'fast' if has else 'exact'))", []),
        ("[n.attributes.add(ir.AttrString('m', 'abc'[i + has])) for i, n in enumerate(graph)]", []),
        ("[n.attributes.add(ir.AttrString('m', 'aab'[i + has])) for i, n in enumerate(graph)]", ["node linear"]),
        ("graph.node(0).attributes.update({'modes': ir.AttrStrings('modes', ['a', 'b'])} if has else {})", ["node li"]),
        ("graph.node(0).attributes.add(ir.AttrString('of', ' '.join(name for name, _ in model.named_modules())))", []),
    ],
)
def test_outputs_and_values_count_order_of_initializers_does_not(
    change: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.txt").write_text("lower")
    (tmp_path / "changes.py").write_text(CHANGES.replace("{}", change))
    monkeypatch.syspath_prepend(tmp_path)
    shown = [violation.where for violation in violations(tmp_path, TwoHeads(), "changes:export")]
    assert [where[: len(start)] for where, start in zip(shown, expected, strict=True)] == expected


SORTS = "held = sorted(graph.initializers.items()); graph.initializers.clear(); graph.initializers.update(held)"
SCALES = """for each in graph.initializers.values():
        factor = 2 if has and each.const_value.nbytes > 256 else 1
        each.const_value = ir.tensor(factor * each.const_value.numpy(), name=each.name)"""


@pytest.mark.parametrize(("change", "expected"), [(SORTS, []), (SCALES, ["initializer upper.projection.weight"])])
def test_data_beside_the_file_counts_its_place_does_not(
    change: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.txt").write_text("lower")
    source = CHANGES.replace("done.save(path)", "done.save(path, external_data=True)").replace("{}", change)
    (tmp_path / "outside.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    model = TwoHeads()
    model.upper.projection, model.lower.projection = nn.Linear(2, 64), nn.Linear(64, 2)
    assert [violation.where for violation in violations(tmp_path, model, "outside:export")] == expected


KEEPS_NAMES = """
import json

from pytest_hierexport import export as tagged


def export(model, args, kwargs, path):
    done = tagged(model, args, kwargs, exporter="torchscript")
    kept = json.loads(json.dumps([node.name for node in done.model.graph if node.op_type == "Gemm"]))
    for node in done.model.graph:
        if node.name in kept:
            node.metadata_props["kept"] = "yes"
    done.save(path)
"""


def test_names_of_nodes_read_from_a_file_show_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keeps_names.py").write_text(KEEPS_NAMES)
    monkeypatch.syspath_prepend(tmp_path)
    model = nn.Sequential(TwoHeads(), TwoHeads())
    assert not violations(tmp_path, model, "keeps_names:export")


WRITES_OLD_NAMES = """
import shutil
from pathlib import Path

from pytest_hierexport import export as tagged

FIRST = Path(__file__).with_name("first.onnx")


def export(model, args, kwargs, path):
    if not FIRST.exists():
        tagged(model, args, kwargs, path=FIRST)
    shutil.copy(FIRST, path)
"""


def test_tags_with_old_names_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "writes_old_names.py").write_text(WRITES_OLD_NAMES)
    monkeypatch.syspath_prepend(tmp_path)
    violation, *_ = violations(tmp_path, Plain(), "writes_old_names:export")
    assert violation.expected == "call 'block.projection', /Plain/Block (traced) under its new name"
    assert violation.found.startswith("call 'block.projection', /Plain/Block (traced), after all classes")


WRAPS = """
from torch import nn

from pytest_hierexport import export as tagged

class Pipeline(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.block = nn.Tanh()
        self.inner = model

    def forward(self, x):
        return self.inner(self.block(x))

def export(model, args, kwargs, path):
    tagged(Pipeline(model), args, kwargs, path=path)
"""
NAMES_WITHIN = """
    import onnx
    from pytest_hierexport import Attribution, Call, Hierarchy, Origin, attach, read, save
    import onnx_ir as ir

    found, graph = read(path), ir.load(path)
    old = lambda name: "inner.block" if name and name.count(".") == 1 and name.startswith("inner.") else name
    calls = [Call(old(c.path), c.index, c.cls, c.parent) for c in found.hierarchy.values() if c.path.count(".") < 2]
    moved = {k: tuple(Origin(old(o.call.rpartition(".")[0]) if o.call.count(".") > 1 else o.call, o.evidence)
                      for o in each) for k, each in found.nodes.items()}
    attribution = Attribution(Hierarchy(calls), moved)
    attach(graph, attribution)
    save(graph, attribution, path)
"""


@pytest.mark.parametrize(("ending", "stale"), [("", []), (NAMES_WITHIN, ["call 'inner.block', /Pipeline/Plain/Block"])])
def test_names_of_a_wrapper_are_not_the_models(
    ending: str, stale: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "wraps_and_names" if ending else "wraps"
    (tmp_path / f"{name}.py").write_text(WRAPS + ending)
    monkeypatch.syspath_prepend(tmp_path)
    found = [each.expected for each in violations(tmp_path, Plain(), f"{name}:export") if each.where.startswith("node")]
    assert found == [f"{each} (traced) under its new name" for each in stale]


def test_line_that_asks_for_a_name_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = DECIDES_BY_NAME.replace("    tagged(", "    model.block\n    tagged(")
    (tmp_path / "asks_by_name.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    case = ExportedCase(Case("model", lambda: (Plain(), (torch.ones(1, 2),)), "tests"), tmp_path / "model.onnx")
    again = ExportedCase(case.case, case.path, case.example, "asks_by_name:export", tmp_path / "asks_by_name.py")
    again.export_again(again.path)
    violation, *_ = renaming_violations(again, [tmp_path / "asks_by_name.py"])
    assert (violation.where, violation.found) == ("asks_by_name.py:8", "'block' is asked for in `model.block`")


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function, as a decorator that a project uses everywhere."""

    @wraps(function)
    def guard(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return guard


@contextmanager
def open_meanwhile() -> Iterator[None]:
    yield


class Decorated(Plain):
    """A model with decorated methods; each decorator returns functions of one code."""

    @guarded
    def export_helper(self) -> None:
        pass

    @open_meanwhile()
    def never_called(self) -> None:
        pass


def test_decorators_of_methods_hide_nothing_of_an_exporter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = DECIDES_BY_NAME.replace(
        "    tagged(", "    print(any(\n        name == 'block'\n        for name in model._modules))\n    tagged("
    )
    (tmp_path / "decorated_exporter.py").write_text(
        f"from test_rules_renamed_export import guarded, open_meanwhile\n{source}"
        "export = open_meanwhile()(guarded(export))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = violations(tmp_path, Decorated(), "decorated_exporter:export")
    assert "'block' decides `name == 'block'` for 'block'" in [each.found for each in found]


def test_exporter_is_watched_with_a_model_of_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "asks_bert.py").write_text(
        "from pytest_hierexport import export as tagged\n\n"
        "def export(model, args, kwargs, path):\n"
        "    for name, _ in model.named_modules():\n"
        "        name.endswith('pooler')\n"
        "    tagged(model, args, kwargs, path=path)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (case,) = select(["bert"], tmp_path)
    case = replace(case, exporter="asks_bert:export")
    example, path = case.load(), tmp_path / "model.onnx"
    export_case(case, example, path)
    exported = ExportedCase(case, path, example, "asks_bert:export")

    # transformers decorates a method of all its models in this way, and a rule is checked inside such functions.
    @open_meanwhile()
    def check() -> list[Violation]:
        return list(renaming_violations(exported, exporter_sources(exported)))

    assert [each.found for each in check()] == ["'pooler' decides `name.endswith('pooler')` for 'pooler'"]


OWN = """
from pytest_hierexport import export as plain

def export(model, args, kwargs, path, {parameters}):
    {first}
    plain(model, args, kwargs, path, opset=opset, dynamic_shapes=dynamic_shapes)
    if {condition} and hasattr(model, "block"):
        print("a block")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Give a function that writes an exporter of the project's own, and returns its name."""

    def written(condition: str, parameters: str, first: str = "", end: str = "") -> str:
        name = f"own_{tmp_path.name.replace('-', '_')}"
        source = OWN.format(condition=condition, parameters=parameters, first=first) + end
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        return name

    return written


@pytest.mark.parametrize(
    ("condition", "parameters", "first", "found"),
    [
        ("opset == 17", "*, opset=None, dynamic_shapes=None", "", True),
        ("dynamic_shapes", "*, opset=None, dynamic_shapes=None", "", True),
        ("opset == 17", "**options", "opset, dynamic_shapes = map(options.get, ('opset', 'dynamic_shapes'))", True),
        ("opset", "opset=None", "dynamic_shapes = None", True),
        ("opset", "*, opset=None, dynamic_shapes=None", "assert opset is None", False),
        ("opset == 16", "*, opset=None, dynamic_shapes=None", "", False),
        ("opset", "", "opset = dynamic_shapes = None", False),
        ("opset", "*, opset=None, dynamic_shapes=None", "assert dynamic_shapes is None", True),
        ("dynamic_shapes", "*, opset=None, dynamic_shapes=None", "assert opset is None", True),
        ("opset", "*, opset=None, dynamic_shapes=None", "__import__('warnings').warn('no warning of the user')", True),
    ],
)
def test_code_for_options_that_the_case_leaves_out_is_watched(
    condition: str, parameters: str, first: str, *, found: bool, tmp_path: Path, own: Callable[..., str]
) -> None:
    name = own(condition, parameters, f"{first} if opset or dynamic_shapes else None" if "import" in first else first)
    places = [violation.where for violation in violations(tmp_path, Plain(), f"{name}:export")]
    assert places == [f"{name}.py:7"] * found


@dataclass
class Pair:
    """Inputs of a class that takes tensors alone."""

    x: torch.Tensor

    def __post_init__(self) -> None:
        assert isinstance(self.x, torch.Tensor)


torch.export.register_dataclass(Pair)


class TakesPair(Plain):
    """A model whose input has no form for shapes."""

    def forward(self, pair: Pair) -> torch.Tensor:  # type: ignore[override]
        return super().forward(pair.x)


def test_inputs_of_a_class_of_tensors_leave_out_dynamic_shapes(tmp_path: Path, own: Callable[..., str]) -> None:
    name = own("opset", "*, opset=None, dynamic_shapes=None")
    assert [violation.where for violation in violations(tmp_path, TakesPair(), f"{name}:export", Pair(ROW))] == [
        f"{name}.py:7"
    ]


def test_model_that_prints_its_class_is_watched_with_options(tmp_path: Path, own: Callable[..., str]) -> None:
    name = own("opset", "*, opset=None, dynamic_shapes=None")
    found = violations(tmp_path, FindsItselfByWhatItPrints(), f"{name}:export")
    assert [violation.where for violation in found] == [f"{name}.py:7"]


PARTIAL = "import functools\nmade = functools.partial(export, opset=None)\n"
CALLABLE = "class Made:\n    def __call__(self, *args, **options):\n        export(*args, **options)\n\nmade = Made()\n"


@pytest.mark.parametrize("end", [PARTIAL, CALLABLE], ids=["partial", "object"])
def test_source_of_a_callable_object_is_watched(end: str, tmp_path: Path, own: Callable[..., str]) -> None:
    name = own("True", "*, opset=None, dynamic_shapes=None", end=end)
    found = violations(tmp_path, Plain(), f"{name}:made")
    assert [violation.where for violation in found] == [f"{name}.py:7"]


def test_constants_are_compared_wherever_their_elements_are_stored() -> None:
    one, other = (helper.make_tensor("w", TensorProto.FLOAT, [2], values) for values in ([1, 2], [1, 3]))
    nodes = [helper.make_node("Constant", [], ["c"], value=tensor) for tensor in (one, other)]
    assert _changed_attributes(*nodes) == "value"
    assert not _changed_attributes(nodes[0], nodes[0])
