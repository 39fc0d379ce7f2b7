"""Server-sent events: what a client keeps of them is enough to go on."""

import json

import pytest

from ingest_api.formats.encode.events import KEEP_ALIVE, EventWriter, format_event_id, parse_event_id
from ingest_api.web.errors import Refusal
from tests.support.fetched_batches import Stored, batch_of, numbered, written


def events(body):
    """As a browser reads them: (id, data) of each event."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields:
            found.append((fields["id"], json.loads(fields["data"])))
    return found


def test_an_event_is_its_id_and_the_object_of_a_line():
    assert written(EventWriter({0: 4}), [(0, [batch_of([Stored(b"[1]", offset=4, timestamp=9)])])]) == (
        b'id: 0:5\ndata: {"partition":0,"offset":4,"timestamp":9,"key":null,"value":[1],"headers":[]}\n\n'
    )


def test_the_id_names_where_to_go_on_in_every_partition_that_is_read():
    writer = EventWriter({0: 10, 2: 0, 11: 7})
    two, none = batch_of(numbered([Stored(b"a"), Stored(b"b")])), batch_of([Stored(b"c", offset=10)])
    ids = [event_id for event_id, _ in events(written(writer, [(2, [two]), (0, [none]), (11, [batch_of([])])]))]
    assert ids == ["0:10,2:1,11:7", "0:10,2:2,11:7", "0:11,2:2,11:7"]


def test_what_is_stepped_over_is_told_by_the_next_id():
    writer = EventWriter({0: 0, 1: 0})
    writer.moved(1, 50)
    (found,) = events(b"".join(writer.rows(0, [batch_of([Stored()])])))
    assert found[0] == "0:1,1:50"


def test_a_value_with_line_breaks_stays_in_one_data_line():
    values = [b'{"a":\r\n1}', b"a\n\ndata: b", b"a\rb"]
    body = written(EventWriter({0: 0}), [(0, [batch_of(numbered([Stored(value) for value in values]))])])
    assert b"\r" not in body
    assert [data["value"] for _, data in events(body)] == [{"a": 1}, "a\n\ndata: b", "a\rb"]


def test_a_keep_alive_is_a_comment():
    event = written(EventWriter({}), [(0, [batch_of([Stored()])])])
    assert events(KEEP_ALIVE) == []
    assert events(KEEP_ALIVE + event + KEEP_ALIVE) == events(event)


def test_an_id_comes_back_as_the_positions_it_was_made_of():
    positions = {0: 0, 7: 2**63 - 1, 2**31 - 1: 12}
    assert parse_event_id(format_event_id(positions).encode()) == positions


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"0",
        b"0:",
        b":1",
        b"0:-1",
        b"-0:1",
        b"01:1",
        b"0:1,",
        b"0:1,0:2",
        b"0:1;1:2",
        b"0:1\n",
        b"0:9223372036854775808",
        b"2147483648:0",
        b"0:1e3",
        "0:\u0661".encode(),
        b"0:" + b"1" * 5_000,
    ],
)
def test_any_other_id_is_refused(given):
    with pytest.raises(Refusal) as refused:
        parse_event_id(given)
    assert refused.value.status == 400
