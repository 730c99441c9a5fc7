"""Checks that retired words do not come back: `make lint` runs this file alone.

`data/retired_words.json` holds the words, as regular expressions with what replaces them, and the number of
occurrences that each folder may still have. A folder without a number may have none. Numbers only go down.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA: Mapping[str, Mapping[str, str]] = json.loads(
    (Path(__file__).parent / "data" / "retired_words.json").read_text(encoding="utf-8")
)
WORDS = DATA["words"]
GLOSSARY = ROOT / "docs" / "glossary.md"


@dataclass(frozen=True)
class Occurrence:
    """A retired word in a text."""

    line: int
    word: str
    replacement: str


def occurrences(text: str, words: Mapping[str, str] = WORDS) -> Iterator[Occurrence]:
    """Yield the retired words in a text: whole words, also as parts of identifiers, phrases also across lines."""
    for pattern, replacement in words.items():
        phrase = pattern.replace(" ", r"[\s_#]+")
        for found in re.finditer(f"(?<![a-z])(?:{phrase})(?![a-z])", text, re.IGNORECASE):
            yield Occurrence(text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), replacement)


def folders() -> dict[str, list[Path]]:
    """Return the checked files by the folder that counts them: a room of the package, or a top-level folder."""
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "Makefile"]
    for top in ("pytest_hierexport", "tests", "musts", "benchmarks", "docs"):
        files += [path for suffix in ("py", "md") for path in sorted((ROOT / top).rglob(f"*.{suffix}"))]
    found: dict[str, list[Path]] = {}
    for file in files:
        if file != GLOSSARY:  # it lists the retired words
            parents = file.relative_to(ROOT).parent.parts
            depth = 2 if parents[:1] == ("pytest_hierexport",) else 1
            found.setdefault("/".join(parents[:depth]) or ".", []).append(file)
    return found


@pytest.mark.parametrize(("folder", "files"), folders().items(), ids=folders())
def test_no_folder_gains_a_retired_word(folder: str, files: list[Path]) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{each.line}: {each.word!r}; use instead: {each.replacement}"
        for file in files
        for each in occurrences(file.read_text(encoding="utf-8"))
    ]
    allowed = int(DATA["baseline"].get(folder, 0))
    assert len(found) <= allowed, "\n".join([f"{len(found)} retired words, {allowed} allowed in {folder}:", *found])


def test_baseline_names_only_folders_that_exist() -> None:
    assert set(DATA["baseline"]) <= set(folders())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("a frob", 1, id="word"),
        pytest.param("two\nFrobs", 2, id="plural"),
        pytest.param("\n\n_frob_of(node)", 3, id="identifier"),
        pytest.param("it goes\n    # there", 1, id="phrase across comment lines"),
        pytest.param("goes_there()", 1, id="phrase in an identifier"),
    ],
)
def test_retired_word_is_found_with_its_line(text: str, line: int) -> None:
    (found,) = occurrences(text, {"frobs?": "widget", "goes there": "is there"})
    assert found.line == line


def test_part_of_a_longer_word_is_not_found() -> None:
    assert not list(occurrences("frobnicate, unfrob", {"frobs?": "widget"}))


def test_glossary_lists_exactly_the_retired_words() -> None:
    section = GLOSSARY.read_text(encoding="utf-8").partition("## Retired words")[2]
    rows = re.findall(r"^\| \*([^|]+)\* \|", section, re.MULTILINE)
    known = {pattern: [row for row in rows if re.fullmatch(pattern, row)] for pattern in WORDS}
    assert all(known.values()), f"not in the glossary: {[pattern for pattern, found in known.items() if not found]}"
    assert set(rows) == {row for found in known.values() for row in found}
