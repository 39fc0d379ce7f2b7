"""Which damage a scan of the journal names, what it cuts, and what it must not be fooled by."""

import pytest

from delta_log.journal import segment_scan as journal_scan
from delta_log.journal.group_format import MAGIC
from delta_log.journal.segment_scan import find_lost, scan_segment
from tests.support.journal_bytes import (
    EPOCH,
    HEADER_SIZE,
    LIFE,
    build,
    lost_ranges,
    make_group,
    ranges_of,
    read_back,
    scan_all,
    written,
)

GROUPS = [make_group(number, ("a", 0, b"first %d" % number), ("b", 1, b"second %d" % number)) for number in range(6)]


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


def test_an_empty_or_fresh_segment_holds_nothing():
    for data in (b"", bytes(10_000)):
        scan = scan_segment(data, life=LIFE, epoch=EPOCH, segment=0)
        assert (scan.groups, scan.damage, scan.end, scan.torn) == ([], [], 0, False)


def test_groups_are_found_with_the_places_of_their_payloads():
    built = build([GROUPS])
    scans = scan_all([built.segments[0] + bytes(500)])
    assert read_back(scans, built.segments) == written(GROUPS)
    assert (scans[0].end, scans[0].damage, scans[0].torn) == (len(built.segments[0]), [], False)


def test_a_group_whose_payload_was_cut_is_torn_whole():
    data = build([GROUPS]).segments[0]
    (scan,) = scan_all([data[:-1] + bytes(500)])
    assert [group.header.number for group in scan.groups] == [0, 1, 2, 3, 4]
    assert (scan.torn, scan.damage) == (True, [])


def test_a_group_whose_directory_was_cut_is_torn_whole():
    built = build([GROUPS])
    start = built.ends[0][-2]
    (scan,) = scan_all([built.segments[0][: start + HEADER_SIZE + 1] + bytes(500)])
    assert (scan.end, scan.torn, scan.damage) == (start, True, [])


@pytest.mark.parametrize(
    "rest", [bytes(500), build([GROUPS], life=LIFE + 1).segments[0]], ids=["zeros", "a former life"]
)
def test_a_bit_that_turned_anywhere_in_the_last_group_is_said_to_be_a_torn_end(rest: bytes):
    """It looks like half a write, and is cut off as one, but never in silence."""
    built = build([GROUPS])
    start, end = built.ends[0][-2:]
    for position in range(start, end):
        for bit in range(8):
            data = bytearray(built.segments[0] + rest)
            data[position] ^= 1 << bit
            (scan,) = scan_all([bytes(data)])
            assert (scan.end, scan.torn, scan.damage) == (start, True, []), f"bit {bit} of byte {position - start}"


def test_what_an_earlier_life_left_behind_the_end_is_not_taken_for_a_torn_end():
    built, stale = build([GROUPS[:2]]), build([GROUPS], life=LIFE + 1, epoch=EPOCH - 1)
    for cut in (0, 5, stale.ends[0][1] - len(built.segments[0])):
        (scan,) = scan_all([built.segments[0] + stale.segments[0][cut:]])
        assert len(scan.groups) == 2
        assert (scan.torn, scan.damage) == (False, [])


def test_bytes_that_a_producer_sent_are_never_taken_for_a_group():
    """Else a client who guesses epoch and segment could have what it likes replayed, once that segment is torn."""
    forged = build([[], [], [GROUPS[0]]], life=LIFE ^ 1).segments[2]
    built = build([[GROUPS[0], make_group(1, ("a", 0, b"x" * 50 + forged))]])
    start = built.ends[0][0]
    for data in (flip(built.segments[0], start + 20), built.segments[0][:start] + forged):
        (scan,) = scan_all([data])
        assert [group.header.number for group in scan.groups] == [0]


def test_no_payload_makes_a_scan_look_at_more_than_its_own_groups(monkeypatch: pytest.MonkeyPatch):
    looked: list[int] = []
    decode = journal_scan.decode_header
    monkeypatch.setattr(journal_scan, "decode_header", lambda view: looked.append(1) or decode(view))
    built = build([[GROUPS[0], make_group(1, ("a", 0, MAGIC * 10_000)), GROUPS[2]]])
    (scan,) = scan_all([flip(built.segments[0], built.ends[0][0] + 20) + MAGIC * 10_000])
    assert [group.header.number for group in scan.groups] == [0, 2]
    assert len(looked) < 10


def test_a_group_in_a_damaged_group_s_payload_is_not_replayed_again():
    """A producer may store the bytes of this very journal."""
    before = build([GROUPS[:3]])
    built = build([[*GROUPS[:3], make_group(3, ("a", 0, before.segments[0])), GROUPS[4]]])
    data = flip(built.segments[0], built.ends[0][2] + 10)
    scans = scan_all([data])
    assert [group.header.number for group in scans[0].groups] == [0, 1, 2, 4]


def test_a_damaged_payload_costs_its_own_frame_only():
    built = build([GROUPS])
    end = built.ends[0][2]
    scans = scan_all([flip(built.segments[0], end - 1)])
    assert lost_ranges(scans) == [("b", 1, 2, 1)]
    assert len(read_back(scans, built.segments)) == 11
    assert "b-1, offsets 2 to 2" in scans[0].damage[0]


