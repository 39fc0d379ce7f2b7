"""A commit and the JSON lines that it is stored as."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delta_log.delta.actions import (
    Add,
    CommitInfo,
    Protocol,
    Remove,
    Txn,
    decode_commit,
    encode_commit,
    file_stats,
    is_sealed,
    iso_ms,
    parse_iso_ms,
)
from delta_log.model.errors import Corruption
from delta_log.model.types import LATEST_MS
from tests.support.tables import TIMES, a_file, actions, append, first_commit, info

NAME = "topics/t/_delta_log/00000000000000000007.json"


@given(commit=st.lists(actions(), min_size=1, max_size=6))
def test_what_was_encoded_is_decoded_as_it_was(commit):
    """The law of a commit: decode(encode(x)) holds the same actions, its commit info in front."""
    ordered = sorted(commit, key=lambda action: not isinstance(action, CommitInfo))
    assert decode_commit(encode_commit(commit), NAME) == ordered


def test_a_commit_is_one_object_a_line_with_its_info_first():
    lines = encode_commit([Txn("a", 1), *append(a_file(0))]).splitlines()
    assert [next(iter(msgspec.json.decode(line))) for line in lines] == ["commitInfo", "txn", "add", "txn", "txn"]


def test_a_new_table_says_who_may_touch_it():
    protocol = msgspec.json.decode(encode_commit(first_commit()).splitlines()[1])["protocol"]
    assert protocol == {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["appendOnly", "invariants", "lakelog.exclusive"],
    }


def test_transactions_never_expire():
    """A `txn` with a time would be forgotten by other engines' checkpoints, and with it where a partition ends."""
    assert msgspec.json.decode(encode_commit([Txn("lakelog/end/0", 5)])) == {
        "txn": {"appId": "lakelog/end/0", "version": 5}
    }


def test_what_others_put_beside_is_kept_out_of_the_way():
    """Unknown actions and fields are ignored, never misread."""
    ours = encode_commit(append(a_file(0)))
    theirs = b"""{"domainMetadata":{"domain":"x"}}
{"cdc":{"path":"x"}}

{"txn":{"appId":"a","version":1,"lastUpdated":5,"new":{}}}
"""
    assert decode_commit(theirs + ours, NAME) == [Txn("a", 1), *decode_commit(ours, NAME)]


def test_a_commit_of_another_engine_has_no_id_of_ours():
    found = decode_commit(
        b'{"commitInfo":{"timestamp":5,"operation":"WRITE","operationParameters":{"mode":"Append"}}}', NAME
    )
    assert found == [CommitInfo("", 5, "WRITE")]


NO_COMMITS = """
{}|[]|5|null|"x"|{"txn":null}|{"txn":{}}|{"commitInfo":[]}|{"commitInfo":{"lakelog":"x"}}|{"protocol":{}}
{"metaData":{"id":"x"}}|{"unknown":{}}
{"add":{"path":"p","partitionValues":{"partition":"0"},"size":1,"modificationTime":1}}
{"add":{"path":"p","partitionValues":{"partition":"0"},"size":1,"modificationTime":1,"stats":null}}
{"add":{"path":"p","partitionValues":{"partition":"0"},"size":1,"modificationTime":1,"stats":"{}"}}
{"add":{"path":"p","partitionValues":{"partition":"x"},"size":1,"modificationTime":1,"stats":"{"}}
{"add":{"path":"p","partitionValues":{"partition":null},"size":1,"modificationTime":1,"stats":"{}"}}
"""
NO_TEXTS = [b"", b"\n", b"  \n\n", b"\0" * 100, b"\xff\xfe"]


@pytest.mark.parametrize("data", NO_TEXTS + NO_COMMITS.strip().replace("|", "\n").encode().splitlines())
def test_what_is_no_commit_is_corruption_that_names_its_file(data: bytes):
    with pytest.raises(Corruption, match=r"00000000000000000007\.json") as found:
        decode_commit(data, NAME)
    assert found.value.file == NAME


