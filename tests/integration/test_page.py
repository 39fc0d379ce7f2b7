"""The page of all routes: of this server alone, under a policy that lets nothing else run, and framed by nobody."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

import ingest_api
from tests.architecture.project_files import ROOT
from tests.support.every_route import ask, cluster_of, every_operation, path_of
from tests.support.raw_http import RawClient
from tests.support.serving import Server, serving

OPERATIONS: Final = every_operation()
FILES: Final = Path(ingest_api.__file__).parent / "routes" / "pages" / "page"
POLICY: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(None) as made:
        yield made


def test_every_answer_that_is_a_page_has_a_strict_policy_and_is_in_no_frame(server: Server):
    pages = {}
    for each in OPERATIONS:
        answer = ask(server.port, "GET", path_of(each, cluster_of(server.port)), [("Accept", "text/html, */*")])
        if "html" in answer.headers.get("content-type", ""):
            pages[each.path] = answer.headers
    assert list(pages) == ["/docs"]
    for headers in pages.values():
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert policy == POLICY
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"


def test_no_answer_is_taken_for_another_type_than_it_says(server: Server):
    cluster = cluster_of(server.port)
    asked = [(each.method, path_of(each, cluster)) for each in OPERATIONS]
    for method, path in [*asked, ("GET", "/nothing"), ("OPTIONS", "/topics"), ("HEAD", "/docs")]:
        assert ask(server.port, method, path).headers["x-content-type-options"] == "nosniff", f"{method} {path}"
    assert ask(server.port, "GET", "/", [("Host", "evil.example")]).headers["x-content-type-options"] == "nosniff"
    with RawClient(server.port) as client:
        refused = client.ask(b"GET / HTTP/1.1\r\n\r\n")
        assert (refused.status, refused.headers["x-content-type-options"]) == (400, "nosniff")


def test_the_page_loads_files_of_this_server_and_no_others(server: Server):
    page = ask(server.port, "GET", "/docs").body.decode()
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert sorted(links) == ["data:,", "docs/page.css", "docs/page.js", "openapi.json"]
    for path, kind in (
        ("docs/page.css", "text/css"),
        ("docs/page.js", "text/javascript"),
        ("openapi.json", "application/json"),
    ):
        answer = ask(server.port, "GET", f"/{path}")
        assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, kind)
    assert not re.search(r"https?://|//[a-z]+\.", "".join(each.read_text("utf-8") for each in FILES.iterdir()))


def test_nothing_stands_in_the_page_that_its_policy_forbids():
    page = (FILES / "index.html").read_text("utf-8")
    assert not re.search(
        r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=|javascript:|<base|<form|<iframe", page, re.IGNORECASE
    )
    script = (FILES / "page.js").read_text("utf-8")
    forbidden = r"(inner|outer|insertAdjacent)HTML|document\.write|\beval\b|Function\(|setAttribute\(.(?!ar)|\.style\b"
    assert not re.search(forbidden, script)


def test_the_page_is_in_the_wheel(tmp_path: Path):
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {
        Path(name).name for name in ZipFile(wheel).namelist() if name.startswith("ingest_api/routes/pages/page/")
    }
    assert shipped == {each.name for each in FILES.iterdir()} == {"index.html", "page.css", "page.js"}


def test_with_a_slash_at_its_end_the_page_is_where_its_links_are_right(server: Server):
    answer = ask(server.port, "GET", "/docs/")
    assert (answer.status, answer.headers["location"]) == (308, "../docs")


def test_the_page_sends_what_tells_it_from_a_page_of_another_origin(server: Server):
    """Over plain http and by a name a browser says of a poll neither where it comes from nor from how near."""
    assert '"X-Requested-With": "docs"' in (FILES / "page.js").read_text("utf-8")
    browser = ("User-Agent", "Mozilla/5.0")
    poll = "/consumers/g/instances/i/records"
    assert ask(server.port, "GET", poll, [browser]).status == 403
    assert ask(server.port, "GET", poll, [browser, ("X-Requested-With", "docs")]).status == 404
