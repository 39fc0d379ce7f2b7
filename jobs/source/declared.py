"""Options of the source, each declared once: name, values, kind of query, and documentation. Pure.

Names, values and precedence are those of Spark's own Kafka source. The documented table is made from this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jobs.source.errors import InvalidOption
from jobs.source.positions import LATEST, AtOffsets, AtTime, Everywhere, parse_numbers, parse_partitions
from jobs.source.values import (
    either,
    parse_boolean,
    parse_delay,
    parse_list,
    parse_pattern,
    parse_text,
    parse_time,
    parse_url,
    parse_whole,
)

BATCH: Final = "batch"
STREAM: Final = "stream"
BOTH: Final = "both"
EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"

Parse = Callable[[str, str], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """An option. `parse` takes its name and text; `default` is the documented default.

    An `idle` one is accepted, so that existing jobs run unchanged, but does nothing: the query warns of it.
    """

    name: str
    takes: str
    parse: Parse
    doc: str
    query: str = BOTH
    default: str | None = None
    idle: bool = False


def _ends(*words: str) -> Parse:
    marks = {"earliest": Everywhere(-2), "latest": Everywhere(LATEST)}

    def parse(option: str, text: str) -> Everywhere | AtOffsets:
        if text.strip().lower() in words:
            return marks[text.strip().lower()]
        if not text.strip().startswith("{"):
            raise InvalidOption(option, f"{text!r} is neither {' nor '.join(words)} nor JSON of offsets")
        return AtOffsets(parse_numbers(option, text, least=-2, what="an offset, -1 or -2"))

    return parse


def _times(option: str, text: str) -> AtTime:
    return AtTime(parse_numbers(option, text, least=0, what="a time in milliseconds"))


def _time(option: str, text: str) -> AtTime:
    return AtTime(parse_time(option, text))


_OFFSETS = '`{"orders": {"0": 23, "1": -2}}`'
_TIMES = '`{"orders": {"0": 1000, "1": 2000}}`'

OPTIONS: Final = (
    Option("path", "a root", parse_text, "Where the tables are; also what `load(…)` is given. They are read directly."),
    Option(
        "server", "a URL", parse_url,
        "A server: what is not in the tables yet comes from it, and without `path` everything does.",
    ),
    Option(
        "kafka.bootstrap.servers", "a URL", parse_url,
        "The same as `server`, for jobs that move here. Brokers of Kafka are refused.",
    ),
    Option("subscribe", "`orders,payments`", parse_list, "Read these topics, all partitions."),
    Option(
        "subscribePattern", "a regular expression", parse_pattern,
        "Read the topics whose whole name matches, those that come later too.",
    ),
    Option("assign", '`{"orders": [0, 1]}`', parse_partitions, "Read these partitions alone."),
    Option(
        "startingOffsets", f"`earliest`, `latest` (streams only) or {_OFFSETS}", _ends("earliest", "latest"),
        "Where a new query begins, in JSON for every partition: -2 is earliest, -1 latest (streams only). A stream "
        "that starts again goes on where it was, and partitions that are new to it begin at earliest.",
        default="`earliest`; of streams `latest`",
    ),
    Option(
        "startingTimestamp", "milliseconds", _time,
        "Begin at the first record at or after this time. Goes before the two below.",
    ),
    Option(
        "startingOffsetsByTimestamp", _TIMES, _times,
        "The same with a time for each partition. Goes before `startingOffsets`.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy", "`error` or `latest`", either("error", "latest"),
        "What happens where no record is that young.", default="`error`",
    ),
    Option(
        "endingOffsets", f"`latest` or {_OFFSETS.replace('-2', '-1')}", _ends("latest"),
        "Where to end, exclusive; -1 is latest.", query=BATCH, default="`latest`",
    ),
    Option(
        "endingTimestamp", "milliseconds", _time,
        "End before the first record at or after this time, or at latest. Goes before the two others.", query=BATCH,
    ),
    Option(
        "endingOffsetsByTimestamp", _TIMES, _times,
        "The same with a time for each partition. Goes before `endingOffsets`.", query=BATCH,
    ),
    Option(
        "failOnDataLoss", "`true` or `false`", parse_boolean,
        "Whether to fail when records that were to be read are gone. Otherwise a warning says so, and the query goes "
        "on at the first record that is there.", default="`true`",
    ),
    Option(
        "includeHeaders", "`true` or `false`", parse_boolean, "Whether there is a column `headers`.",
        default="`false`",
    ),
    Option(
        "minPartitions", "1 or more", parse_whole(1),
        "Have about so many tasks at least: large partitions are read in pieces. Otherwise a partition is a task.",
    ),
    Option(
        "maxRecordsPerPartition", "1 or more", parse_whole(1), "Have no task read more offsets than so many.",
    ),
    Option(
        "maxOffsetsPerTrigger", "1 or more", parse_whole(1),
        "Read at most so many offsets in a batch of a stream, shared out by how much each partition has.", query=STREAM,
    ),
    Option(
        "minOffsetsPerTrigger", "1 or more", parse_whole(1),
        "Wait for so many offsets, but no longer than `maxTriggerDelay`; with the trigger `availableNow` it does "
        "nothing.", query=STREAM,
    ),
    Option(
        "maxTriggerDelay", "`15m`, `30s`, `500ms`", parse_delay, "How long to wait for them.", query=STREAM,
        default="`15m`",
    ),
    Option(
        "group.id", "a name", parse_text,
        "The consumer group on whose behalf the query reads. It changes nothing of what is read, and the source "
        "commits nothing for it: the checkpoint says how far a stream is.",
    ),
    Option("kafka.group.id", "a name", parse_text, "The same as `group.id`, for jobs that move here."),
    Option("groupIdPrefix", "a name", parse_text, "Does nothing: a query is no member of a group.", idle=True),
    Option(
        "kafkaConsumer.pollTimeoutMs", "1 or more", parse_whole(1),
        "How long a server may not answer, or refuse for the time being, before the query fails.", default="`120000`",
    ),
    Option(
        "fetchOffset.numRetries", "0 or more", parse_whole(0), "Does nothing: the time above holds for all.", idle=True,
    ),
    Option(
        "fetchOffset.retryIntervalMs", "0 or more", parse_whole(0), "Does nothing, likewise.", idle=True,
    ),
)  # fmt: skip

SINK_OPTIONS: Final = (
    Option("server", "a URL", parse_url, "The server that stores the rows."),
    Option(
        "kafka.bootstrap.servers", "a URL", parse_url,
        "The same as `server`, for jobs that move here. Brokers of Kafka are refused.",
    ),
    Option(
        "topic", "a name", parse_text, "Where all rows go; otherwise each row's column `topic` says it.",
    ),
    Option(
        "deliveryGuarantee", f"`{EXACTLY_ONCE}` or `{AT_LEAST_ONCE}`", either(EXACTLY_ONCE, AT_LEAST_ONCE),
        "How often a row is stored that Spark writes again.",
        default=f"of streams, and with the two below, `{EXACTLY_ONCE}`; else `{AT_LEAST_ONCE}`",
    ),
    Option(
        "txnAppId", "a name", parse_text,
        "The sink that has seen batches up to a number: a batch with a number that is not above it is left out. One "
        "name for each query.", default="of streams one that is the checkpoint's",
    ),
    Option(
        "txnVersion", "0 or more", parse_whole(0),
        "The number of the batch; with `foreachBatch` its second argument. A stream knows its own.", query=BATCH,
    ),
    Option(
        "transaction", "an id", parse_text,
        "A transaction that is open: the write commits it, with the rows and all else that was added to it.",
        query=BATCH,
    ),
    Option(
        "includeHeaders", "`true` or `false`", parse_boolean,
        "Does nothing: a column `headers` is stored where there is one.", idle=True,
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs", "1 or more", parse_whole(1),
        "How long the server may not answer, or refuse for the time being, before the query fails.",
        default="`120000`",
    ),
    Option(
        "checkpointLocation", "a directory", parse_text, "Spark's own: how far a stream is.", query=STREAM,
    ),
    Option("queryName", "a name", parse_text, "Spark's own.", query=STREAM),
)  # fmt: skip