@pytest.mark.parametrize("missing", [1, 2, 10, 50])
def test_a_commit_cut_within_its_last_line_is_corruption(missing: int):
    """A writer that is not atomic may leave any part of it."""
    whole = encode_commit([*append(a_file(0)), Add(a_file(1))])
    with pytest.raises(Corruption):
        decode_commit(whole[: -1 - missing], NAME)


@given(milliseconds=st.integers(-62_135_596_800_000, LATEST_MS))
@example(0)
@example(-1)
@example(999)
@example(LATEST_MS)
def test_a_time_of_the_statistics_comes_back_to_the_millisecond(milliseconds: int):
    """From year 1 to the end of year 9999."""
    assert parse_iso_ms(iso_ms(milliseconds)) == milliseconds


def test_times_are_spelled_as_delta_spells_them():
    assert iso_ms(0) == "1970-01-01T00:00:00.000Z"
    assert iso_ms(1) == "1970-01-01T00:00:00.001Z"
    assert iso_ms(-1) == "1969-12-31T23:59:59.999Z"
    assert iso_ms(LATEST_MS) == "9999-12-31T23:59:59.999Z"
    assert iso_ms(int(datetime(999, 1, 2, tzinfo=UTC).timestamp()) * 1000) == "0999-01-02T00:00:00.000Z"


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_times_of_others_are_read_in_their_zone_and_without_one_as_utc():
    for text in ("2026-01-01T12:00:00.123+02:00", "2026-01-01T10:00:00.123Z", "2026-01-01T10:00:00.123"):
        assert parse_iso_ms(text) == 1_767_261_600_123


@given(low=TIMES, high=TIMES)
def test_statistics_say_what_readers_skip_files_by(low: int, high: int):
    file = a_file(5, 3, at=low)
    assert msgspec.json.decode(file_stats(file)) == {
        "numRecords": 3,
        "minValues": {"offset": 5, "timestamp": iso_ms(low)},
        "maxValues": {"offset": 7, "timestamp": iso_ms(low)},
        "nullCount": {"offset": 0, "timestamp": 0},
    }


def test_a_table_without_partitions_counts_by_its_commit_sequence():
    file = a_file(5, 3, partition=-1, at=0)
    body = msgspec.json.decode(encode_commit([Add(file)]))["add"]
    assert body["partitionValues"] == {}
    assert msgspec.json.decode(body["stats"])["maxValues"] == {"commit_seq": 7}


def test_facts_of_a_commit_stand_beside_its_id():
    commit = info("me", topicId="t", ranges={"0": [1, 2]})
    assert decode_commit(encode_commit([commit]), NAME) == [commit]


def test_a_removal_of_a_file_that_others_made_need_not_say_much():
    assert decode_commit(b'{"remove":{"path":"x"}}', NAME) == [Remove("x", -1, 0, 0, data_change=True)]


def test_an_older_protocol_has_no_features():
    assert decode_commit(b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}', NAME) == [Protocol(1, 2, ())]


def test_a_commit_of_ours_is_refused_wherever_a_byte_of_it_was_changed():
    data = encode_commit([CommitInfo("c", 1, "WRITE", facts={"ranges": {"0": [0, 1]}}), Txn("lakelog/end/0", 1)])
    assert decode_commit(data, "name")
    assert is_sealed(data)
    for place in range(len(data)):
        for bit in (0x01, 0x20, 0x80):
            changed = bytearray(data)
            changed[place] ^= bit
            try:
                decode_commit(bytes(changed), "name")
            except Corruption:
                continue
            assert not is_sealed(bytes(changed)), "what can be read all the same has lost its checksum"


def test_a_commit_that_was_cut_between_two_lines_is_refused():
    data = encode_commit([CommitInfo("c", 1, "WRITE"), Txn("a", 1), Txn("b", 1)])
    with pytest.raises(Corruption, match="checksum"):
        decode_commit(data[: data.rindex(b"{")], "name")


def test_commits_without_a_checksum_can_be_read():
    """Those of other writers, where one was forced on a table."""
    assert decode_commit(b'{"commitInfo":{"operation":"WRITE"}}\n{"txn":{"appId":"a","version":1}}', "name")
