"""A server and a network for the deciding part of a producer: no socket, no clock, and every misfortune at will.

The server decides by the log's own rules of sequences. The network keeps each request that was sent, to deliver it
whenever it likes, once or never, also long after the client has given it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from delta_log.model.errors import InvalidRequest, OutOfOrderSequence, ProducerEpochTooHigh
from delta_log.model.types import ProducerStamp
from delta_log.records.idempotence import New, ProducerRow, Producers
from lakelog.foundation import errors
from lakelog.foundation.errors import LakelogError, Said
from lakelog.produce.batch import NOWHERE, Place, Stamp
from lakelog.produce.outbox import Attempt
from lakelog.produce.verdict import Ahead, Refused, Skipped, Stored, Verdict

BAD = b"bad "


@dataclass
class ModelServer:
    """Of each topic one partition, whose log is a list of values; an offset is a place in it."""

    producers: Producers = field(default_factory=Producers)
    logs: dict[str, list[bytes]] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    #: What was in a log before its topic was made anew.
    gone: set[bytes] = field(default_factory=set)

    def receive(self, attempt: Attempt) -> Verdict:
        values = [row.value or b"" for row in attempt.payload.rows]
        bad = [place for place, value in enumerate(values) if value.startswith(BAD)]
        if bad:
            # As of topics' rules, the first one alone is named.
            error = errors.InvalidRecord(attempt.topic, "it is bad")
            return Refused(error, {bad[0]: error})
        log = self.logs.setdefault(attempt.topic, [])
        if attempt.stamp is None:
            log += values
            return _stored(len(log) - len(values), values)
        return self._receive_numbered(attempt, attempt.stamp, values, log)

    def _receive_numbered(self, attempt: Attempt, given: Stamp, values: list[bytes], log: list[bytes]) -> Verdict:
        stamp, digest = ProducerStamp(*given), b"\n".join(values)
        topic_id = f"{attempt.topic} {self.lives.get(attempt.topic, 0)}"
        try:
            decided = self.producers.decide(topic_id, stamp, len(values), digest)
        except OutOfOrderSequence as error:
            return Ahead(_refusal(409, 40911, error))
        except ProducerEpochTooHigh as error:
            return Skipped(_refusal(409, 40919, error), error.current)
        except InvalidRequest as error:
            return Refused(_refusal(409, 40913, error), {}, foreign=True)
        if isinstance(decided, New):
            base = len(log)
            log += values
            sender = (stamp.producer_id, attempt.topic, topic_id, stamp.epoch, stamp.sequence)
            self.producers.replay(ProducerRow(*sender, len(values), digest, 1, ((0, base, len(values)),), 0))
            return _stored(base, values)
        if decided.row is None:
            return Stored([NOWHERE] * len(values))
        return _stored(decided.row.ranges[0][1], values)

    def hand_out_before(self, stamp: Stamp) -> None:
        """As a driver asks for it whose epoch was not opened."""
        while not stamp.sequence and self.producers.epoch_of(stamp.producer_id) < stamp.epoch - 1:
            self.producers.replay(self.producers.decide_bump(stamp.producer_id, 0))

    def make_anew(self, topic: str) -> None:
        """The topic was deleted, and made again under its name."""
        self.gone.update(self.logs.pop(topic, []))
        self.lives[topic] = self.lives.get(topic, 0) + 1


def _stored(base: int, values: list[bytes]) -> Stored:
    return Stored([Place(0, base + index) for index in range(len(values))])


def _refusal(status: int, code: int, error: Exception) -> LakelogError:
    return errors.Refused(str(error), said=Said(status, code, str(error)))
