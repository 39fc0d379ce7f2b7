"""What another writer's commit means for ours."""

import pytest

from delta_log.delta.actions import MetaData, Protocol, Txn
from delta_log.delta.conflicts import Identity, Kind, check_protocol, check_winner, commit_info, is_ours
from delta_log.delta.snapshot import EPOCH_TXN, start_txn
from delta_log.model.errors import NotOwner, TopicClosed
from tests.support.tables import SCHEMA, a_file, append, info, metadata, removal

OURS = 5
BEFORE = Identity(Protocol(), metadata(), OURS)


@pytest.mark.parametrize("kind", Kind)
def test_a_higher_epoch_ends_an_owner_whatever_he_was_about_to_do(kind: Kind):
    with pytest.raises(NotOwner, match="taken by epoch 6, ours is 5"):
        check_winner("t", kind, OURS, [info(), Txn(EPOCH_TXN, 6)], BEFORE)


@pytest.mark.parametrize("epoch", [4, 5])
def test_our_own_epoch_and_earlier_ones_do_not(epoch: int):
    check_winner("t", Kind.REWRITE, OURS, [info(), Txn(EPOCH_TXN, epoch)], BEFORE)


def test_an_end_that_we_did_not_write_ends_an_owner_who_appends():
    with pytest.raises(NotOwner, match="somebody else appended"):
        check_winner("t", Kind.APPEND, OURS, append(a_file(0), epoch=OURS), BEFORE)


def test_a_newcomer_lets_the_former_owner_append_until_the_table_is_of_its_own_epoch():
    check_winner("t", Kind.APPEND, OURS, append(a_file(0), epoch=OURS - 1), Identity(Protocol(), metadata(), OURS - 1))


@pytest.mark.parametrize("kind", [Kind.REWRITE, Kind.REMOVAL, Kind.LOG_START])
def test_a_job_plans_again_whoever_owns_the_table_and_appends(kind: Kind):
    check_winner("t", kind, None, append(a_file(0), epoch=99), BEFORE)


@pytest.mark.parametrize("epoch", [None, OURS])
@pytest.mark.parametrize("kind", Kind)
def test_whoever_meets_a_rewrite_a_removal_a_moved_start_or_new_settings_plans_again(kind: Kind, epoch):
    """The planner itself sees in the new snapshot what can no longer be done."""
    for winner in (removal(a_file(0)), [info(), Txn(start_txn(0), 3)], [info(), metadata(lakelog_retention_ms="7")]):
        check_winner("t", kind, epoch, winner, BEFORE)


@pytest.mark.parametrize("epoch", [None, OURS])
@pytest.mark.parametrize(
    "changed",
    [Protocol(1, 7, ("appendOnly", "invariants")), Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))],
)
def test_another_protocol_stops_the_topic_for_everybody(changed: Protocol, epoch):
    with pytest.raises(TopicClosed, match="protocol"):
        check_winner("t", Kind.REMOVAL, epoch, [info(), changed], BEFORE)


@pytest.mark.parametrize("epoch", [None, OURS])
@pytest.mark.parametrize(
    "changed",
    [
        MetaData("another id", SCHEMA, ("partition",), {}, 0),
        MetaData(metadata().id, SCHEMA.replace("offset", "position"), ("partition",), {}, 0),
        MetaData(metadata().id, SCHEMA, (), {}, 0),
    ],
    ids=["id", "schema", "partition columns"],
)
def test_another_schema_or_identity_stops_the_topic_for_everybody(changed: MetaData, epoch):
    with pytest.raises(TopicClosed, match="schema or identity"):
        check_winner("t", Kind.APPEND, epoch, [info(), changed], BEFORE)


def test_the_same_protocol_once_more_is_no_change():
    check_winner("t", Kind.APPEND, OURS, [info(), Protocol(), metadata()], BEFORE)


def test_who_comes_second_in_making_a_table_finds_out_by_planning_again():
    """Before the first commit there is nothing that could have been changed."""
    check_winner("t", Kind.CONFIG, None, [info(), metadata()], Identity(None, None))


def test_a_table_of_ours_may_be_opened_by_all():
    for owned in (True, False):
        check_protocol("t", Protocol(), owned=owned)


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(3, 7, ("lakelog.exclusive", "deletionVectors"), ("deletionVectors",)),
        Protocol(1, 7, ("lakelog.exclusive", "rowTracking")),
        Protocol(2, 7, ("lakelog.exclusive",)),
        Protocol(1, 8, ("lakelog.exclusive",)),
        None,
    ],
)
def test_a_table_that_needs_what_we_do_not_know_is_refused(protocol):
    for owned in (True, False):
        with pytest.raises(TopicClosed, match="protocol"):
            check_protocol("t", protocol, owned=owned)


def test_a_table_that_is_not_exclusive_can_be_read_but_not_owned():
    for protocol in (Protocol(1, 2, ()), Protocol(1, 7, ("appendOnly", "invariants"))):
        check_protocol("t", protocol, owned=False)
        with pytest.raises(TopicClosed, match=r"lakelog\.exclusive"):
            check_protocol("t", protocol, owned=True)


def test_a_commit_is_known_by_its_id():
    ours = append(a_file(0), commit_id="1-2-3")
    assert commit_info(ours).commit_id == "1-2-3"
    assert is_ours(ours, "1-2-3")
    assert not is_ours(ours, "1-2-4")
    assert not is_ours([Txn("a", 1)], "")
    assert commit_info([Txn("a", 1)]) is None