def test_damage_in_the_first_group_of_all_is_known_by_the_second():
    built = build([GROUPS])
    scans = scan_all([flip(built.segments[0], 3)])
    assert lost_ranges(scans) == ranges_of(GROUPS[0])
    assert scans[0].damage == [f"bytes 0 to {built.ends[0][0]} cannot be read"]


def test_damage_in_the_first_group_of_a_later_segment_is_known_though_the_one_before_was_released():
    built = build([GROUPS[:3], GROUPS[3:]])
    scans = scan_all([b"", flip(built.segments[1], 3)], missing=frozenset({0}))
    assert lost_ranges(scans) == ranges_of(GROUPS[3])


def test_a_damaged_last_group_is_known_by_the_first_one_of_the_next_segment():
    built = build([GROUPS[:3], GROUPS[3:]])
    for position in (built.ends[0][1] + 3, built.ends[0][1] + HEADER_SIZE + 3):
        scans = scan_all([flip(built.segments[0], position), built.segments[1]])
        assert lost_ranges(scans) == ranges_of(GROUPS[2])
        assert scans[0].damage == [f"bytes {built.ends[0][1]} to {built.ends[0][2]} cannot be read"]


def test_an_empty_segment_in_between_hides_no_damage():
    """A failed write leaves a segment without a group; the one behind it still proves what lies before both."""
    built = build([GROUPS[:3], [], GROUPS[3:]])
    scans = scan_all([flip(built.segments[0], built.ends[0][2] - 1), *built.segments[1:]])
    assert not scans[0].torn
    assert lost_ranges(scans) == [("b", 1, 2, 1)]
    assert len(read_back(scans, built.segments)) == 11


def test_an_unreadable_first_group_does_not_take_its_segment_s_proof_away():
    built = build([GROUPS[:3], GROUPS[3:]])
    scans = scan_all([flip(built.segments[0], built.ends[0][2] - 1), flip(built.segments[1], 3)])
    assert not scans[0].torn
    assert lost_ranges(scans) == [("b", 1, 2, 1), *ranges_of(GROUPS[3])]


def test_nothing_of_a_segment_that_is_not_the_last_can_be_torn_though_the_next_was_released():
    built = build([GROUPS[:2], GROUPS[2:4], GROUPS[4:]])
    scans = scan_all([flip(built.segments[0], built.ends[0][1] - 1), *built.segments[1:]], missing=frozenset({1}))
    assert not scans[0].torn
    assert lost_ranges(scans) == [("b", 1, 1, 1)]


def test_segments_that_were_released_are_not_lost():
    built = build([GROUPS[:1], GROUPS[1:4], GROUPS[4:]])
    for missing in ({0}, {1}, {0, 1}, {1, 2}):
        scans = scan_all(built.segments, missing=frozenset(missing))
        assert lost_ranges(scans) == []
        assert not any(scan.damage for scan in scans)


def test_a_segment_that_ends_with_a_group_was_found_whole_before_and_has_no_torn_end():
    """Else what an earlier start showed to readers could go unsaid in the next one, when it rots in between."""
    data = build([GROUPS]).segments[0]
    (scan,) = scan_all([flip(data, len(data) - 1)])
    assert (scan.torn, lost_ranges([scan])) == (False, [("b", 1, 5, 1)])


def test_an_unreadable_directory_at_such_an_end_leaves_no_trace():
    built = build([GROUPS])
    (scan,) = scan_all([flip(built.segments[0], built.ends[0][-2] + HEADER_SIZE + 3)])
    assert (scan.torn, len(scan.damage), len(find_lost([scan])[1])) == (False, 1, 1)


def test_two_unreadable_groups_in_a_row_leave_no_trace_of_the_first():
    built = build([GROUPS])
    data = flip(flip(built.segments[0], built.ends[0][1] + 3), built.ends[0][2] + 3)
    lost, untraceable = find_lost(scan_all([data]))
    assert [item.note.base_offset for item in lost] == [3, 3]
    assert untraceable == ["journal groups 2 to 2"]


def test_a_damaged_end_whose_next_segment_was_released_leaves_no_trace():
    built = build([GROUPS[:2], GROUPS[2:4], GROUPS[4:]])
    data = flip(built.segments[0], built.ends[0][0] + HEADER_SIZE + 3)
    lost, untraceable = find_lost(scan_all([data, *built.segments[1:]], missing=frozenset({1})))
    assert (lost, len(untraceable)) == ([], 1)


def test_a_wholly_unreadable_segment_is_counted_by_what_surrounds_it():
    built = build([GROUPS[:2], GROUPS[2:3], GROUPS[3:]])
    unreadable = [built.segments[0], bytes(len(built.segments[1])), built.segments[2]]
    assert lost_ranges(scan_all(unreadable)) == ranges_of(GROUPS[2])
    _, untraceable = find_lost(scan_all(unreadable, missing=frozenset({0})))
    assert len(untraceable) == 1, "nobody can say how many groups it held"
