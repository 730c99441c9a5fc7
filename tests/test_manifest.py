from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
import torch

from pytest_hierexport._cases import Case, select
from pytest_hierexport._cases.manifest import line_of_model
from pytest_hierexport._errors import CollectError, HierexportError, UsageError

FACTORY = """
import torch

class Adder(torch.nn.Module):
    def forward(self, ids, x=None):
        return ids + 1 if x is None else ids + x

def build():
    return Adder(), (torch.ones(1),)
"""


KNOWN = '[models.a]\nmodel = "bert"\n[[models.a.known_failures]]\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "adders.py").write_text(FACTORY)
    return tmp_path


def read(home: Path, text: str) -> list[Case]:
    (home / "models.toml").write_text(text, encoding="utf-8")
    return select(["models.toml"], home)


def test_models_of_a_manifest_keep_their_order_and_anchor(home: Path) -> None:
    cases = read(home, '[models.second]\nmodel = "adders.py::build"\n[models."a/b"]\nmodel = "bert"\n')
    assert [case.name for case in cases] == ["second", "a/b"]
    assert {(case.manifest, case.anchor, case.source) for case in cases} == {
        (home / "models.toml", home / "models.toml", "models.toml")
    }


def test_manifest_may_begin_with_a_byte_order_mark(home: Path) -> None:
    assert [case.name for case in read(home, '\ufeff[models.first]\r\nmodel = "bert"\r\n')] == ["first"]
    assert line_of_model(home / "models.toml", "first") == 1


def test_every_option_of_a_case_may_be_stated(home: Path) -> None:
    (case,) = read(
        home,
        """
        [models.adder]
        model = "adders.py::build"
        exporter = "dynamo"
        opset = 20
        randomise = false
        allow_derived = 2
        keep = ["torch.nn.LayerNorm"]
        [models.adder.tolerances]
        float32 = 1e-3
        [[models.adder.known_failures]]
        rule = "MUST-005"
        until = 2030-01-31
        reason = "a bug of theirs"
        """,
    )
    assert (case.exporter, case.opset, case.randomise, case.allow_derived) == ("dynamo", 20, False, 2)
    assert (case.keep, dict(case.tolerances)) == (("torch.nn.LayerNorm",), {"float32": 1e-3})
    known = case.known_failure("MUST-005")
    assert known is not None
    assert (known.until, known.reason) == (dt.date(2030, 1, 31), "a bug of theirs")
    assert case.known_failure("MUST-004") is None


def test_stated_inputs_replace_those_of_the_factory(home: Path) -> None:
    (case,) = read(
        home,
        """
        [models.adder]
        model = "adders.py::build"
        [models.adder.inputs]
        ids = { shape = [2, 7], dtype = "int64", low = 5, high = 9 }
        x = { shape = [7], dtype = "float16" }
        [models.adder.dynamic]
        ids = { 0 = "batch" }
        """,
    )
    example = case.load()
    assert example.args == ()
    ids, x = example.kwargs["ids"], example.kwargs["x"]
    assert (ids.shape, ids.dtype, x.shape, x.dtype) == ((2, 7), torch.int64, (7,), torch.float16)
    assert set(ids.unique().tolist()) <= {5, 6, 7, 8}
    assert example.dynamic_shapes == {"ids": {0: "batch"}, "x": None}


@pytest.mark.parametrize(
    ("made", "found"), [("{'net': Adder()}", "a mapping with the keys net"), ("None", "a NoneType")]
)
def test_stated_inputs_do_not_hide_what_a_factory_returned(home: Path, made: str, found: str) -> None:
    with (home / "adders.py").open("a") as file:
        file.write(f"def wrong(): return {made}\n")
    (case,) = read(home, '[models.wrong]\nmodel = "adders.py::wrong"\ninputs.x = { shape = [2] }\n')
    with pytest.raises(CollectError, match=f"found an Example of {found}"):
        case.load()


