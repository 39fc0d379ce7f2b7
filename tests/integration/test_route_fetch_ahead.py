"""Large answers from files, which are decoded while they are sent: true from head to end, or cut off."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest

from delta_log.fetch.deferred_rows import Step
from tests.support.asgi_call import AsgiCall, soon
from tests.support.http_app import HttpApp, error_code
from tests.support.large_topics import FILE_ROWS, damage, fill_large, live_files, open_files
from tests.support.logs import FROM_FILES, Place, eventually
from tests.support.raw_http import Cut
from tests.support.wire_serving import serve

ARROW = "application/vnd.apache.arrow.stream"
BINARY = "application/vnd.kafka.binary.v2+json"
NDJSON = "application/x-ndjson"
FILES = 6
END = FILES * FILE_ROWS
RECORDS = "/topics/orders/partitions/0/records"
LARGE = f"{RECORDS}?offset=0&max_bytes=67108864"


@pytest.fixture
def filled(http_place: Place) -> Iterator[tuple[HttpApp, pa.Table]]:
    with HttpApp(http_place.open(FROM_FILES)) as app:
        yield app, fill_large(app.log, "orders", FILES)
        all_is_let_go(app)


def nothing_is_held(app: HttpApp) -> bool:
    return app.tier.read_room.held == open_files(app.log) == 0


def all_is_let_go(app: HttpApp) -> None:
    """What was decoded ahead for nobody may still come to its end."""
    app.run(soon(lambda: nothing_is_held(app), "the end of what was held"))


def values_of(answer: httpx.Response, media: str) -> list[bytes]:
    assert answer.status_code == 200
    if media == ARROW:
        return pa.ipc.open_stream(answer.content).read_all().column("value").to_pylist()
    if media == BINARY:
        return [record["value"].encode() for record in answer.json()]
    return [json.loads(line)["value"].encode() for line in answer.content.splitlines()]


@pytest.mark.parametrize("media", [ARROW, BINARY, NDJSON])
def test_every_format_gives_the_rows_and_the_head_says_where_they_end(filled: tuple[HttpApp, pa.Table], media: str):
    app, rows = filled
    stored = rows.column("value").to_pylist()
    for query, first, count in (
        ("offset=0&max_bytes=67108864", 0, END), ("offset=12345&max_records=40000&max_bytes=67108864", 12345, 40000),
        (f"offset={END - 12_000}&max_bytes=4194304", END - 12_000, 12_000),
    ):  # fmt: skip
        answer = app.run(app.client.get(f"{RECORDS}?{query}&decode=base64", headers={"accept": media}))
        assert int(answer.headers["lakelog-next-offset"]) == first + count
        assert int(answer.headers["lakelog-end-offset"]) == END
        wanted = stored[first : first + count]
        assert values_of(answer, media) == (wanted if media == ARROW else [b64encode(value) for value in wanted])
        all_is_let_go(app)


def test_an_answer_by_limits_of_bytes_goes_on_where_it_says(filled: tuple[HttpApp, pa.Table]):
    app, rows = filled
    position, found = 0, []
    while position < END:
        answer = app.run(app.client.get(f"{RECORDS}?offset={position}&max_bytes=4194304", headers={"accept": ARROW}))
        assert len(answer.content) < 1.1 * 4194304
        table = pa.ipc.open_stream(answer.content).read_all()
        found.append(table.select(["offset", "value"]))
        position = int(answer.headers["lakelog-next-offset"])
    assert pa.concat_tables(found).combine_chunks().equals(rows.combine_chunks())


def test_a_slow_reader_is_decoded_for_no_faster_than_it_reads(filled: tuple[HttpApp, pa.Table]):
    app, _ = filled

    async def slowly() -> None:
        async with AsgiCall(app.asgi, "GET", LARGE, headers={"accept": ARROW}) as call:
            status, _ = await call.head()
            assert status == 200
            await call.piece()
            assert 0 < app.tier.read_room.held < 12_000_000
            assert open_files(app.log) >= FILES - 4, "one step is sent, three are decoded"
        await soon(lambda: nothing_is_held(app), "the end of what a reader who went away held")

    app.run(slowly())


def test_an_answer_that_its_reader_has_and_a_head_alone_hold_nothing(filled: tuple[HttpApp, pa.Table]):
    app, _ = filled
    etag = app.run(app.client.get(LARGE, headers={"accept": ARROW})).headers["etag"]
    for _ in range(3):
        answer = app.run(app.client.get(LARGE, headers={"accept": ARROW, "if-none-match": etag}))
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
        head = app.run(app.client.head(LARGE, headers={"accept": ARROW}))
        assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", etag)
    all_is_let_go(app)


def test_what_is_damaged_cuts_an_answer_off_and_the_next_one_ends_before_it(
    filled: tuple[HttpApp, pa.Table], http_place: Place
):
    app, _ = filled
    damage(http_place, live_files(app.log, "orders")[4].path, "orders", share=0.3)
    request = f"GET {LARGE} HTTP/1.1\r\nHost: localhost\r\nAccept: {ARROW}\r\n\r\n".encode()
    with serve(app.asgi) as served:
        with served.client() as client, pytest.raises(Cut):
            client.ask(request)
        assert served.counts.cut["unfinished"] == 1
        with served.client() as client:
            answer = client.ask(request)
        assert answer.headers["lakelog-next-offset"] == str(4 * FILE_ROWS)
        assert pa.ipc.open_stream(answer.body).read_all().num_rows == 4 * FILE_ROWS
    told = app.get(f"{RECORDS}?offset={4 * FILE_ROWS}&max_bytes=67108864")
    assert told.status_code == 503
    assert "repair" in told.text
    all_is_let_go(app)


def test_what_is_damaged_at_the_beginning_is_answered(filled: tuple[HttpApp, pa.Table], http_place: Place):
    app, _ = filled
    damage(http_place, live_files(app.log, "orders")[0].path, "orders", share=0.01)
    for _ in range(2):
        told = app.get(LARGE)
        assert error_code(told)[0] == 503
        all_is_let_go(app)


def test_nothing_more_is_decoded_for_who_is_gone(filled: tuple[HttpApp, pa.Table], monkeypatch: pytest.MonkeyPatch):
    app, _ = filled
    loaded: list[Step] = []
    whole = Step.load

    def load(step: Step) -> list[pa.RecordBatch]:
        loaded.append(step)
        return whole(step)

    monkeypatch.setattr(Step, "load", load)
    app.run(app.client.get(LARGE, headers={"accept": ARROW}))
    steps = len(loaded)
    loaded.clear()
    with serve(app.asgi) as served:
        with served.client(receive_buffer=4096) as client:
            client.send(f"GET {LARGE} HTTP/1.1\r\nHost: localhost\r\nAccept: {ARROW}\r\n\r\n".encode())
            client.read_until(b"\r\n\r\n")
        eventually(lambda: nothing_is_held(app), "the end of the answer")
    assert len(loaded) < steps


def test_several_readers_at_once_each_get_their_own(filled: tuple[HttpApp, pa.Table]):
    app, rows = filled

    async def read(offset: int) -> None:
        answer = await app.client.get(f"{RECORDS}?offset={offset}&max_bytes=67108864", headers={"accept": ARROW})
        table = pa.ipc.open_stream(answer.content).read_all().select(["offset", "value"])
        assert table.combine_chunks().equals(rows.slice(offset).combine_chunks())

    async def crowd() -> None:
        await asyncio.gather(*(read(offset) for offset in (0, 1, 30_000, 99_999, 0, 0)))

    app.run(crowd())
