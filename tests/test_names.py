"""Names of any characters: what is joined from them splits back."""

from __future__ import annotations

from functools import partial
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_hierexport._calls.names import (
    call_name,
    encode,
    encode_operator,
    is_torch_nn,
    join_path,
    qualified_class,
    split_call_name,
)
from pytest_hierexport._text import one_line, printable

decode = partial(unquote, errors="surrogatepass")
ANY_NAME = st.text(st.characters(), max_size=8)


@settings(deadline=None)
@given(ANY_NAME)
def test_any_name_decodes_to_itself(name: str) -> None:
    assert decode(encode(name)) == name


@settings(deadline=None)
@given(ANY_NAME)
def test_encoded_name_is_one_utf_8_line_without_separators(name: str) -> None:
    encoded = encode(name)
    encoded.encode("utf-8")
    assert len(encoded.splitlines()) <= 1
    assert not set("/.@") & set(encoded)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("query", "query"),
        ("a@1", "a%401"),
        ("a.b/c", "a%2Eb%2Fc"),
        ("100%", "100%25"),
        ("%2E", "%252E"),
        ("two words", "two words"),
        ("Größe", "Größe"),
        ("注意", "注意"),
        ('"it\'s"', '"it\'s"'),
        ("a\nb\x7f", "a%0Ab%7F"),
        ("left\u202eright", "left%E2%80%AEright"),
        ("\ud800", "%ED%A0%80"),
        ("", ""),
    ],
)
def test_only_what_separates_or_controls_is_encoded(name: str, encoded: str) -> None:
    assert encode(name) == encoded


@settings(deadline=None)
@given(ANY_NAME, ANY_NAME)
def test_an_operator_is_one_word_and_splits_back(domain: str, op_type: str) -> None:
    encoded = encode_operator(domain, op_type)
    assert not {*" ,\t\n\x1b\u2028"} & set(encoded)
    assert [decode(part) for part in encoded.split("::")] == (
        [op_type] if domain in {"", "ai.onnx"} else [domain, op_type]
    )


@pytest.mark.parametrize(
    ("domain", "op_type", "expected"),
    [("", "Add", "Add"), ("ai.onnx", "Add", "Add"), ("com.microsoft", "Gelu", "com.microsoft::Gelu")],
)
def test_an_ordinary_operator_stays_as_it_is(domain: str, op_type: str, expected: str) -> None:
    assert encode_operator(domain, op_type) == expected


@settings(deadline=None)
@given(ANY_NAME)
def test_any_name_is_shown_on_one_line_of_utf_8(name: str) -> None:
    shown = one_line(f"a{name}b")
    shown.encode("utf-8")
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Größe 注意 👩\u200d👩", "Größe 注意 👩\u200d👩"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\tb\nc\rd", r"a\tb\nc\rd"),
        ("\x9b\u202e\u2066\u200f", r"\x9b\u202e\u2066\u200f"),
        ("\ufeff\u200b\U000e0041", r"\ufeff\u200b\U000e0041"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_alone_are_shown_escaped(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_text_of_several_lines_keeps_them() -> None:
    assert printable("a\x1b\n\r\nb") == "a\\x1b\n\\r\nb"


@settings(deadline=None)
@given(st.lists(ANY_NAME.filter(bool), max_size=4))
def test_a_path_splits_back_into_its_parts(parts: list[str]) -> None:
    path = join_path(parts)
    assert [decode(part) for part in path.split(".") if path] == parts


@settings(deadline=None)
@given(st.lists(ANY_NAME.filter(bool), max_size=3), st.integers(0, 1000))
def test_a_call_name_splits_back_into_path_and_index(parts: list[str], index: int) -> None:
    path = join_path(parts)
    assert split_call_name(call_name(path, index)) == (path, index)


@pytest.mark.parametrize("text", ["a@", "a@0", "a@01", "a@-1", "a@x", "a@1@2", "a@²", "a@٣"])
def test_what_is_no_call_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a call name"):
        split_call_name(text)


@pytest.mark.parametrize(
    ("module", "qualname", "name", "expected"),
    [
        ("pkg.models", "Block", "Block", "pkg.models.Block"),
        ("pkg.models", "Outer.Block", "Block", "pkg.models.Outer.Block"),
        ("tests", "make.<locals>.Block", "Block", "tests.make.<locals>.Block"),
        ("pkg", "A.B", "A.B", "pkg.A%2EB"),
        ("pkg", "Outer.A.B", "A.B", "pkg.Outer.A%2EB"),
        ("pkg", "BertLayer", "Layer", "pkg.Layer"),
        ("pkg", "Before", "After", "pkg.After"),
        ("pkg", "", "", "pkg."),
    ],
)
def test_a_qualified_class_ends_in_the_class_own_name(module: str, qualname: str, name: str, expected: str) -> None:
    assert qualified_class(module, qualname, name) == expected


@settings(deadline=None)
@given(ANY_NAME, ANY_NAME)
def test_part_after_the_last_dot_is_the_class_name(qualname: str, name: str) -> None:
    assert decode(qualified_class("pkg", qualname, name).rpartition(".")[2]) == name


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        ("torch.nn.modules.linear.Linear", True),
        ("torch.nn.Module", True),
        ("torch.ao.nn.quantized.Linear", True),
        ("torch._C.ScriptModule", True),
        ("torch.nnx.Linear", False),
        ("torch.jit._script.RecursiveScriptModule", False),
        ("mine.torch.nn.Linear", False),
        ("pkg.Linear", False),
    ],
)
def test_class_belongs_to_torch_by_its_defining_module(cls: str, *, expected: bool) -> None:
    assert is_torch_nn(cls) is expected
