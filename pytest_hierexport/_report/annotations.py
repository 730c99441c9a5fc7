"""Formats failures as GitHub Actions' workflow commands, which annotate the pull request."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_hierexport._report.results import Results


def error_commands(results: Results) -> Iterator[str]:
    """Yield an `::error …` line per failure; equal messages of a model give one line."""
    for model, (check, *_), message in results.distinct_failures():
        properties = f"file={_property(model.file)},line={model.line},title={_property(f'{model.name}: {check}')}"
        yield f"::error {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
