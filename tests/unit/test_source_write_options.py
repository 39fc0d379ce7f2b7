"""The options of a query that writes: what is stored once, under which name, and what contradicts itself."""

import pytest

from jobs.source.declared import BATCH, STREAM
from jobs.source.errors import InvalidOption
from jobs.source.options import parse_write_options

SERVER = {"server": "http://127.0.0.1:8082", "topic": "t"}
NAMED = {"txnAppId": "sink", "txnVersion": "7"}


@pytest.mark.parametrize(
    ("query", "given", "expected"),
    [
        (STREAM, {}, (True, None, None)),
        (STREAM, {"txnappid": "sink"}, (True, "sink", None)),
        (STREAM, {"deliveryGuarantee": "exactly-once"}, (True, None, None)),
        (STREAM, {"deliveryGuarantee": "At-Least-Once"}, (False, None, None)),
        (BATCH, {}, (False, None, None)),
        (BATCH, NAMED, (True, "sink", 7)),
        (BATCH, NAMED | {"deliveryGuarantee": "exactly-once"}, (True, "sink", 7)),
        (BATCH, {"deliveryGuarantee": "at-least-once"}, (False, None, None)),
        (BATCH, {"transaction": "an id", "deliveryGuarantee": "exactly-once"}, (True, None, None)),
    ],
)
def test_a_stream_is_stored_once_and_a_batch_that_has_a_name_and_a_number(
    query: str, given: dict[str, str], expected: tuple[object, ...]
):
    options = parse_write_options(SERVER | given, query)
    assert (options.once, options.sink, options.version) == expected


@pytest.mark.parametrize(
    ("query", "given", "named"),
    [
        (STREAM, NAMED, "txnVersion"),
        (STREAM, {"txnAppId": "sink", "deliveryGuarantee": "at-least-once"}, "deliveryGuarantee"),
        (STREAM, {"deliveryGuarantee": "twice"}, "deliveryGuarantee"),
        (BATCH, {"txnAppId": "sink"}, "txnAppId"),
        (BATCH, {"txnVersion": "1"}, "txnVersion"),
        (BATCH, NAMED | {"txnVersion": "-1"}, "txnVersion"),
        (BATCH, NAMED | {"deliveryGuarantee": "at-least-once"}, "deliveryGuarantee"),
        (BATCH, {"deliveryGuarantee": "exactly-once"}, "deliveryGuarantee"),
        (BATCH, NAMED | {"transaction": "an id"}, "txnAppId"),
        (BATCH, {"transaction": "an id", "deliveryGuarantee": "at-least-once"}, "deliveryGuarantee"),
        (STREAM, {"transaction": "an id"}, "transaction"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(query: str, given: dict[str, str], named: str):
    with pytest.raises(InvalidOption) as refused:
        parse_write_options(SERVER | given, query)
    assert refused.value.option == named
