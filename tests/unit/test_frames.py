"""A group's header and directory say what was written, or nothing."""

import pytest

from delta_log.journal.group_format import (
    HEADER_SIZE,
    Directory,
    Frame,
    GroupHeader,
    RangeNote,
    checksum,
    decode_directory,
    decode_header,
    encode_directory,
    encode_header,
    notes_of,
)
from delta_log.records.payload_kinds import DECISION, ROWS
from tests.support.journal_bytes import EPOCH, LIFE, make_frame

HEADER = GroupHeader(LIFE, EPOCH, 3, 41, 5, 2, 9_999, 120, 0xCAFE, 1 << 40)


def make_header(directory: bytes) -> GroupHeader:
    return GroupHeader(LIFE, EPOCH, 0, 0, 0, 0, 0, len(directory), checksum(directory), 0)


def test_a_header_is_read_as_it_was_written():
    data = encode_header(HEADER)
    assert len(data) == HEADER_SIZE
    assert decode_header(memoryview(data + b"more")) == HEADER


def test_the_size_of_a_group_is_that_of_all_its_parts():
    assert HEADER.size == HEADER_SIZE + 120 + (1 << 40)


@pytest.mark.parametrize("length", [0, 1, 4, HEADER_SIZE - 1])
def test_a_cut_header_is_none(length: int):
    assert decode_header(memoryview(encode_header(HEADER)[:length])) is None


def test_a_header_with_any_bit_flipped_is_none():
    data = encode_header(HEADER)
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        assert decode_header(memoryview(flipped)) is None


def test_zeros_are_no_header():
    assert decode_header(memoryview(bytes(HEADER_SIZE))) is None


def test_a_directory_is_read_as_it_was_written():
    frames = [make_frame("a", 2, 10, 3, b"payload"), Frame(ROWS, "b", "id", 0, 0, 1, 1, 0, 0, 5, ("producer", 4))]
    notes = [RangeNote("a", "id-a", 2, 7, 3)]
    raw = encode_directory(notes, frames)
    found = decode_directory(make_header(raw), memoryview(bytes(HEADER_SIZE) + raw + b"payload"))
    assert found == Directory(notes, frames)


def test_a_cut_or_damaged_directory_is_none():
    raw = encode_directory([], [make_frame("a", 0, 0, 1, b"x")])
    header = make_header(raw)
    whole = bytes(HEADER_SIZE) + raw
    assert decode_directory(header, memoryview(whole[:-1])) is None
    for position in range(HEADER_SIZE, len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 0x10
        assert decode_directory(header, memoryview(flipped)) is None


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x92\x90", b"\x92\x90\x91\x01", b"\x93\x90\x90"[:1]])
def test_what_is_no_directory_is_none_even_if_its_checksum_is_true(raw: bytes):
    assert decode_directory(make_header(raw), memoryview(bytes(HEADER_SIZE) + raw)) is None


def test_the_note_of_a_group_leaves_out_what_gave_out_no_offsets():
    decision = Frame(DECISION, "a", "id-a", -1, 0, 0, 1, 0, 0, 0)
    assert notes_of([decision, make_frame("a", 1, 5, 2, b"")]) == [RangeNote("a", "id-a", 1, 5, 2)]


def test_a_frame_knows_its_next_offset():
    assert make_frame("a", 0, 5, 3, b"").next_offset == 8
