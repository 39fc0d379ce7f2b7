"""Commits, one at a time and in order, so that an older one never overwrites a newer one. Pure.

A retry stores what the first attempt stored. A commit names the generation in which its partitions were assigned: if
another member has owned one since, the server refuses it.
"""

from __future__ import annotations

from collections.abc import Generator

from lakelog.consume.consumer_state import ConsumerState, PendingCommit
from lakelog.consume.effects import NOW, Doing, Pace, Wait, code_of, fault_in
from lakelog.consume.instance_api import Wire
from lakelog.consume.membership import STALE, UNKNOWN_INSTANCE
from lakelog.foundation.errors import CommitFailed, LakelogError, NotAvailable, OutcomeUnknown
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition
from lakelog.transport.exchange import Request
from lakelog.transport.retry import Heard
from lakelog.transport.server_errors import Fault

_WHAT = "committing offsets"


class Committing:
    def __init__(self, known: ConsumerState, wire: Wire) -> None:
        self._known = known
        self._wire = wire
        self._pace = Pace(known.settings.backoff)

    def run(self) -> Doing[None]:
        """Run until the consumer ends."""
        known = self._known
        now = (yield NOW).now
        while not known.ended or known.commits:
            if not known.commits:
                now = (yield Wait()).now
                continue
            first = known.commits[0]
            reason = self._over(first, now)
            if not first.parts or reason is not None:
                self._decide(first, reason if first.parts else first.refused)
            elif now < self._pace.not_before or known.member is None or known.told is None:
                paced = self._pace.not_before if now < self._pace.not_before else first.until
                now = (yield Wait(min(paced, first.until))).now
            else:
                now = yield from self._attempt(first)

    def _over(self, first: PendingCommit, now: float) -> LakelogError | None:
        """Reason to give up a commit; None to go on."""
        known = self._known
        if first.member is not None and first.member != known.member and known.subscribed:
            return first.error or CommitFailed("the group went on without this consumer, which is another member now")
        if known.fatal is not None:
            return known.fatal
        if known.ended or known.wanted is None:
            return first.error or NotAvailable("the consumer left the group before the commit was sent")
        if now >= first.until:
            return first.error or NotAvailable("the consumer was no member of its group in time to commit")
        return None

    def _attempt(self, first: PendingCommit) -> Generator[Request, Heard, float]:
        known = self._known
        since, offsets = first.parts[0]
        member = known.member
        first.member = first.member or member
        heard = yield self._wire.commit(member or "", offsets, since)
        fault = fault_in(heard, _WHAT, known.settings.bootstrap_servers)
        if fault is None:
            self._pace.succeeded()
            known.heard_at = heard.now
            first.parts.popleft()
            self._stored(since, offsets)
        elif fault.again:
            if fault.unknown:
                first.doubted = True
                known.commits_doubted_until = heard.now + known.settings.request_timeout_ms / 1000
            first.error = OutcomeUnknown(_WHAT, fault.error, said=fault.error.said) if first.doubted else fault.error
            self._pace.failed(heard, fault.retry_after_s)
        elif first.auto and len(offsets) > 1 and code_of(fault) != UNKNOWN_INSTANCE:  # retry one by one
            first.parts.popleft()
            first.parts.extendleft((since, {partition: offset}) for partition, offset in offsets.items())
        else:
            if code_of(fault) == UNKNOWN_INSTANCE:
                known.expelled(member, heard.now)
            self._refused(first, self._refusal(fault, since, offsets))
        return heard.now

    def _refused(self, first: PendingCommit, error: LakelogError) -> None:
        if first.auto and len(first.parts) > 1:
            first.parts.popleft()
            first.refused = error
        else:
            self._decide(first, error)

    def _stored(self, since: int | None, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        for partition, (offset, _) in offsets.items():
            held = self._known.held.get(partition)
            if held is not None and held.since == since:
                held.committed = offset

    def _refusal(
        self, fault: Fault, since: int | None, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> LakelogError:
        known = self._known
        if code_of(fault) == UNKNOWN_INSTANCE:
            return known.fatal or CommitFailed("the group does not know this consumer any more", said=fault.error.said)
        if code_of(fault) == STALE:
            named = (fault.facts.get("topic"), fault.facts.get("partition"))
            gone = [
                held
                for partition, held in known.held.items()
                if held.since == since and (partition == named or (named[0] is None and partition in offsets))
            ]
            known.lose(gone)
            return CommitFailed(str(fault.error), said=fault.error.said)
        return fault.error

    def _decide(self, first: PendingCommit, error: LakelogError | None) -> None:
        known = self._known
        known.commits.popleft()
        first.error, first.decided = error, True
        if first.callback is not None:
            known.decided.append(first)
        elif error is not None and not first.awaited:
            known.warnings.append(f"a commit failed, so these records may be read again: {error}")
        known.give_up(first.giving)
        known.touch()
