"""A cache that machines share: by HTTP as Bazel's remote caches speak it, by fsspec; servers that fail and lie."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request

import fsspec
import pytest

from projects import Project
from pytest_hierexport._cache import remote as remote_module
from pytest_hierexport._cache.cache import SIZE, Cache
from pytest_hierexport._cache.places import _Redirection, place_at, without_login
from pytest_hierexport._cache.reads import Reads
from pytest_hierexport._cache.remote import Remote
from pytest_hierexport._errors import UsageError

VALUE = {"nodes": 3}
CONTENT = b"a tagged file"
RIGHT = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Store:
    """What a server holds and does."""

    contents: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Each request: its method and path."""
    answer: Callable[[BaseHTTPRequestHandler, bytes], None] | None = None
    """Answers a GET of what is there, in another way than an honest server."""
    takes: bool = True
    """Whether it takes what is put."""
    logins: set[str] = field(default_factory=set)
    url: str = ""


@pytest.fixture
def store() -> Iterator[Store]:
    held = Store()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            held.asked.append(("GET", self.path))
            held.logins.add(self.headers.get("Authorization", ""))
            content = held.contents.get(self.path)
            if content is None:
                self.send_error(404)
            elif held.answer is None:
                respond(self, content, len(content))
            else:
                held.answer(self, content)

        def do_PUT(self) -> None:
            held.asked.append(("PUT", self.path))
            held.contents[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200 if held.takes else 404)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    held.url = f"http://127.0.0.1:{server.server_port}"
    yield held
    server.shutdown()
    server.server_close()


def respond(handler: BaseHTTPRequestHandler, content: bytes, length: int) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(length))
    handler.end_headers()
    handler.wfile.write(content)


@dataclass
class Machine:
    """A machine with a local folder in front of a shared cache."""

    folder: Path
    url: str
    pushes: bool = False
    largest: int = SIZE
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reads = Reads([self.folder])
        remote = Remote(self.url, pushes=self.pushes, largest=self.largest, warn=self.warnings.append)
        self.cache = Cache(self.folder / "cache", self.reads, remote=remote, warn=self.warnings.append)
        self.cache._start = "0" * 16

    def keep(self, about: str = "about", content: bytes = CONTENT) -> str:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "model.onnx").write_bytes(content)
        return self.cache.keep("question", about, VALUE, [self.folder / "model.onnx"], "any")

    def find(self, about: str = "about") -> bytes | None:
        found = self.cache.find("question", about, self.folder / "found")
        return None if found is None else (self.folder / "found" / "model.onnx").read_bytes()


def pushed(tmp_path: Path, url: str) -> Machine:
    """Return another machine than the one that pushed a result."""
    first = Machine(tmp_path / "first", url, pushes=True)
    assert first.keep()
    assert not first.warnings
    return Machine(tmp_path / "second", url)


def test_one_machine_takes_what_another_pushed(tmp_path: Path, store: Store) -> None:
    second = pushed(tmp_path, store.url)
    assert second.find() == CONTENT
    store.contents.clear()
    assert second.find() == CONTENT
    assert not second.warnings


def test_contents_are_addressed_as_bazel_does(tmp_path: Path, store: Store) -> None:
    pushed(tmp_path, store.url)
    files = {path.removeprefix("/cas/"): content for path, content in store.contents.items() if "/cas/" in path}
    assert {hashlib.sha256(content).hexdigest() for content in files.values()} == set(files)
    ((key, listed),) = ((path, content) for path, content in store.contents.items() if path.startswith("/ac/"))
    (record,) = json.loads(listed)["results"]
    assert len(key) == len("/ac/") + 64
    assert json.loads(files[record])["files"] == {"model.onnx": RIGHT}
    assert store.asked[-1] == ("PUT", key)


def test_a_shared_cache_is_read_only_unless_told(tmp_path: Path, store: Store) -> None:
    machine = Machine(tmp_path / "any", store.url)
    assert machine.keep()
    assert machine.find("another") is None
    assert {method for method, _ in store.asked} == {"GET"}
    assert not machine.warnings


def test_memory_of_fsspec_serves(tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}"
    assert pushed(tmp_path, url).find() == CONTENT
    assert fsspec.filesystem("memory").ls(f"/{tmp_path.name}", detail=False) == [
        f"/{tmp_path.name}/ac",
        f"/{tmp_path.name}/cas",
    ]


def test_results_of_one_question_are_listed_latest_first(tmp_path: Path, store: Store) -> None:
    first = Machine(tmp_path / "first", store.url, pushes=True)
    for number in range(6):
        first.keep(content=b"%d" % number)
    assert Machine(tmp_path / "second", store.url).find() == b"5"
    ((_, listed),) = ((path, content) for path, content in store.contents.items() if path.startswith("/ac/"))
    assert len(json.loads(listed)["results"]) == 4


