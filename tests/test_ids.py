from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_hierexport._cases.zoo import ZOO
from pytest_hierexport._pytest.ids import file_name
from pytest_hierexport._text import escape

# What systems without case take for one name, and what they compose.
SIMILAR = st.text(st.sampled_from("aAßsSéÉe\u0301\u0131Ii.# %2Ee/\x1b"), min_size=1, max_size=6)


@pytest.mark.parametrize("name", ["bert", "bert-base_v1.5", "Modell für alle", "模型"])
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    assert escape(name) == name


@given(st.text(min_size=1))
def test_an_escaped_name_holds_no_separator_and_reads_back(name: str) -> None:
    escaped = escape(name)
    assert not set(escaped) & set('/\\[]:\n\0*?"<>|')
    assert escaped.strip(".")
    assert unquote(escaped, errors="surrogatepass") == name


@pytest.mark.parametrize("name", [*ZOO, "bert-base_v1.5", "modell für alle", "模型", "a" * 100])
def test_an_ordinary_name_in_lower_case_is_its_file_s(name: str) -> None:
    assert file_name(name) == name


@given(st.text(min_size=1) | SIMILAR | st.text("x", min_size=90, max_size=400))
def test_a_file_name_is_portable(name: str) -> None:
    found = file_name(name)
    assert len(found.encode("utf-8")) <= 100
    assert not set(found) & set('/\\:*?"<>|') | {c for c in found if not c.isprintable()}
    assert found.strip(". ") == found
    assert not re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", found, re.IGNORECASE)


@given(st.lists(st.text(min_size=1, max_size=3) | SIMILAR, min_size=2, max_size=2, unique=True))
def test_two_names_have_two_files_on_any_system(names: list[str]) -> None:
    one, other = (unicodedata.normalize("NFKC", file_name(name)).casefold() for name in names)
    assert one != other


@pytest.mark.parametrize("name", ["con", "CON", "nul.x", "Aux", "com1", "LPT9.tar"])
def test_a_device_s_name_is_no_file_s(name: str) -> None:
    assert file_name(name).startswith("%")


@pytest.mark.parametrize(
    ("one", "other"), [("m" * 300, "m" * 301), ("Bert", "bert"), ("BERT", "Bert"), ("é", "e\u0301"), ("CON", "con")]
)
def test_similar_names_have_different_files(one: str, other: str) -> None:
    assert file_name(one).casefold() != file_name(other).casefold()
