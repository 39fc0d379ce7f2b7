"""Giving up records of an instance: they become dead letters, and the group skips them."""

from __future__ import annotations

from consumer_groups.coordinator.dead_letter_writer import GivenUp
from consumer_groups.decisions.dead_lettering import GiveUp, Spot
from ingest_api.routes.groups.instance import InTime, of_instance, who_asks
from ingest_api.routes.groups.instance_shapes import (
    BODY_TYPES,
    DeadLettersRequest,
    DeadLettersView,
    DeadLetterView,
    LetterPlace,
    takes,
)
from ingest_api.routes.groups.instances import told
from ingest_api.routes.topics.shapes import answers
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.json_bodies import read_json
from ingest_api.web.negotiation import plain_media_type
from ingest_api.web.request import Call, Reply
from ingest_api.web.route_spec import Operation


class DeadLetters:
    """The route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._in_time = InTime(tier)

    async def __call__(self, call: Call) -> Reply:
        who = who_asks(self._tier, call)
        call.query(())
        media = plain_media_type(call.list_header(b"accept"))
        reasons: dict[Spot, str] = {}
        for each in (await read_json(call, DeadLettersRequest, types=BODY_TYPES)).records:
            spot = Spot(each.named, each.offset)
            if spot in reasons:
                raise Refusal(422, f"{each.topic}-{each.partition} at {each.offset} is given twice")
            reasons[spot] = each.reason
        command = GiveUp(who.member_id, reasons, who.generation)
        answer = await self._in_time(self._tier.groups.give_up(who.group, command))
        return told(DeadLettersView(list(map(_show, answer.reply))), answer.generation, media)

    def operations(self) -> list[Operation]:
        declared = Operation(
            "POST", "/dead-letters", "give_up", "Make records dead letters", self, "consumers",
            (answers(DeadLettersView, "They are stored, and no delivery has them any more."),),
            body=takes(DeadLettersRequest),
            doc="Copies the records to the group's dead-letter topic and passes them, all of them at once or none. The"
            " committed offset moves behind what is next in line; another is marked, and no member is given it. What"
            " was given up before is not copied again.",
        )  # fmt: skip
        return [of_instance(declared)]


def _show(given_up: GivenUp) -> DeadLetterView:
    letter = None if given_up.letter is None else LetterPlace(*given_up.letter.partition, given_up.letter.offset)
    return DeadLetterView(*given_up.spot.partition, given_up.spot.offset, letter)