def test_paths_start_at_the_manifest(home: Path) -> None:
    (home / "models.toml").write_text('[models.adder]\nmodel = "adders.py::build"\n')
    (case,) = select([f"{home.name}/models.toml"], home.parent)
    assert type(case.load().model).__name__ == "Adder"


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("models = = 3\n", "to be TOML", "line 1"),
        ("", "a table [models.NAME] per model", "none"),
        ("[models]\n", "a table [models.NAME] per model", "none"),
        ('[model.text]\nmodel = "bert"\n', "a table [models.NAME] per model", "none, but [model]"),
        ('[models.a]\nmodle = "bert"\n', "models.a.modle", "unknown"),
        (
            '[models.a]\nmodel = "bert"\n[models.a.dynamic]\nopset = 20\n',
            "at models.a.dynamic.opset",
            "20, as opset is read as an entry of dynamic; state options above [models.a.dynamic]",
        ),
        ("models = 3\n", "a table [models.NAME] per model", "3"),
        ("[models]\na = 3\n", "a table at models.a", "3"),
        ("[models.a]\n", "model to be stated at models.a.model", "nothing"),
        ("[models.a]\nmodel = 3\n", "text in quotes at models.a.model", "3"),
        ('[models.a]\nmodel = "bert"\nopsett = 3\n', "models.a.opsett", "unknown"),
        ('[models.a]\nmodel = "bert"\nopset = true\n', "a whole number at models.a.opset", "True"),
        ('[models.a]\nmodel = "*"\n', "a single model", "which is"),
        ('[models.a]\nmodel = "other.toml"\n', "a single model", "other.toml"),
        ('[models.a]\nmodel = "models.toml::a"\n', "not defined by itself at models.a.model", "models.toml::a"),
        (
            '[models.a]\nmodel = "models.toml::b"\n[models.b]\nmodel = "b=models.toml::a"\n',
            "not defined by itself at models.a.model",
            "models.toml::b",
        ),
        ('[models.a]\nmodel = "bert"\ntrust_remote_code = true\n', "a checkpoint folder", "bert"),
        (
            '[models.a]\nmodel = "bert"\n[models.a.inputs]\nx = { shape = [-1] }\n',
            "a size of 0 or more at models.a.inputs.x.shape.0",
            "-1",
        ),
        ('[models.a]\nmodel = "bert"\nopset = 20.0\n', "a whole number at models.a.opset", "20.0"),
        ('[models.a]\nmodel = "bert"\n[models.a.dynamic]\nx = { 0 = 1 }\n', "the name of a size", "1"),
        ('[models.a]\nmodel = "bert"\n[models.a.inputs]\nx = 3\n', "a table at models.a.inputs.x", "3"),
        ('[models.a]\nmodel = "bert"\n[models.a.dynamic]\nx = { a = "b" }\n', "axes and the names", "'a'"),
        ('[models.a]\nmodel = "bert"\n[models.a.tolerances]\nfloat32 = -1\n', "0 or more", "-1"),
        ('[models.a]\nmodel = "bert"\n[models.a.tolerances]\nfloat32 = nan\n', "0 or more", "nan"),
        ('[models.a]\nmodel = "bert"\ntimeout = nan\n', "a number of seconds", "nan"),
        ('[models.a]\nmodel = "bert"\n[models.a.tolerances]\nfloat = 1e-3\n', "a floating dtype", "float"),
        (
            KNOWN + 'rule = "MUST-003"\nuntil = 2030-01-01\nreason = ""\n',
            "a rule that is not cardinal",
            "MUST-003",
        ),
        (
            KNOWN + 'rule = "MUST-005"\nuntil = "soon"\nreason = ""\n',
            "a date, without a time (2030-01-31) at models.a.known_failures.0.until",
            "'soon'",
        ),
        (
            KNOWN + 'rule = "MUST-005"\nuntil = 2030-01-01T00:00:00\nreason = "torch"\n',
            "a date, without a time",
            "2030-01-01",
        ),
        (KNOWN + 'rule = "MUST-005"\nuntil = 2030-01-01\nreason = " "\n', "the reason", "' '"),
        ('[models.""]\nmodel = "bert"\n', "a name for every model", "''"),
        ('[models.a]\nmodel = "bert"\nallow_derived = -1\n', "a number of nodes", "-1"),
        (
            '[models.a]\nmodel = "bert"\n[models.a.inputs]\nx = { shape = [1], low = 5, high = 5 }\n',
            "a number above low",
            "5",
        ),
        (
            KNOWN + 'rule = "MUST-005"\nreason = ""\n',
            "until to be stated",
            "nothing",
        ),
    ],
)
def test_wrong_entry_of_a_manifest_is_named_with_its_place(home: Path, text: str, expected: str, found: str) -> None:
    with pytest.raises(CollectError) as error:
        read(home, text)
    assert expected in error.value.expected
    assert found in error.value.found


def test_misspelled_key_of_a_manifest_proposes_the_right_one(home: Path) -> None:
    with pytest.raises(CollectError) as error:
        read(home, '[models.a]\nmodell = "bert"\n')
    assert error.value.expected == f"models.a.modell in {home / 'models.toml'} to be a known key"
    assert error.value.do == "perhaps model"


@pytest.mark.parametrize("shapes", ['{"ids": {0: "batch"}, "x": {0: "batch"}}', '({0: "batch"},)'])
def test_stated_inputs_keep_the_dynamic_shapes_of_the_factory(home: Path, shapes: str) -> None:
    (home / "adders.py").write_text(FACTORY.replace("(torch.ones(1),)", f"(torch.ones(2),), {{}}, {shapes}"))
    (case,) = read(home, '[models.adder]\nmodel = "adders.py::build"\ninputs.ids = { shape = [3] }\n')
    found = case.load().dynamic_shapes
    assert (found["ids"] if isinstance(found, dict) else found[0]) == {0: "batch"}


def test_thin_model_of_a_trusted_checkpoint_may_be_a_factory(home: Path) -> None:
    (home / "checkpoint").mkdir()
    (home / "checkpoint" / "config.json").write_text("{}")
    text = '[models.a]\nmodel = "./checkpoint"\ntrust_remote_code = true\nweights = "thin"\nthin = "adders.py::build"\n'
    (case,) = read(home, text)
    assert case.thin is not None
    assert case.thin.source == "adders.py::build"


