"""Every hostile body is refused with the status it should have, in little time, and never in any other way."""

from __future__ import annotations

import time
from urllib.parse import parse_qs

import pytest

from ingest_api.formats.decode import decode_arrow, decode_envelope, decode_lines, decode_octets
from ingest_api.web.errors import Refusal, answer_error
from tests.support.hostile_bodies import ARROW, BINARY, CASES, JSON, MOST_BYTES, MOST_RECORDS, NDJSON, Hostile


def decode(case: Hostile) -> object:
    if case.content_type in (BINARY, JSON):
        embedded = "binary" if case.content_type == BINARY else "json"
        return decode_envelope(case.body, embedded=embedded, most_records=MOST_RECORDS)
    if case.content_type == NDJSON:
        query = {name: values[0] for name, values in parse_qs(case.query).items()}
        envelope = query.get("envelope") == "true"
        return decode_lines(case.body, key_pointer=query.get("key"), envelope=envelope, most_records=MOST_RECORDS)
    if case.content_type == ARROW:
        return decode_arrow(case.body, most_records=MOST_RECORDS, most_bytes=MOST_BYTES)
    return decode_octets(case.body, [(name.lower().encode(), value.encode()) for name, value in case.headers])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_body_is_refused(case: Hostile):
    started = time.process_time()
    with pytest.raises(Refusal) as refused:
        decode(case)
    assert refused.value.status == case.status
    assert time.process_time() - started < 5
    assert len(answer_error(refused.value).body) < 2_000


def test_no_two_cases_have_one_name():
    assert len({case.name for case in CASES}) == len(CASES)
