"""Laws of the journal's bytes: whatever is cut or flipped, nothing untrue is ever replayed and nothing goes unsaid."""

from bisect import bisect_right

from hypothesis import example, given
from hypothesis import strategies as st

from delta_log.journal.group_format import decode_header
from delta_log.journal.segment_scan import find_lost
from tests.support.journal_bytes import (
    LIFE,
    Built,
    Group,
    build,
    lost_ranges,
    make_frame,
    ranges_of,
    read_back,
    scan_all,
    written,
)

PARTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(1, 5), st.binary(max_size=40)),
    min_size=1,
    max_size=3,
)


@st.composite
def journals(draw: st.DrawFn, min_groups: int = 0) -> tuple[list[list[Group]], Built]:
    """Groups with dense offsets in each partition, spread over segments, each with its room behind the end."""
    ends: dict[tuple[str, int], int] = {}
    groups: list[Group] = []
    for parts in draw(st.lists(PARTS, min_size=min_groups, max_size=8)):
        group = Group([], [])
        for topic, partition, count, payload in parts:
            base = ends.get((topic, partition), 0)
            ends[topic, partition] = base + count
            group.frames.append(make_frame(topic, partition, base, count, payload))
            group.payloads.append(payload)
        groups.append(group)
    cuts = sorted(draw(st.lists(st.integers(0, len(groups)), max_size=3)))
    segments = [groups[a:b] for a, b in zip([0, *cuts], [*cuts, len(groups)], strict=True)]
    return segments, build(segments)


def flat(segments: list[list[Group]]) -> list[Group]:
    return [group for segment in segments for group in segment]


def flip(data: bytes, position: int, bits: int) -> bytes:
    return data[:position] + bytes([data[position] ^ bits]) + data[position + 1 :]


@given(journals(), st.integers(0, 300))
def test_what_was_written_is_read_back(journal: tuple[list[list[Group]], Built], room: int):
    segments, built = journal
    scans = scan_all([data + bytes(room) for data in built.segments])
    assert read_back(scans, built.segments) == written(flat(segments))
    assert lost_ranges(scans) == []
    assert not any(scan.damage or scan.torn for scan in scans)
    assert [scan.end for scan in scans] == [len(data) for data in built.segments]


@st.composite
def cut_journals(draw: st.DrawFn) -> tuple[list[list[Group]], list[bytes]]:
    """The groups that were to be there, and segments whose last one with groups is cut and has zeros behind the cut."""
    segments, built = draw(journals(min_groups=1))
    last = max(number for number, groups in enumerate(segments) if groups)
    cut = draw(st.integers(0, len(built.segments[last])))
    return segments, [*built.segments[:last], built.segments[last][:cut] + bytes(draw(st.integers(0, 300)))]


def cut_short(payload: bytes, lacking: int, room: int) -> tuple[list[list[Group]], list[bytes]]:
    """A whole group and one with `payload`, of which the last bytes are lacking, with `room` zeros in their stead."""
    segments = [[Group([make_frame("a", 0, at, 1, each)], [each]) for at, each in enumerate([b"whole", payload])]]
    (data,) = build(segments).segments
    return segments, [data[: len(data) - lacking] + bytes(room)]


@given(cut_journals())
@example(cut_short(b"ends in a zero\0", lacking=1, room=1)).via("the room restores what was cut")
@example(cut_short(b"half a group", lacking=4, room=4)).via("the file ends where the half group would have ended")
@example(cut_short(b"half a group", lacking=4, room=5)).via("a torn end: the file ends behind the half group")
@example(cut_short(b"half a group", lacking=4, room=3)).via("a torn end: the file ends amid the half group")
def test_cut_anywhere_a_journal_keeps_a_prefix_of_whole_groups(journal: tuple[list[list[Group]], list[bytes]]):
    """A group whose bytes are all there is whole, however they came there.

    No journal leaves a file that ends with half a group: a group ends before its segment does, and a file is cut only
    behind a group that was found whole and synced. So half a group that ends with its file is rot, and named.
    """
    segments, kept = journal
    built, last = build(segments), len(kept) - 1
    ends = built.ends[last]
    whole = sum(kept[-1][:end] == built.segments[last][:end] for end in ends)
    expected = [*flat(segments[:last]), *segments[last][:whole]]
    rotten = whole < len(ends) and len(kept[-1]) == ends[whole] and knows_its_end(kept[-1], [0, *ends][whole])
    scans = scan_all(kept)
    found, (lost, untraceable) = read_back(scans, kept), find_lost(scans)
    assert any(scan.damage for scan in scans) == rotten
    if rotten:
        half = written([segments[last][whole]])
        assert found == [*written(expected), *(pair for pair in half if pair in found)]
        assert len(lost) == sum(pair not in found for pair in half) or untraceable, "nothing goes unsaid"
        assert not scans[-1].torn
    else:
        assert (found, lost, untraceable) == (written(expected), [], [])
    again = scan_all([*kept[:-1], kept[-1][: scans[-1].end]])
    assert again[-1].groups == scans[-1].groups, "cut twice is cut once"


