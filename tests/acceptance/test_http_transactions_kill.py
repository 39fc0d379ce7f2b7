"""kill -9 of a server at each step of a transaction: all of it is there afterwards or nothing, and that is said."""

from __future__ import annotations

import json
import textwrap
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from delta_log.fetch.sql import read_table
from tests.support import armed_server
from tests.support.armed_server import armed
from tests.support.http_ledger import Broken, read_tables
from tests.support.s3_server import S3Server
from tests.support.serving import Server, serving, wait_for
from tests.support.transacting import PLACES, TOPICS, Left, Story, begin, commit

#: Where the server dies in a commit, one life after the other.
DEATHS = [
    "journal.before_write",
    "journal.written",
    "journal.synced",
    "journal.synced table.file_written",
    "journal.synced table.committed",
]
IN_A_BUCKET = ["object.before_put", "object.put"]


def live_through(
    root: Path | str, file: Path, deaths: Iterable[str], script: Path = Path(armed_server.__file__), **settings: Any
) -> Story:
    story, left = Story(), list[Left]()
    for step in deaths:
        with serving(root, program=armed(file, script), **settings) as server:
            if not left:
                story.prepare(server)
            for each in left[-1:]:
                story.look_back(server, each)
            left.append(story.die(server, file, step))
    with serving(root, program=armed(file, script), **settings) as server:
        story.look_back(server, left[-1])
        story.go_on(server)
    return story


def test_a_server_that_dies_at_any_step_of_a_transaction_leaves_all_of_it_or_nothing(tmp_path: Path):
    story = live_through(tmp_path / "root", tmp_path / "step", DEATHS)
    tables = read_tables(tmp_path / "root", TOPICS)
    assert {place: [value for _, value in tables[place]] for place in PLACES} == story.held
    assert story.moved >= 4, "two at once, two whose tables follow, and the last"


def test_the_same_in_a_bucket(s3_server: S3Server, tmp_path: Path):
    config = tmp_path / "server.toml"
    pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in s3_server.options.items())
    config.write_text(f"store_option = {{ {pairs} }}\n")
    root = s3_server.root(f"transacted/{uuid.uuid4().hex}")
    assert live_through(root, tmp_path / "step", IN_A_BUCKET, config=config).moved == 2


def test_that_its_time_was_over_is_known_to_the_next_server_too(tmp_path: Path):
    def refused(server: Server) -> list[int]:
        return [commit(server, each["id"]).json()["error_code"] for each in (late, left)]

    def is_kept() -> bool:
        return "timed_out" in read_table(str(tmp_path / "topics/__transactions"), ["state"])["state"].to_pylist()

    with serving(tmp_path) as server:
        httpx.put(f"{server.url}/topics/t").raise_for_status()
        late, left = begin(server, "late", timeout_ms=1), begin(server, "left")
        wait_for(lambda: (tmp_path / "topics/__transactions/_delta_log").exists() and is_kept(), "its row")
        server.kill()
    with serving(tmp_path) as server:
        assert refused(server) == [40915, 40916]
        assert httpx.get(f"{server.url}/transactions/{late['id']}").json()["state"] == "aborted"


WRITES_A_UNIT_IN_PARTS = """
    from delta_log.journal.local import LocalJournal

    def append(journal, frames, payloads, real=LocalJournal.append):
        return [place for part in zip(frames, payloads) for place in real(journal, part[:1], part[1:])]

    LocalJournal.append = append
"""


def test_a_server_that_writes_a_transaction_in_parts_is_found_out(tmp_path: Path):
    script = tmp_path / "broken_server.py"
    main = "import sys\nfrom tests.support.armed_server import main\nsys.exit(main(*sys.argv[1:]))\n"
    script.write_text(f"{textwrap.dedent(WRITES_A_UNIT_IN_PARTS)}\n{main}")
    with pytest.raises(Broken):
        live_through(tmp_path / "root", tmp_path / "step", ["journal.synced"], script)
