"""What an owner that was replaced, and does not know it yet, does to the topics themselves."""

from __future__ import annotations

import pytest

from delta_log import Record
from delta_log.model.errors import OutcomeUnknown, TopicExists
from delta_log.stores import MemoryStore
from tests.support.logs import Place, crash


def test_a_topic_that_a_former_owner_makes_is_not_said_to_be_there_and_the_newcomer_can_have_it():
    place = Place(None, store=MemoryStore())
    former = place.open()
    former.create_topic("t")
    former.delete_topic("t")
    newcomer = place.open()
    assert newcomer.topics() == []
    with pytest.raises(OutcomeUnknown, match="somebody else has taken the root"):
        former.create_topic("t")
    with pytest.raises(TopicExists):
        newcomer.create_topic("t")
    assert newcomer.append("t", [Record(b"v")]).offsets() == [0]
    crash(former)
    place.close()
