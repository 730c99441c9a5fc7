"""Formats the results as one self-contained page of HTML: the data as JSON, and the scripts in `web` that show it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from importlib import resources

from pytest_hierexport._files.ownership import GENERATOR
from pytest_hierexport._report.packing import packed
from pytest_hierexport._report.results import Results, Status
from pytest_hierexport._text import one_line

_SCRIPTS = ("dom", "data", "overview", "failures", "tree", "icicle", "model", "main")
"""The scripts in `web`, each after those that it uses."""


def as_html(results: Results) -> str:
    """Return a page that needs no other file, and no network.

    It runs no script and no style but its own, by their digests: a name that was taken for HTML would do nothing.
    """
    style, script = _asset("style.css"), _script()
    policy = f"default-src 'none'; img-src data:; script-src {_digest(script)}; style-src {_digest(style)}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{GENERATOR}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}; base-uri 'none'; form-action 'none'\">",
        '<title>hierexport</title><link rel="icon" href="data:,">',
        f"<style>{style}</style></head><body>",
        '<a class="skip-link" href="#main">Skip to the content</a>',
        '<div class="top"><a class="brand" href="#">hierexport</a><span class="crumb"></span>',
        '<button type="button" id="theme"></button></div>',
        f'<main id="main"><noscript>{_without_script(results)}</noscript></main>',
        '<p class="unseen" id="said" role="status"></p>',
        f'<script type="application/json" id="data">{_data(results)}</script>',
        f"<script>{script}</script>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _data(results: Results) -> str:
    """Return the results as JSON that no parser of HTML finds a tag in."""
    text = json.dumps(packed(results), separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _without_script(results: Results) -> str:
    counts = ", ".join(f"{results.count(status)} {status.value}" for status in Status if results.count(status))
    failed = "".join(f"<li>{_escape(model.name)}: {_escape(check)}</li>" for model, check, _ in results.failures())
    return f"<h1>hierexport</h1><p>{_escape(counts)}. The tables need JavaScript.</p><ul>{failed}</ul>"


def _escape(text: str) -> str:
    """Return HTML that shows a line of text literally, its control characters escaped."""
    return html.escape(one_line(text))


@cache
def _script() -> str:
    """Return the scripts as one, whose names are no one else's."""
    return "\n".join(['(() => {"use strict";', *(_asset(f"{name}.js") for name in _SCRIPTS), "})();"])


@cache
def _asset(name: str) -> str:
    return (resources.files("pytest_hierexport._report") / "web" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the source of a policy that allows this text alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
