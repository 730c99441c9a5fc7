from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_hierexport.suite.ids import escape


@pytest.mark.parametrize("name", ["bert", "bert-base_v1.5", "Modell für alle", "模型"])
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    assert escape(name) == name


@given(st.text(min_size=1))
def test_an_escaped_name_holds_no_separator_and_reads_back(name: str) -> None:
    escaped = escape(name)
    assert not set(escaped) & set('/\\[]:\n\0*?"<>|')
    assert escaped.strip(".")
    assert unquote(escaped, errors="surrogatepass") == name
