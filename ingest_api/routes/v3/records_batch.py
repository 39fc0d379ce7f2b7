"""Produce by v3 in a batch: entries with ids, and for each its success or failure."""

from __future__ import annotations

from typing import Final

import msgspec

from ingest_api.formats.decode.record_errors import Fault
from ingest_api.formats.decode.strict_json import check_text
from ingest_api.routes.v3.context import BAD_REQUEST, CLUSTER, answers, route, takes
from ingest_api.routes.v3.record_shapes import EntryReceipt, GivenEntry, check_batch_members, check_shallow
from ingest_api.routes.v3.shapes import View
from ingest_api.routes.v3.storing import Storing, explain
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.json_bodies import V3_TYPES, check_content_type
from ingest_api.web.producer_headers import refuse_stamp
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Operation

#: Larger bodies are decoded by a thread, so that the loop is not blocked.
_IN_LOOP: Final = 128 * 1024
_TOGETHER: Final = 1000


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    entries: list[GivenEntry]


class Failure(msgspec.Struct, omit_defaults=True):
    """An entry that is not stored, or of which nobody knows: `outcome` says which."""

    id: str
    error_code: int
    message: str
    retriable: bool | None = None
    outcome: str | None = None


class BatchResult(msgspec.Struct):
    """Each entry is in one of the two, in the order of the request."""

    successes: list[EntryReceipt]
    failures: list[Failure]


_decoder: Final = msgspec.json.Decoder(Batch)


def operations(tier: ServerContext) -> list[Operation]:
    """List the route of this module."""
    storing, cluster = Storing(tier), tier.log.cluster_id

    async def produce(call: Call, _: View) -> Reply:
        refuse_stamp(call.headers, code=BAD_REQUEST)
        check_content_type(call, V3_TYPES)
        topic = call.path["topic"]
        await storing.find(topic)
        body = await call.body()
        most = tier.settings.max_records
        in_loop = len(body) <= _IN_LOOP
        batch = read_batch(body, most) if in_loop else await tier.in_thread(read_batch, body, most)
        result = BatchResult([], [])
        for start in range(0, len(batch.entries), _TOGETHER):
            entries = batch.entries[start : start + _TOGETHER]
            for entry, outcome in zip(entries, await storing.store(topic, entries), strict=True):
                if isinstance(outcome, Exception):
                    result.failures.append(msgspec.convert({"id": entry.id, **explain(outcome)}, Failure))
                    continue
                sent, (partition, offset, time) = outcome
                result.successes.append(
                    EntryReceipt(cluster, topic, partition, offset, time, sent.key, sent.value, id=entry.id)
                )
        return json_reply(result, 207)

    path = CLUSTER + "/topics/{topic}/records:batch"
    result = answers(BatchResult, "What became of each entry.", 207)
    return [route(tier, "POST", path, "produce_batch", "Produce a batch", produce, result, takes(Batch))]


def read_batch(body: bytes, most: int) -> Batch:
    """Decode the entries, each with a unique id. A wrong shape of one entry refuses the batch."""
    try:
        check_text(body)
        check_shallow(body)
        batch = _decoder.decode(body)
        check_batch_members(body)
    except Fault as fault:
        raise Refusal(422, f"the body {fault}") from None
    except msgspec.DecodeError as error:
        raise Refusal(422, f"the body cannot be used: {str(error)[:400]}") from None
    if not 1 <= len(batch.entries) <= most:
        raise Refusal(422, f"a batch has 1 to {most} entries, not {len(batch.entries)}")
    if len({entry.id for entry in batch.entries}) < len(batch.entries):
        raise Refusal(422, "two entries have the same id")
    return batch
