"""A snapshot and the parquet blob that it is stored as."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_log.delta.actions import Protocol, decode_commit, encode_commit, file_stats
from delta_log.delta.checkpoint import (
    checkpoint_path,
    checkpoint_pieces,
    decode_checkpoint,
    encode_checkpoint,
    encode_pieces,
    log_versions,
)
from delta_log.delta.checkpoint_columns import PIECE, add_columns
from delta_log.delta.snapshot import Snapshot
from delta_log.model.errors import Corruption
from tests.support.tables import a_file, append, content, files, first_commit, histories, removal

NAME = checkpoint_path(5)


def folded(commits) -> Snapshot:
    snapshot = Snapshot()
    for version, actions in enumerate(commits):
        snapshot.replay(version, actions)
    return snapshot


def restored(snapshot: Snapshot) -> Snapshot:
    """What a process knows that starts from the checkpoint of a snapshot."""
    data, _ = encode_checkpoint(snapshot)
    again = Snapshot(version=snapshot.version)
    again.fold(decode_checkpoint(bytes(data), NAME))
    return again


def said(snapshot: Snapshot) -> object:
    """A checkpoint changes no data, so its tombstones do not say that they did."""
    version, protocol, metadata, txns, there, listed, removed = content(snapshot)
    gone = {path: (tombstone.partition, tombstone.size, tombstone.deleted_ms) for path, tombstone in removed.items()}
    return version, protocol, metadata, txns, there, listed, gone


@settings(max_examples=50)
@given(history=histories(), data=st.data())
def test_a_checkpoint_and_what_follows_say_what_all_commits_say(history, data: st.DataObject):
    """The law of checkpoints, wherever one is taken."""
    at = data.draw(st.integers(0, len(history) - 1))
    snapshot = restored(folded(history[: at + 1]))
    for version, actions in enumerate(history[at + 1 :], at + 1):
        snapshot.replay(version, decode_commit(encode_commit(actions), "x"))
    assert said(snapshot) == said(folded(history))


@settings(max_examples=30)
@given(there=st.lists(files(), unique_by=lambda file: file.path, max_size=5))
def test_any_file_comes_back_as_it_was(there):
    snapshot = folded([first_commit(), *(append(file) for file in there)])
    assert content(restored(snapshot)) == content(snapshot)


@settings(max_examples=30)
@given(there=st.lists(files(), min_size=1, max_size=20))
def test_statistics_that_are_made_as_a_column_are_those_of_a_commit_to_the_letter(there):
    made = [add["stats"] for adds in add_columns(there) for add in adds.to_pylist()]
    assert made == [file_stats(file) for file in there]


def test_however_long_its_history_a_checkpoint_is_made_by_small_pieces():
    """Between two of them those who wait for an answer get the interpreter."""
    live = [append(a_file(base)) for base in range(PIECE + 1)]
    gone = [removal(*(a_file(base) for base in range(10**6, 10**6 + 2 * PIECE + 1)))]
    snapshot = folded([first_commit(), *live, *gone])
    pieces = list(checkpoint_pieces(snapshot))
    assert max(piece.num_rows for piece in pieces) == PIECE
    data, size = encode_pieces(pieces)
    assert (data, size) == encode_checkpoint(snapshot)
    assert size == 2 + 2 + (PIECE + 1) + (2 * PIECE + 1)
    again = Snapshot(version=snapshot.version)
    again.fold(decode_checkpoint(bytes(data), NAME))
    assert said(again) == said(snapshot)


def test_a_checkpoint_counts_its_actions():
    snapshot = folded([first_commit(), append(a_file(0)), append(a_file(1)), removal(a_file(7))])
    data, size = encode_checkpoint(snapshot)
    assert size == len(decode_checkpoint(bytes(data), NAME)) == 2 + 2 + 2 + 1
    assert pq.read_metadata(pa.BufferReader(data)).num_rows == size


def test_a_table_without_protocol_or_metadata_has_no_checkpoint():
    with pytest.raises(ValueError, match="without protocol or metadata"):
        encode_checkpoint(Snapshot())


def test_every_damage_to_a_checkpoint_of_ours_is_found():
    """Whatever byte is turned, wherever it is cut: the same content or Corruption, never another table."""
    snapshot = folded([first_commit(), append(a_file(0))])
    data = bytes(encode_checkpoint(snapshot)[0])
    expected = decode_checkpoint(data, NAME)
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        for broken in (bytes(damaged), data[:at]):
            try:
                found = decode_checkpoint(broken, NAME)
            except Corruption as error:
                assert error.file == NAME  # noqa: PT017 - either is right
            else:
                assert found == expected


def test_what_is_no_checkpoint_is_named():
    table = pa.table({"x": [1]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    for data in (b"", b"PAR1", b"x" * 1000, sink.getvalue().to_pybytes()):
        with pytest.raises(Corruption, match=r"checkpoint\.parquet"):
            decode_checkpoint(data, NAME)


def test_a_checkpoint_of_another_writer_may_have_fewer_columns_and_more():
    """As delta-rs writes it: no seal, columns of its own, none for what the table has not."""
    rows = pq.read_table(pa.BufferReader(encode_checkpoint(folded([first_commit(), append(a_file(0))]))[0]))
    theirs = rows.drop_columns(["remove"]).append_column("sidecar", pa.nulls(rows.num_rows))
    sink = pa.BufferOutputStream()
    pq.write_table(theirs, sink)
    found = decode_checkpoint(sink.getvalue().to_pybytes(), NAME)
    assert Protocol() in found
    assert len(found) == rows.num_rows


def test_versions_are_those_of_whole_names_only():
    names = ["00000000000000000010.json", "00000000000000000011.json.tmp", ".00000000000000000012.json", "7.json"]
    names += ["_last_checkpoint", "x" * 20 + ".json", "00000000000000000020.checkpoint.parquet", ""]
    assert log_versions(names, ".json") == [10]
    assert log_versions(names, ".checkpoint.parquet") == [20]