def test_a_result_whose_inputs_changed_is_not_taken(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "read.txt"
    file.write_text("1")
    first = Machine(tmp_path / "first", store.url, pushes=True)
    first.reads.start()
    file.read_text()
    first.reads.stop()
    assert first.keep()
    file.write_text("2")
    assert Machine(tmp_path / "second", store.url).find() is None
    file.write_text("1")
    assert Machine(tmp_path / "third", store.url).find() == CONTENT


def test_login_is_sent_and_never_shown(tmp_path: Path, store: Store) -> None:
    url = store.url.replace("//", "//me:secret%21@")
    Machine(tmp_path / "any", url).find()
    assert store.logins == {"Basic bWU6c2VjcmV0IQ=="}
    assert without_login(f"{url}/any@path") == f"{store.url}/any@path"


def test_login_is_not_sent_to_another_server(tmp_path: Path, store: Store) -> None:
    assert Machine(tmp_path / "first", store.url, pushes=True).keep()
    other = store.url.replace("127.0.0.1", "localhost")
    store.answer = lambda handler, content: redirect(handler, content, other)
    store.logins.clear()
    assert Machine(tmp_path / "second", store.url.replace("//", "//me:secret@")).find() == CONTENT
    assert store.logins == {"Basic bWU6c2VjcmV0", ""}


def test_login_is_not_sent_unencrypted_where_it_was_encrypted() -> None:
    sent = {}
    for start, target in (("https", "http"), ("https", "https"), ("http", "https")):
        asked = Request(f"{start}://any/ac", headers={"Authorization": "Basic bWU6c2VjcmV0"})  # noqa: S310
        followed = _Redirection().redirect_request(asked, None, 302, "Found", {}, f"{target}://any/ac")
        assert followed is not None
        sent[start, target] = followed.has_header("Authorization")
    assert sent == {("https", "http"): False, ("https", "https"): True, ("http", "https"): True}


@pytest.mark.parametrize("url", ["https://[::1/x", "nowhere://any"])
def test_url_that_nothing_serves_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="correct the URL, or install"):
        place_at(url)


def redirect(handler: BaseHTTPRequestHandler, content: bytes, other: str) -> None:
    if other.endswith(handler.headers["Host"]):
        respond(handler, content, len(content))
    else:
        handler.send_response(307)
        handler.send_header("Location", f"{other}{handler.path}")
        handler.end_headers()


def test_a_url_that_nothing_serves_is_refused() -> None:
    for url in ("nothing://any", "s4://bucket"):
        with pytest.raises(UsageError, match="a folder or a URL for the cache"):
            Remote(url, pushes=False, largest=SIZE, warn=print)


