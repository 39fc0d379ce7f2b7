"""Each kind of store: what is sent to it, that a creation is one in its own words, and who does not listen is refused.

Of Google's there is none to run, not every machine has Azure's emulator, in which LAKELOG_AZURE=1 tries all laws of a
log, and no server of ours is deaf: a plain HTTP server hears what would be sent, and answers as they do.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from delta_log import Log
from delta_log.model.errors import NotARoot, StorageRefused
from delta_log.root.root import as_root, open_root
from delta_log.stores.objects import ObjectStore
from tests.support.commands import call_lakelog
from tests.support.s3_server import options_for

NOTHING = b"<ListBucketResult></ListBucketResult>"
NOTHING_BY_AZURE = b"<EnumerationResults><Blobs></Blobs></EnumerationResults>"
REFUSAL = "a second creation of the same name was not refused"
STAMPS = {"ETag": '"1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "x-ms-version": "2023-11-03"}


class Hearing(ThreadingHTTPServer):
    """Keeps the blobs that it is sent; refuses one that must be new and is not, if it has ears for that."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Listener)
        self.blobs: dict[str, bytes] = {}
        self.heard: list[tuple[str, str, dict[str, str]]] = []
        self.deaf = False
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        with self.lock:
            must_be_new = headers.get("if-none-match") == "*" or headers.get("x-goog-if-generation-match") == "0"
            if must_be_new and path in self.blobs and not self.deaf:
                return 409 if "x-ms-version" in headers else 412
            self.blobs[path] = body
            return 201


class Listener(BaseHTTPRequestHandler):
    server: Hearing
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        path, headers = self._hear()
        status = self.server.take(path, headers, self.rfile.read(int(headers.get("content-length", "0"))))
        taken = b"<Error><Code>BlobAlreadyExists</Code></Error>"
        self._answer(status, b"" if status == 201 else taken, {"x-ms-error-code": "BlobAlreadyExists"})

    def do_GET(self) -> None:
        """A listing says that nothing is there: none of these tests lists what it made."""
        path, _ = self._hear()
        if "list" in self.path.partition("?")[2]:
            self._answer(200, NOTHING_BY_AZURE if "restype" in self.path else NOTHING)
            return
        body = self.server.blobs.get(path)
        self._answer(404 if body is None else 200, body or b"")

    def do_DELETE(self) -> None:
        path, _ = self._hear()
        self.server.blobs.pop(path, None)
        self._answer(202, b"")

    def do_POST(self) -> None:
        """Many are deleted at once: for Azure each is a request of its own in the body, and so is its answer."""
        bucket, _ = self._hear()
        body = self.rfile.read(int(self.headers["content-length"]))
        keys = re.findall(rb"<Key>([^<]*)</Key>", body)
        for key in keys:
            self.server.blobs.pop(f"{bucket.rstrip('/')}/{key.decode()}", None)
        if keys:
            deleted = b"".join(b"<Deleted><Key>%b</Key></Deleted>" % key for key in keys)
            self._answer(200, b"<DeleteResult>%b</DeleteResult>" % deleted)
            return
        parts = []
        for number, path in enumerate(re.findall(rb"^DELETE (\S+) HTTP", body, re.MULTILINE)):
            self.server.blobs.pop(unquote(path.decode()), None)
            parts.append(b"--each\r\nContent-ID: %d\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n" % number)
        self._answer(202, b"".join([*parts, b"--each--"]), {"Content-Type": "multipart/mixed; boundary=each"})

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def _hear(self) -> tuple[str, dict[str, str]]:
        path, headers = (
            unquote(self.path.partition("?")[0]),
            {name.lower(): value for name, value in self.headers.items()},
        )
        self.server.heard.append((self.command, path, headers))
        return path, headers

    def _answer(self, status: int, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (STAMPS | dict(more or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Hearing]:
    made = Hearing()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def google(server: Hearing) -> tuple[str, dict[str, str]]:
    account = {"gcs_base_url": server.url, "disable_oauth": True}
    account |= {"client_email": "", "private_key": "", "private_key_id": ""}
    return "gs://bucket/log", {"google_service_account_key": json.dumps(account), "google_allow_http": "true"}


def azure(server: Hearing) -> tuple[str, dict[str, str]]:
    options = {"azure_storage_account_name": "tests", "azure_storage_endpoint": f"{server.url}/tests"}
    return "az://bucket/log", options | {"azure_skip_signature": "true", "azure_allow_http": "true"}


def amazon(server: Hearing) -> tuple[str, dict[str, str]]:
    return "s3://bucket/log", options_for(server.url)


KINDS = pytest.mark.parametrize("kind", [google, azure, amazon])
Kind = Callable[[Hearing], tuple[str, dict[str, str]]]


@KINDS
def test_a_creation_is_a_conditional_write_of_that_kind_of_store(server: Hearing, kind: Kind):
    url, options = kind(server)
    store = ObjectStore(url, options, patience_s=0.4)
    assert store.create("a", b"first")
    assert not store.create("a", b"second")
    assert store.read("a") == b"first"
    asked = [headers for method, _, headers in server.heard if method == "PUT"]
    words = ("x-goog-if-generation-match", "0") if kind is google else ("if-none-match", "*")
    assert [headers.get(words[0]) for headers in asked] == [words[1]] * 2
    assert all("/bucket/log/a" in path for _, path, _ in server.heard)


@KINDS
def test_options_of_that_kind_come_from_the_environment_too(
    server: Hearing, kind: Kind, monkeypatch: pytest.MonkeyPatch
):
    url, options = kind(server)
    for name, value in options.items():
        monkeypatch.setenv(name.upper(), value)
    assert ObjectStore(url, patience_s=0.4).create("a", b"x")


@KINDS
def test_one_that_ignores_the_condition_is_refused_at_the_start(server: Hearing, kind: Kind):
    url, options = kind(server)
    server.deaf = True
    with pytest.raises(NotARoot, match=REFUSAL):
        Log.open(url, store_options=options)
    assert server.blobs == {}, "what it was tried with is gone, and it was not made a root"


def test_one_that_came_to_ignore_it_is_refused_though_it_is_a_root(server: Hearing):
    url, options = amazon(server)
    open_root(as_root(url, store_options=options), create=True)
    before = dict(server.blobs)
    server.deaf = True
    with pytest.raises(NotARoot, match=REFUSAL):
        Log.open(url, store_options=options)
    assert list(before) == ["/bucket/log/lakelog.json"]
    assert server.blobs == before


def test_a_server_does_not_begin_on_one_that_ignores_the_condition(server: Hearing):
    url, options = amazon(server)
    server.deaf = True
    words = [word for name, value in options.items() for word in ("--store-option", f"{name}={value}")]
    done = call_lakelog("serve", "--data", url, "--port", "0", *words)
    assert done.code not in {0, None}
    assert REFUSAL in done.err
    assert server.blobs == {}


@KINDS
def test_one_that_cannot_be_reached_is_said_to_be(kind: Kind, server: Hearing):
    url, options = kind(server)
    gone = {name: value.replace(server.url, "http://127.0.0.1:1") for name, value in options.items()}
    with pytest.raises(StorageRefused, match="cannot be reached"):
        ObjectStore(url, gone, patience_s=0.2).create("a", b"x")
    with pytest.raises(NotARoot, match="nonsense"):
        as_root(url, store_options={"nonsense": "x"})
