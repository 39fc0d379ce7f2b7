"""Main loop of a group member that reads with Spark: share by share, batch by batch.

    a share of the partitions  →  a query over it, from the committed offsets  →  batches, each of them committed

The group is the checkpoint: the next query begins at the committed offsets, here or at another member. It knows the
order of these steps; `group_member` handles shares, `start_offsets` positions, `batches` batches, `pipeline` frames.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING, Final

from consumer_groups.model.dead_letter import dead_letter_topic
from delta_log.model.errors import InvalidRequest, NotAvailable
from jobs.consume.batch_transactions import Transactions
from jobs.consume.batches import AT_MOST_ONCE, EXACTLY_ONCE, Batches, Reading
from jobs.consume.bisect_batch import Rescue
from jobs.consume.dead_letter_commit import Letters
from jobs.consume.outputs import Output, into_table, to_stdout, to_topic
from jobs.consume.partial_batch import PartReader
from jobs.consume.pipeline import Pipeline
from jobs.consume.user_functions import UserFunction
from jobs.foundation.result import one_sentence
from jobs.foundation.tolerant_output import write_if_room
from jobs.groups.group_client import Fenced, Groups
from jobs.groups.group_member import Member, Share
from jobs.groups.start_offsets import Start, count_offsets, find_ends, owed, plan_starts, show_starts
from jobs.runner.stream_job import StreamRun
from jobs.source.errors import UnknownTopics
from jobs.source.positions import Range, TopicPartition, to_json
from jobs.source.server import Server
from jobs.source.values import parse_pattern
from jobs.spark.stream_query import read_offsets, read_query_id, run_query, temporary_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["consume"]

_PATIENCE_MS: Final = 120_000
_PAUSE_S: Final = 0.2
#: Limit of a batch with exactly-once: a transaction holds all its output, and a server bounds its size.
_OFFSETS_AT_ONCE: Final = "100000"

Starts = dict[TopicPartition, Start]


def consume(
    run: StreamRun, function: UserFunction | None, transactions: Callable[[Groups, str], Transactions] = Transactions
) -> None:
    """Run until stopped, or with `--available-now` until everything present at the start is read."""
    with closing(Groups(run.url)) as groups, closing(Server(run.url, _PATIENCE_MS)) as server:
        consuming = _Consuming(run, groups, server, function, transactions(groups, run.options.group))
        consuming.check()
        if run.dry_run:
            consuming.show()
        else:
            consuming.run()


class _Consuming:
    def __init__(
        self, run: StreamRun, groups: Groups, server: Server, function: UserFunction | None, once: Transactions
    ) -> None:
        self._run = run
        self._options = run.options
        self._groups = groups
        self._server = server
        self._function = function
        self._once = once
        keeps = bool(run.options.checkpoint)
        self._pipeline = Pipeline(self._source(), function, self._output(), run.options.to, keeps=keeps)
        group = run.options.group
        self._letters = Letters(groups, server, to=dead_letter_topic(group, run.options.dead_letters), group=group)

    def check(self) -> None:
        """Refuse unknown topics before the group is joined."""
        options, there = self._options, self._server.topics()
        for name in [*(options.topic or ()), *([options.to] if options.to else ())]:
            if name not in there:
                raise UnknownTopics([name], self._server.url)

    def show(self) -> None:
        """Show what a member with all partitions would read, without joining the group."""
        run, options = self._run, self._options
        members = [f"member {other.name} reads, too" for other in self._groups.readers(options.group)]
        starts = self._plan(self._partitions())
        run.say([f"group {options.group}", *members, *show_starts(starts), " ".join(self._way())])
        before = {each: start.offset for each, start in starts.items()}
        for topic, offsets in count_offsets(before, {each: start.end for each, start in starts.items()}).items():
            run.add(topic, {"batches": 0, "offsets": offsets, "uncommitted": 0, "dead_letters": 0})

    def run(self) -> None:
        options = self._options
        by_name = {"subscribe": ",".join(options.topic)} if options.topic else {"subscribePattern": ".*"}
        self._pipeline.check(self._run.spark, by_name)
        chosen = {"topics": options.topic} if options.topic else {"topic_pattern": options.pattern or ".*"}
        session_ms, reset = options.session_timeout, options.auto_offset_reset
        self._wait_until_alone()
        if self._run.stopping.is_set():
            # Joining now would make other members wait for partitions that this one does not want.
            return
        to = options.dead_letters
        with Member(self._groups, options.group, chosen, session_ms=session_ms, reset=reset, letters=to) as member:
            while (share := member.take(lambda: self._may_end(member))) is not None:
                try:
                    is_done = self._read(member, share) and not member.has_moved(share)
                finally:
                    member.let_go()
                if is_done or self._run.stopping.is_set():
                    return

    def _may_end(self, member: Member) -> bool:
        """Return whether the run may end without a share, as none is to be expected."""
        if self._run.stopping.is_set():
            return True
        if not member.is_idle():
            return False
        self._run.progress.show(f"consume: group {self._options.group} has no partition for this member")
        return self._options.available_now and not self._groups.is_moving(self._options.group)

    def _read(self, member: Member, share: Share) -> bool:
        """Return whether the query came to its end, rather than being stopped with the share or the run."""
        try:
            starts = self._plan(share.partitions)
            member.commit(share, owed(starts, self._options.auto_offset_reset))
            self._run.probe("consume.placed")
            if others := self._others(share.name):
                raise _not_alone(others)
            if not starts:
                time.sleep(_PAUSE_S)
                return False
            with self._checkpoint() as checkpoint:
                return self._query(member, share, starts, checkpoint)
        except Fenced:
            return False

    def _query(self, member: Member, share: Share, starts: Starts, checkpoint: str) -> bool:
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - needs Spark

        run, delivery = self._run, self._options.delivery
        positions = {each: start.offset for each, start in starts.items()}
        reading, pipeline, letters = Reading(share, positions), self._pipeline, self._letters

        def stop() -> bool:
            return run.stopping.is_set() or member.has_moved(share)

        rescue = self._rescue(stop)
        batches = Batches(member, self._once, reading, pipeline, letters, self._tell, run.probe)
        if rescue is not None:
            batches.rescued_by(rescue, PartReader(self._server, self._source()))
        assigned = {topic: [int(each) for each in of] for topic, of in to_json(positions).items()}
        chosen = {"assign": json.dumps(assigned), "startingOffsets": json.dumps(to_json(positions))}
        writer = run.triggered(self._pipeline.frame(run.spark, chosen)).option("checkpointLocation", checkpoint)
        writer = writer.outputMode("update" if self._options.checkpoint else "append")

        is_version = delivery == EXACTLY_ONCE and self._options.checkpoint

        def work(batch: DataFrame, batch_id: int) -> None:
            query = read_query_id(run.spark, checkpoint) if is_version else None
            ends = find_ends(read_offsets(run.spark, checkpoint, batch_id), positions.keys())
            batches.work(batch, batch_id, ends, delivery, query)

        try:
            is_done = run_query(writer, work, stop=stop)
        except AnalysisException as error:
            hint = "" if self._options.checkpoint else "; what a function is to remember needs --checkpoint"
            raise InvalidRequest(f"Spark refuses the query: {one_sentence(error)}{hint}") from error
        if is_done and rescue is not None:
            rescue.check_done()
        return is_done

    def _rescue(self, leave: Callable[[], bool]) -> Rescue | None:
        """Return the bisection; None for at-most-once: a batch committed before its output must not be done again."""
        most = self._options.max_delivery_attempts
        if most is None or self._options.delivery == AT_MOST_ONCE:
            return None
        return Rescue(most, leave=leave, wipe=self._run.progress.wipe, probe=self._run.probe)

    def _others(self, name: str = "") -> list[str]:
        """Other members, if there is a checkpoint: it covers all partitions, so that no other member may read."""
        if not self._options.checkpoint:
            return []
        return [other.name for other in self._groups.readers(self._options.group) if other.name != name]

    def _wait_until_alone(self) -> None:
        """Wait for other members to leave: a killed one stays in the group until its session expires."""
        by = time.monotonic() + 2 * self._options.session_timeout / 1000
        while (others := self._others()) and not self._run.stopping.is_set():
            if time.monotonic() > by:
                raise _not_alone(others)
            self._run.progress.show(f"consume: waiting for {others[0]} to leave the group")
            time.sleep(_PAUSE_S)

    def _plan(self, partitions: Iterable[TopicPartition]) -> Starts:
        """Plan the starts of partitions that still exist."""
        ranges: dict[TopicPartition, Range] = {}
        for each in partitions:
            try:
                ranges[each] = self._server.range(each.topic, each.partition)
            except UnknownTopics:
                continue
        return plan_starts(ranges, self._groups.committed(self._options.group), self._options.auto_offset_reset)

    def _partitions(self) -> Iterator[TopicPartition]:
        options = self._options
        topics: list[str] = options.topic or self._server.topics()
        if options.pattern:
            pattern = parse_pattern("--pattern", options.pattern)
            topics = [name for name in topics if pattern.fullmatch(name)]
        for name in dict.fromkeys(topics):
            yield from (TopicPartition(name, each) for each in range(self._server.describe(name).partitions))

    def _checkpoint(self) -> AbstractContextManager[str]:
        kept: str | None = self._options.checkpoint
        return nullcontext(kept) if kept else temporary_checkpoint()

    def _source(self) -> dict[str, str]:
        """Options of the source. Data loss fails only with the policy `none`: otherwise the reset policy handles it."""
        lossy = self._options.auto_offset_reset != "none"
        own = {"includeHeaders": "true", "failOnDataLoss": str(not lossy).lower(), "group.id": self._options.group}
        most = {"maxOffsetsPerTrigger": _OFFSETS_AT_ONCE} if self._options.delivery == EXACTLY_ONCE else {}
        return {**self._run.place, **most, **self._run.limits(), **own}

    def _output(self) -> Output:
        options = self._options
        if options.to:
            return to_topic(options.to, self._run.url)
        return into_table(options.table) if options.table else to_stdout(self._run.say)

    def _way(self) -> Iterator[str]:
        options = self._options
        yield options.delivery
        if self._function is not None:
            yield f"through {self._function.name}"
        if options.to or options.table:
            yield f"to {'topic ' + options.to if options.to else 'table ' + options.table}"
        elif self._function is None or not self._function.per_batch:
            yield "to stdout"

    def _tell(self, offsets: dict[str, int], uncommitted: list[TopicPartition], letters: dict[str, int]) -> None:
        for topic in {*offsets, *(each.topic for each in uncommitted)}:
            few = sum(each.topic == topic for each in uncommitted)
            counts = {"batches": 1, "offsets": offsets.get(topic, 0), "uncommitted": few}
            self._run.add(topic, counts | {"dead_letters": letters.get(topic, 0)})
        if uncommitted:
            named = ", ".join(map(str, uncommitted))
            self._run.progress.wipe()
            write_if_room(
                sys.stderr, f"consume: {named}: no longer this member's, and who has it reads the last batch again\n"
            )
        done = sum(each["offsets"] for each in self._run.summary.topics.values())
        self._run.progress.show(f"consume: group {self._options.group}, {done} offsets")


def _not_alone(others: list[str]) -> NotAvailable:
    return NotAvailable(f"with --checkpoint the job reads all partitions, and {others[0]} is in the group, too")
