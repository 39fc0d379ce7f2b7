"""Creates a topic on the first produce to it, if the server may. Knows what a new topic demands of a record."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pyarrow as pa

from delta_log import ProducerStamp, Record
from delta_log.model.errors import TopicExists
from delta_log.model.topic_config import TopicConfig
from delta_log.records.prepare import prepare_arrow, prepare_records
from delta_log.records.validation import Rules
from ingest_api.config.settings import ServerSettings
from ingest_api.web.context import ServerContext


async def make_topic_for(
    tier: ServerContext, topic: str, given: Sequence[Record] | pa.Table, stamp: ProducerStamp | None
) -> None:
    """Create an unknown topic; records that it could not take are refused before."""
    await tier.in_thread(check_for_new_topic, tier.settings, topic, given, stamp)
    try:
        await tier.change_topics(tier.log.create_topic, topic, tier.settings.default_partitions)
    except TopicExists as error:  # another request may create it at the same time
        if error.existing != topic:
            raise


def check_for_new_topic(
    settings: ServerSettings, topic: str, given: Sequence[Record] | pa.Table, stamp: ProducerStamp | None
) -> None:
    config = TopicConfig.of({}, server_defaults=settings.topic_defaults)
    rules = Rules.of(topic, settings.default_partitions, config)
    now_ms = int(time.time() * 1000)
    if isinstance(given, pa.Table):
        prepare_arrow(rules, given, first_null=0, now_ms=now_ms, stamp=stamp)
    else:
        prepare_records(rules, given, first_null=0, now_ms=now_ms, stamp=stamp)