def knows_its_end(data: bytes, position: int) -> bool:
    return decode_header(memoryview(data)[position:]) is not None


@given(journals(min_groups=1), st.data())
def test_a_flipped_byte_is_named_as_damage_below_a_mark_and_is_a_torn_end_behind_the_last(
    journal: tuple[list[list[Group]], Built], data: st.DataObject
):
    segments, built = journal
    number = data.draw(st.sampled_from([n for n, groups in enumerate(segments) if groups]))
    position = data.draw(st.integers(0, len(built.segments[number]) - 1))
    hurt = [segment + bytes(data.draw(st.integers(1, 100))) for segment in built.segments]
    hurt[number] = flip(hurt[number], position, data.draw(st.integers(1, 255)))
    place = bisect_right(built.ends[number], position)
    group = segments[number][place]
    others = [other for other in flat(segments) if other is not group]
    scans = scan_all(hurt)
    found = read_back(scans, hurt)

    assert [pair for pair in found if pair not in written([group])] == written(others), "all others are replayed"
    behind_all_marks = place == len(segments[number]) - 1 and not any(segments[number + 1 :])
    if behind_all_marks and number == len(segments) - 1:
        assert found == written(others), "half a group is never replayed"
        assert lost_ranges(scans) == []
    elif not behind_all_marks:
        assert any(scan.damage for scan in scans)
        missing = [frame for frame, payload in written([group]) if (frame, payload) not in found]
        assert lost_ranges(scans) == [
            item for item, frame in zip(ranges_of(group), group.frames, strict=True) if frame in missing
        ]
        assert missing, "a flipped byte is never overlooked"


@given(journals(), journals(min_groups=1), st.integers(0, 200))
def test_what_an_earlier_life_left_in_a_used_segment_is_never_replayed(
    now: tuple[list[list[Group]], Built], before: tuple[list[list[Group]], Built], shift: int
):
    segments, built = now
    for old in (
        build([flat(before[0])], life=LIFE + 1),
        build([flat(before[0])], epoch=3),
        build([flat(before[0])], first=len(segments)),
    ):
        stale = old.segments[0]
        reused = [data + stale[min(len(data), shift) :] for data in built.segments]
        scans = scan_all(reused)
        assert read_back(scans, reused) == written(flat(segments))
        assert lost_ranges(scans) == []
        assert not any(scan.damage or scan.torn for scan in scans)


@given(journals(min_groups=1), st.sets(st.integers(0, 3)))
def test_released_segments_are_neither_lost_nor_missed(journal: tuple[list[list[Group]], Built], released: set[int]):
    segments, built = journal
    scans = scan_all(built.segments, missing=frozenset(released))
    kept = [groups for number, groups in enumerate(segments) if number not in released]
    assert read_back(scans, built.segments) == written(flat(kept))
    assert lost_ranges(scans) == []


@given(journals(min_groups=2))
def test_a_later_segment_proves_the_earlier_one_whole(journal: tuple[list[list[Group]], Built]):
    groups = flat(journal[0])
    two = build([groups[:-1], groups[-1:]])
    hurt = [flip(two.segments[0], len(two.segments[0]) - 1, 1), two.segments[1]]
    scans = scan_all(hurt)
    ranges = ranges_of(groups[-2])
    holds_bytes = [item for item, payload in zip(ranges, groups[-2].payloads, strict=True) if payload]
    assert lost_ranges(scans) == (holds_bytes[-1:] or ranges)
    assert scans[0].damage
    assert not scans[0].torn
