"""What an operator's verbs decide from what they found: logs, versions, ranges and doubts, without a disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log.delta.actions import Action, Add, CommitInfo, encode_commit
from delta_log.delta.checkpoint import encode_checkpoint
from delta_log.delta.snapshot import Snapshot
from delta_log.journal.group_format import HEADER_SIZE
from delta_log.journal.unreadable_groups import TableEnds
from delta_log.model.lost_ranges import LostRange, count_within, merge_ranges, read_lost, subtract, write_lost
from delta_log.operations.backup.point_in_time import choose_version, state_of
from delta_log.operations.backup.report import BackupReport, TableCopy
from delta_log.operations.check.check import CheckPlan
from delta_log.operations.check.findings import CheckReport, damage, note, seen_twice, waste
from delta_log.operations.check.judge_log import LogFiles, differences, judge_log
from delta_log.operations.check.read_journal import look_into
from delta_log.operations.repair.journal import plan_settling
from tests.support.journal_bytes import EPOCH, LIFE, build, make_group
from tests.support.tables import a_file, append, first_commit, removal

RANGES = st.builds(
    lambda partition, first, size: LostRange(partition, first, first + size),
    st.integers(0, 2),
    st.integers(0, 60),
    st.integers(0, 20),
)


def offsets_of(ranges: list[LostRange]) -> set[tuple[int, int]]:
    return {(one.partition, offset) for one in ranges for offset in range(one.first, one.last + 1)}


@given(st.lists(RANGES, max_size=8))
def test_ranges_that_were_given_up_are_read_as_they_were_written(ranges: list[LostRange]):
    again = read_lost({"lakelog.lost.offsets": write_lost(ranges)})
    assert again == merge_ranges(ranges)
    assert offsets_of(again) == offsets_of(ranges)


@given(RANGES, st.lists(RANGES, max_size=8))
def test_what_is_left_of_a_range_is_what_is_in_none_of_the_others(wanted: LostRange, known: list[LostRange]):
    left = subtract(wanted, known)
    assert offsets_of(left) == offsets_of([wanted]) - offsets_of(known)
    own = merge_ranges(known)
    within = count_within(own, wanted.partition, wanted.first, wanted.last)
    assert within == len(offsets_of([wanted])) - len(offsets_of(left))


def test_a_property_that_nobody_of_us_wrote_says_nothing():
    for text in ("", "x", "1", "1:2", "1:2-", "a:b-c", ":-"):
        assert read_lost({"lakelog.lost.offsets": text}) == []


def a_log(versions: int = 6) -> list[list[Action]]:
    files = [a_file(number) for number in range(versions)]
    commits = [first_commit(), *(append(file, commit_id=f"1-0-{100 * (n + 1)}") for n, file in enumerate(files))]
    return [*commits[:-1], removal(files[0])]


def files_of(commits: list[list[Action]], *, first: int = 0, checkpoints: tuple[int, ...] = ()) -> LogFiles:
    state, blobs = Snapshot(), {}
    for version, actions in enumerate(commits):
        state.replay(version, actions)
        if version in checkpoints:
            blobs[version] = bytes(memoryview(encode_checkpoint(state)[0]))
    hint = b'{"version":%d}' % max(checkpoints) if checkpoints else None
    entries = {version: encode_commit(actions) for version, actions in enumerate(commits) if version >= first}
    return LogFiles(entries, blobs, hint)


@pytest.mark.parametrize(("first", "checkpoints"), [(0, ()), (0, (2,)), (0, (1, 4)), (3, (2, 4)), (5, (4,)), (7, (6,))])
def test_a_sound_log_has_no_findings_and_leads_to_the_state_that_it_tells(first: int, checkpoints: tuple[int, ...]):
    commits = a_log()
    verdict = judge_log(files_of(commits, first=first, checkpoints=checkpoints))
    assert verdict.findings("t") == []
    state = Snapshot()
    for version, actions in enumerate(commits):
        state.replay(version, actions)
    assert (verdict.readable, verdict.snapshot.version, differences(verdict.snapshot, state)) == (True, 6, [])


@given(st.integers(0, 6), st.booleans(), st.sampled_from([(), (3,), (2, 5)]))
def test_a_bad_entry_hides_the_table_unless_a_checkpoint_is_behind_it(
    bad: int, missing: bool, checkpoints: tuple[int, ...]
):
    files = files_of(a_log(), checkpoints=checkpoints)
    entries = {version: data for version, data in files.entries.items() if version != bad or not missing}
    if not missing:
        entries[bad] = b""
    verdict = judge_log(LogFiles(entries, files.checkpoints, files.hint))
    behind = bad <= max(checkpoints, default=-1)
    gone = missing and bad == 6
    assert verdict.readable == (behind or gone)
    if missing and bad == 0:
        assert verdict.readable == bool(checkpoints)
    elif not gone:
        assert len(verdict.findings("t")) == 1


@given(st.lists(st.integers(0, 900), min_size=1, max_size=8, unique=True), st.integers(0, 1000))
def test_of_a_cut_the_newest_version_is_taken_that_has_nothing_from_behind_it(places: list[int], end: int):
    commits = [first_commit()]
    commits += [append(a_file(n), commit_id=f"1-0-{place}") for n, place in enumerate(sorted(places))]
    verdict = judge_log(files_of(commits))
    version = choose_version(verdict, (1, 0, end))
    assert version == sum(place < end for place in places)
    state = state_of(verdict, version)
    assert state is not None
    assert state.end(0) == version
    assert choose_version(verdict, None) == len(places)


def test_a_state_that_nothing_leads_to_any_more_is_not_known():
    verdict = judge_log(files_of(a_log(), first=5, checkpoints=(5,)))
    assert state_of(verdict, 4) is None
    assert state_of(verdict, 5) is not None


def segment(groups: int, *, topic_of=lambda number: "a") -> tuple[str, bytes, list[int]]:
    built = build([[make_group(number, (topic_of(number), 0, b"x" * 50)) for number in range(groups)]])
    return f"{EPOCH:010d}-{0:010d}-{LIFE:016x}.seg", built.segments[0] + bytes(500), built.ends[0]


def broken(data: bytes, begin: int) -> bytes:
    at = begin + HEADER_SIZE - 1
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def tables(*names: str, epoch: int = EPOCH) -> list[TableEnds]:
    return [TableEnds(name, f"id-{name}", epoch, (0,)) for name in names]


def test_a_journal_that_a_start_can_replay_is_not_settled():
    name, data, ends = segment(6)
    assert plan_settling(look_into({name: data}), tables("a")) is None
    assert plan_settling(look_into({name: broken(data, ends[1])}), tables("a")) is None


@given(st.integers(4, 10), st.data())
def test_no_offset_of_an_unreadable_group_is_ever_given_out_again(groups: int, data: st.DataObject):
    """Two topics take turns as they like; two neighbouring groups are broken. What was given out stays behind."""
    topics = data.draw(st.lists(st.sampled_from("ab"), min_size=groups, max_size=groups))
    first = data.draw(st.integers(1, groups - 3))
    following = {"a": 0, "b": 0}
    made = []
    for topic in topics:
        made.append(make_group(following[topic], (topic, 0, b"x" * 30)))
        following[topic] += 1
    built = build([made])
    raw = built.segments[0]
    for group in (first, first + 1):
        raw = broken(raw, built.ends[0][group - 1])
    look = look_into({f"{EPOCH:010d}-{0:010d}-{LIFE:016x}.seg": raw})
    cure = plan_settling(look, tables("a", "b"))
    assert cure is not None
    for topic, given_out in following.items():
        readable = [f.frame.next_offset for f in look.found.frames if f.frame.topic == topic]
        doubts = [doubt.first + doubt.most for doubt in cure.doubts if doubt.table == topic]
        assert max([*readable, *doubts, 0]) >= given_out


def test_a_table_of_another_owner_was_given_nothing_by_it():
    name, data, ends = segment(8)
    look = look_into({name: broken(broken(data, ends[1]), ends[2])})
    cure = plan_settling(look, [*tables("older", epoch=EPOCH - 1), *tables("newer", epoch=EPOCH + 1), *tables("idle")])
    assert cure is not None
    assert [(doubt.table, doubt.first) for doubt in cure.doubts] == [("idle", 0)]
    assert "idle-0 0 to" in str(cure)


def test_a_frame_that_was_copied_forward_proves_nothing():
    """It lies behind the damage, and says where its partition was long before."""
    groups = [make_group(number, ("a", 0, b"x" * 50)) for number in range(5)]
    groups += [make_group(1, ("a", 0, b"x" * 50)), make_group(0, ("b", 0, b"x" * 50))]
    built = build([groups])
    raw = broken(broken(built.segments[0], built.ends[0][2]), built.ends[0][3])
    cure = plan_settling(look_into({f"{EPOCH:010d}-{0:010d}-{LIFE:016x}.seg": raw}), tables("a"))
    assert cure is not None
    assert [(doubt.table, doubt.first) for doubt in cure.doubts] == [("a", 3)]


def test_what_is_there_at_both_looks_is_a_finding():
    assert seen_twice([damage("a", "x"), damage("b", "y")], [damage("b", "y")]) == [damage("b", "y")]


def test_a_report_prints_a_line_for_each_finding_and_a_verdict():
    report = CheckReport("root", (damage("a", "x\n y"), waste("b", "z"), note("", "w")), 1, 2, 3, 4)
    assert str(report).splitlines() == [
        "damage: a: x y",
        "waste: b: z",
        "note: w",
        "root: DAMAGED; 1 tables, 2 files, 3 records, 4 bytes; 1 damage, 1 waste, 1 note",
    ]
    assert report.exit_code == 1


def test_of_a_thousand_tables_a_copy_prints_those_of_which_most_is_copied_and_all_that_is_not_in_it():
    tables = tuple(
        TableCopy(f"t{at:03}", 1, (0,), (at,), 0, 1, 1, (at * 7) % 1000, deleted=False) for at in range(1000)
    )
    missing = tuple(f"file-{at}" for at in range(30))
    report = BackupReport("root", "copy", tables, (("left", "why"),), missing, (), dry_run=False)
    *shown, more, left = str(report).splitlines()[:22]
    assert sorted(int(line.partition(" bytes")[0].rpartition("(")[2]) for line in shown) == list(range(980, 1000))
    assert shown == sorted(shown)
    assert (more, left) == ("and 980 tables more", "not in it: left: why")
    assert str(report).splitlines()[22:-1] == [f"not in it: {file}: it is missing" for file in missing]
    assert str(report).splitlines()[-1] == "root copied to copy: 1000 tables, 1000 files, 499500 bytes"


def test_a_check_names_no_more_tables_than_a_line_has_room_for():
    names = tuple(f"t{at}" for at in range(21))
    assert str(CheckPlan("root", names[:20])).endswith("t18, t19); change nothing")
    assert str(CheckPlan("root", names)).endswith(
        "all of 21 tables (t0, " + ", ".join(names[1:20]) + ", …); change nothing"
    )


def test_an_entry_of_ours_that_lost_its_last_line_is_bad_though_it_can_be_read():
    commits = a_log()
    files = files_of(commits)
    whole = files.entries[6]
    cut = encode_commit([CommitInfo("c", 1, "WRITE"), Add(a_file(5))])
    for data in (whole[:-1], cut):
        verdict = judge_log(LogFiles({**files.entries, 6: data}, {}, None))
        assert list(verdict.bad_entries) == [6]


def test_an_entry_without_a_checksum_behind_one_with_it_is_named_and_read_all_the_same():
    files = files_of(a_log())
    foreign = b'{"commitInfo":{"operation":"WRITE"}}\n{"txn":{"appId":"theirs","version":1}}\n'
    verdict = judge_log(LogFiles({**files.entries, 7: foreign}, {}, None))
    assert (verdict.readable, verdict.snapshot.txns["theirs"]) == (True, 1)
    assert "somebody else's" in str(verdict.findings("t")[0])