def lie(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    respond(handler, content[::-1] if "/cas/" in handler.path else content, len(content))


def lie_about_files(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    respond(handler, content[::-1] if content == CONTENT else content, len(content))


def truncate(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    respond(handler, content[:-1], len(content))


def shorten(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    respond(handler, content[:-1], len(content) - 1)


def fail(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    handler.send_error(500)


def hang_up(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    handler.close_connection = True


def be_silent(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    time.sleep(5)


def trickle(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    respond(handler, b"", 1 << 30)
    for _ in range(25):
        handler.wfile.write(b" ")
        time.sleep(0.2)


def flood(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    respond(handler, b" " * (1 << 22), 1 << 22)


def say_nonsense(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    respond(handler, b"[[1, null", 9)


FAULTS = (lie, lie_about_files, truncate, shorten, fail, hang_up, be_silent, trickle, flood, say_nonsense)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_faulty_server_is_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, fault: Callable[..., None]
) -> None:
    second = pushed(tmp_path, store.url)
    monkeypatch.setattr(remote_module, "_PATIENCE", 0.5)
    store.answer = fault
    started = time.monotonic()
    for _ in range(2):
        assert second.find() is None
    assert time.monotonic() - started < 5
    assert len(second.warnings) <= 2
    assert second.warnings or fault in {say_nonsense, flood, truncate, shorten}
    assert not list(second.folder.glob("cache/*-*"))
    assert second.keep()
    assert second.find() == CONTENT


@pytest.mark.parametrize("fault", [fail, be_silent], ids=lambda fault: fault.__name__)
def test_a_server_that_failed_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, fault: Callable[..., None]
) -> None:
    second = pushed(tmp_path, store.url)
    monkeypatch.setattr(remote_module, "_PATIENCE", 0.5)
    store.answer, store.asked = fault, []
    for about in ("about", "another"):
        assert second.find(about) is None
    assert len(store.asked) == 1
    assert len(second.warnings) == 1


def test_a_server_that_takes_no_results_is_told(tmp_path: Path, store: Store) -> None:
    store.takes = False
    machine = Machine(tmp_path / "first", store.url, pushes=True)
    assert machine.keep()
    assert machine.warnings == ["it takes no results (404, not found)"]


def test_a_server_out_of_reach_is_a_miss(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "any", "http://127.0.0.1:9", pushes=True)
    assert machine.find() is None
    assert machine.keep()
    assert machine.find() == CONTENT
    assert len(machine.warnings) == 1


def replace(store: Store, change: Callable[[dict[str, object]], object]) -> None:
    """Let a server state another record, by its right digest."""
    ((key, listed),) = ((path, content) for path, content in store.contents.items() if path.startswith("/ac/"))
    (record,) = json.loads(listed)["results"]
    changed = json.dumps(change(json.loads(store.contents[f"/cas/{record}"]))).encode()
    digest = hashlib.sha256(changed).hexdigest()
    store.contents |= {f"/cas/{digest}": changed, key: json.dumps({"results": [digest]}).encode()}


def with_file(name: str) -> Callable[[dict[str, object]], object]:
    return lambda record: {**record, "files": {name: hashlib.sha256(CONTENT).hexdigest()}}


FORGED: dict[str, Callable[[dict[str, object]], object]] = {
    "a list": lambda record: [record],
    "no inputs": lambda record: {**record, "inputs": None},
    "files that are no texts": lambda record: {**record, "files": {"model.onnx": 1}},
    "a file outside the folder": with_file("../outside"),
    "the folder above as a file": with_file(".."),
    "a file without a name": with_file(""),
    "a null character in a name": with_file("a\0b"),
    "a lone surrogate in a name": with_file("a\ud800"),
    "a name that is too long": with_file("a" * 256),
    "the record among the files": with_file("record.json"),
    "more fields": lambda record: {**record, "code": "import os"},
    "about something else": lambda record: {**record, "about": "another"},
    "a value that is no mapping": lambda record: {**record, "value": 1},
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_forged_record_is_a_miss(tmp_path: Path, store: Store, change: Callable[[dict[str, object]], object]) -> None:
    second = pushed(tmp_path, store.url)
    replace(store, change)
    assert second.find() is None
    assert not second.warnings
    assert not list(tmp_path.rglob("outside"))


def test_content_that_is_gone_is_a_miss_and_pushed_again(tmp_path: Path, store: Store) -> None:
    second = pushed(tmp_path, store.url)
    del store.contents[f"/cas/{RIGHT}"]
    assert second.find() is None
    assert not second.warnings
    assert Machine(tmp_path / "third", store.url, pushes=True).keep()
    assert second.find() == CONTENT


def test_a_file_larger_than_the_bound_is_not_taken(tmp_path: Path, store: Store) -> None:
    pushed(tmp_path, store.url)
    small = Machine(tmp_path / "small", store.url, largest=len(CONTENT) - 1)
    assert small.find() is None
    assert len(small.warnings) == 1


def test_a_new_checkout_runs_from_the_shared_cache(project: Project, store: Store) -> None:
    arguments = ("--hierexport-models=my_model.py::build", f"--hierexport-cache={store.url}", "-k", "MUST-002")
    assert project.run(*arguments, "--hierexport-cache-push").ret == 0
    for folder in (project.path / ".hierexport").iterdir():
        assert folder.name in {"cache", ".gitignore"}
    project.pytester.run("rm", "-r", ".hierexport")
    result = project.run(*arguments)
    assert result.ret == 0
    assert "hierexport: warning" not in result.stdout.str()
    assert project.builds == 1


def test_an_unreachable_cache_is_one_warning_of_a_run(project: Project) -> None:
    result = project.run(
        "--hierexport-models=my_model.py::build",
        "--hierexport-cache=http://me:secret@127.0.0.1:9/any",
        "-k",
        "MUST-002 or MUST-004",
    )
    assert result.ret == 0
    (warning,) = [line for line in result.outlines if line.startswith("hierexport: warning")]
    assert warning.startswith(
        "hierexport: warning: the cache http://127.0.0.1:9/any was not used, or not always: URLError"
    )


def test_command_to_repeat_names_the_cache_without_its_password(project: Project) -> None:
    project.write("__hierexport__/build.txt", "/Other\n")
    cache = "--hierexport-cache=http://me:secret@127.0.0.1:9/any"
    result = project.run("--hierexport-models=my_model.py::build", cache, "-k", "snapshot")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    repeat = next(line for line in result.outlines if line.startswith("  repeat "))
    assert " --hierexport-cache=http://127.0.0.1:9/any " in repeat


def test_a_url_of_no_installed_package_is_refused(project: Project) -> None:
    result = project.run("--hierexport-models=my_model.py::build", "--hierexport-cache=nothing://any")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*expected a folder or a URL for the cache; found nothing://any*"])
