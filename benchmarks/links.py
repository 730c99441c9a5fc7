"""Asks for every address outside this repository that the pages link to, and tells which of them do not answer.

python benchmarks/links.py [FILE ...]

Without files: README.md, CHANGELOG.md and the Markdown of docs/ and benchmarks/. It exits with 1 where an address is
gone or does not answer. A server that refuses to tell (it wants a login, or is asked too often) is named, but is no
failure; nor is an address that moved for good. Addresses in code are examples, and are left out.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag

from markdown_it import MarkdownIt

__all__ = ["Answer", "ask", "links", "main"]

_ROOT = Path(__file__).parents[1]
_PAGES = ("README.md", "CHANGELOG.md", "benchmarks/*.md", "docs/**/*.md")
_SECONDS = 20
_TRIES = 3
_AT_ONCE = 8
_MOVED = frozenset({301, 308})
_REFUSED = frozenset({401, 403, 405, 429, 999})
# Some servers refuse Python's own name.
_HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; link checker)", "Accept": "text/html,*/*"}


@dataclass(frozen=True)
class Answer:
    """What a server said of an address."""

    kind: str
    """`fine`, `moved`, `refused`, `gone` or `no answer`."""
    text: str = ""

    @property
    def fails(self) -> bool:
        """Whether the link is broken."""
        return self.kind in {"gone", "no answer"}


def links(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the address of each link of a page to another server, without the part after `#`."""
    for block in MarkdownIt("commonmark").enable("table").parse(text):
        line = block.map[0] + 1 if block.map else 1
        for token in [block, *(block.children or ())]:
            html = token.type in {"html_inline", "html_block"}
            found = _Html.addresses(token.content) if html else [token.attrGet("href") or token.attrGet("src") or ""]
            yield from (
                (line, urldefrag(str(each))[0]) for each in found if str(each).startswith(("http://", "https://"))
            )


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    @classmethod
    def addresses(cls, text: str) -> list[str]:
        """Return the addresses in a piece of HTML."""
        parser = cls()
        parser.feed(text)
        return parser.found

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in {"href", "src", "srcset"} and value]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Notes the codes of the redirects that it follows."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def redirect_request(self, *arguments: Any, **more: Any) -> urllib.request.Request | None:
        _, _, code, *_ = arguments
        self.codes.append(code)
        return super().redirect_request(*arguments, **more)


def ask(address: str, seconds: float = _SECONDS) -> Answer:
    """Return what the server says of an address; one that has trouble of its own is asked again."""
    for _ in range(_TRIES):
        answer = _ask_once(address, seconds)
        if answer.kind != "no answer":
            break
    return answer


def _ask_once(address: str, seconds: float) -> Answer:
    redirects = _Redirects()
    try:
        request = urllib.request.Request(address, headers=_HEADERS)  # noqa: S310  # http and https alone, see `links`
        with urllib.request.build_opener(redirects).open(request, timeout=seconds) as response:
            moved = redirects.codes and all(code in _MOVED for code in redirects.codes)
            return Answer("moved", f"to {response.url}") if moved else Answer("fine")
    except urllib.error.HTTPError as error:
        kind = "refused" if error.code in _REFUSED else "no answer" if error.code >= 500 else "gone"
        return Answer(kind, f"{error.code} {error.reason}")
    except (OSError, HTTPException, ValueError) as error:
        return Answer("no answer", str(getattr(error, "reason", error)))


def main(arguments: Sequence[str]) -> int:
    """Ask for the addresses of pages; print what is wrong, and how many are fine."""
    pages = [Path(each) for each in arguments] or sorted(page for each in _PAGES for page in _ROOT.glob(each))
    places: dict[str, list[str]] = {}
    for page in pages:
        for line, address in links(page.read_text(encoding="utf-8")):
            shown = page.relative_to(_ROOT) if page.is_relative_to(_ROOT) else page
            places.setdefault(address, []).append(f"{shown}:{line}")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(places, pool.map(ask, places), strict=True))
    for address, answer in answers.items():
        if answer.kind != "fine":
            print(f"{', '.join(places[address])}: {address}\n  {answer.kind}: {answer.text}")
    broken = sum(answer.fails for answer in answers.values())
    print(f"{len(answers)} addresses, {broken} broken")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