def test_one_name_for_axes_of_different_sizes_is_refused(home: Path) -> None:
    inputs = "inputs.ids = { shape = [2] }\ninputs.x = { shape = [3, 2] }\n"
    text = f'[models.adder]\nmodel = "adders.py::build"\n{inputs}dynamic.ids = {{ 0 = "n" }}\n'
    assert read(home, f'{text}dynamic.x = {{ 1 = "n" }}\n')[0].load().dynamic_shapes["x"] == {1: "n"}
    (case,) = read(home, f'{text}dynamic.x = {{ 0 = "n" }}\n')
    with pytest.raises(CollectError, match="'n', which is 2 at axis 0 of ids and 3 at axis 0 of x"):
        case.load()


def test_entry_of_an_entry_keeps_what_it_leaves_out(home: Path) -> None:
    inner = 'model = "adders.py::build"\nopset = 20\nkeep = ["torch.nn.ReLU"]\nafter = ["onnxruntime:all"]\n'
    failure = '[[models.a.known_failures]]\nrule = "MUST-005"\nuntil = 2030-01-01\nreason = "torch"\n'
    text = f'[models.a]\n{inner}tolerances.float32 = 0.5\n{failure}[models.b]\nmodel = "models.toml::a"\n'
    one, other = read(home, text)
    for name in ("opset", "keep", "after", "tolerances", "known_failures"):
        assert getattr(one, name) == getattr(other, name) != getattr(Case("default", object), name)
    assert one.stated <= other.stated
    assert read(home, f"{text}keep = []\n")[1].keep == ()


def test_entry_of_an_entry_tells_the_cache_of_both(home: Path) -> None:
    text = '[models.a]\nmodel = "adders.py::build"\ninputs.ids.shape = [{}]\n[models.b]\nmodel = "models.toml::a"\n'
    assert read(home, text.format(2))[1].entry != read(home, text.format(3))[1].entry


def test_dynamic_entry_that_fits_no_input_has_its_place(home: Path) -> None:
    for stated, found in (('idx = { 0 = "n" }', "idx"), ('ids = { 3 = "n" }', "3")):
        (case,) = read(home, f'[models.a]\nmodel = "adders.py::build"\n[models.a.dynamic]\n{stated}\n')
        with pytest.raises(CollectError) as error:
            case.load()
        assert error.value.found == f"{found} at models.a.dynamic in {home / 'models.toml'}"


def test_model_is_found_at_the_line_of_its_table(home: Path) -> None:
    (home / "models.toml").write_text(
        "# models\n[models.bert]\nmodel = 'bert'\nother = [\n['models.vit'],\n]\n"
        " [ models . 'a/b' ] # [models.vit]\n[models.vit.inputs]\n[models.vit]\n"
    )
    lines = {name: line_of_model(home / "models.toml", name) for name in ("bert", "a/b", "vit", "no")}
    assert lines == {"bert": 2, "a/b": 7, "vit": 8, "no": 1}


def test_unknown_model_of_a_manifest_names_the_nearest(home: Path) -> None:
    with pytest.raises(UsageError, match=r"for a in .*models.toml; found no 'brt'\nto do: perhaps bert"):
        read(home, '[models.a]\nmodel = "brt"\n')


def test_unknown_dtype_is_named_when_inputs_are_made(home: Path) -> None:
    (case,) = read(
        home, '[models.a]\nmodel = "adders.py::build"\n[models.a.inputs]\nids = { shape = [1], dtype = "flaot32" }\n'
    )
    with pytest.raises(HierexportError, match="found 'flaot32'"):
        case.load()


def test_manifest_too_deep_to_parse_is_named(home: Path) -> None:
    with pytest.raises(CollectError, match="to be TOML; found maximum recursion depth"):
        read(home, f"x = {'[' * 3_000}{']' * 3_000}")


def test_manifest_that_is_not_text_is_named_as_that(home: Path) -> None:
    (home / "models.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CollectError, match="readable UTF-8"):
        select(["models.toml"], home)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ('dtype = "uint8", low = 200, high = 300', "numbers from 200 to 299, of which uint8 cannot hold all"),
        ('dtype = "int64", high = 99999999999999999999', "cannot hold all"),
        ('dtype = "quint8"', "RuntimeError|TypeError"),
        ("low = 5, high = 9", "a range from 5 to 8, which integers alone have"),
        ('dtype = "bool", high = 1', "a range from 0 to 0, which integers alone have"),
    ],
)
def test_input_that_cannot_be_drawn_is_named(home: Path, spec: str, found: str) -> None:
    (case,) = read(home, f'[models.a]\nmodel = "adders.py::build"\ninputs.ids = {{ shape = [3], {spec} }}\n')
    with pytest.raises(CollectError, match=rf"the input ids to be a tensor that torch can draw(.|\n)*({found})"):
        case.load()
