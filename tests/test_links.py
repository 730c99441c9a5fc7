"""The check of the pages' links to other servers, against a server of the test's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.links import Answer, ask, links, main

CODES = {"/fine": 200, "/gone": 404, "/login": 403, "/ill": 503, "/old": 301, "/elsewhere": 302}

PAGE = """# A [title](https://a.example/one#part) and `[code](https://example.org)`

![picture](https://a.example/two.png) <https://a.example/three> [near](docs/near.md) [mail](mailto:a@b.example)

```console
$ curl https://example.org
```

| a | b |
|---|---|
| x | [cell](http://a.example/four "its title") |

<p><a href="https://a.example/five">raw</a></p>

[named]: https://a.example/six

See [named] and <img src="https://a.example/seven.svg">.
"""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(CODES[self.path])
        if CODES[self.path] in {301, 302}:
            self.send_header("Location", "/fine")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_links_are_those_to_other_servers_outside_code() -> None:
    assert list(links(PAGE)) == [
        (1, "https://a.example/one"),
        (3, "https://a.example/two.png"),
        (3, "https://a.example/three"),
        (11, "http://a.example/four"),
        (13, "https://a.example/five"),
        (17, "https://a.example/six"),
        (17, "https://a.example/seven.svg"),
    ]


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("/fine", "fine", ""),
        ("/elsewhere", "fine", ""),
        ("/old", "moved", "to {}/fine"),
        ("/login", "refused", "403 Forbidden"),
        ("/gone", "gone", "404 Not Found"),
        ("/ill", "no answer", "503 Service Unavailable"),
    ],
)
def test_answer_of_a_server_is_told(server: str, path: str, kind: str, text: str) -> None:
    assert ask(server + path) == Answer(kind, text.format(server))


def test_server_that_is_not_there_is_no_answer() -> None:
    answer = ask("http://127.0.0.1:1/")
    assert (answer.kind, answer.fails) == ("no answer", True)
    assert "refused" in answer.text


def test_broken_links_are_named_with_their_places(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, good = tmp_path / "page.md", tmp_path / "good.md"
    page.write_text(f"[a]({server}/fine)\n\n[b]({server}/gone#x)\n\n[c]({server}/gone)\n\n[d]({server}/login)\n")
    good.write_text(f"[a]({server}/fine)\n")
    assert main([str(page), str(good)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{page}:3, {page}:5: {server}/gone",
        "  gone: 404 Not Found",
        f"{page}:7: {server}/login",
        "  refused: 403 Forbidden",
        "3 addresses, 1 broken",
    ]
    assert main([str(good)]) == 0
