"""Which format `Accept` asks for and `Content-Type` means."""

import time

import pytest

from ingest_api.web.errors import Refusal
from ingest_api.web.negotiation import FORMATS, Format, plain_media_type, produce_format, read_format

OFFERED = (Format.BINARY, Format.JSON, Format.NDJSON, Format.ARROW, Format.EVENTS)
ACCEPTED = (Format.BINARY, Format.JSON, Format.NDJSON, Format.OCTETS, Format.ARROW)


def asked(accept, offered=OFFERED, default=Format.NDJSON):
    return read_format(accept, offered, default)


@pytest.mark.parametrize(
    "accept", [None, b"", b"*/*", b"*", b"application/*", b"text/html, */*;q=0.8", b"*; q=.2, */*; q=.2"]
)
def test_where_the_client_leaves_the_choice_the_default_is_taken(accept):
    assert asked(accept) is Format.NDJSON
    assert asked(accept, default=Format.BINARY) is Format.BINARY


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (b"application/vnd.kafka.binary.v2+json", Format.BINARY),
        (b"application/vnd.kafka.json.v2+json", Format.JSON),
        (b"application/json", Format.JSON),
        (b"Application/JSON; charset=UTF-8", Format.JSON),
        (b"application/vnd.kafka.v2+json", Format.BINARY),
        (b"application/vnd.kafka.json.v1+json", Format.JSON),
        (b"application/vnd.apache.arrow.stream", Format.ARROW),
        (b"text/event-stream", Format.EVENTS),
        (b"text/*", Format.EVENTS),
        (b"application/json, text/plain, */*", Format.JSON),
        (b"*/*, application/vnd.apache.arrow.stream", Format.ARROW),
        (b"application/json;q=0.5, application/x-ndjson;q=0.4", Format.JSON),
        (b"application/json;q=0.4, application/x-ndjson;q=0.5", Format.NDJSON),
        (b"application/json, application/x-ndjson", Format.JSON),
        (b"application/x-ndjson, application/json", Format.NDJSON),
        (b"application/x-ndjson;q=0, application/*;q=0.1, text/*", Format.EVENTS),
        (b"application/avro, application/json", Format.JSON),
        (b"rubbish, ;;, a/b/c, application/json;q=x, text/event-stream", Format.EVENTS),
        (b'application/json;note="a b";q=0.9, text/event-stream;q=0.8', Format.JSON),
    ],
)
def test_the_best_of_what_the_client_names_is_taken(accept, media):
    assert asked(accept) is media


def test_what_is_excluded_by_name_is_not_taken_for_a_wildcard():
    assert asked(b"application/x-ndjson;q=0, */*") is not Format.NDJSON


@pytest.mark.parametrize(
    "accept", [b"text/html", b"application/avro", b"*/*;q=0", b"rubbish", b"application/json;q=0", b"\xff"]
)
def test_where_nothing_offered_is_allowed_the_refusal_names_what_is_offered(accept):
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            asked(accept)
        assert refused.value.status == 406
        for media in (*OFFERED, "application/json"):
            assert media in refused.value.message


def test_only_what_the_route_offers_is_chosen():
    assert asked(b"*/*", (Format.NDJSON, Format.EVENTS)) is Format.NDJSON
    with pytest.raises(Refusal):
        asked(b"application/json", (Format.NDJSON, Format.EVENTS))


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (None, b"application/vnd.kafka.v2+json"),
        (b"*/*", b"application/vnd.kafka.v2+json"),
        (b"application/vnd.kafka.v2+json", b"application/vnd.kafka.v2+json"),
        (b"application/json", b"application/json"),
        (b"application/vnd.kafka+json", b"application/vnd.kafka+json"),
        (b"application/json, */*;q=0.1", b"application/json"),
        (b"application/vnd.kafka.json.v2+json", b"application/vnd.kafka.v2+json"),
        (b"application/vnd.kafka.v1+json", b"application/vnd.kafka.v2+json"),
    ],
)
def test_an_answer_without_records_is_called_as_was_asked(accept, media):
    assert plain_media_type(accept) == media


def test_an_answer_without_records_is_json_or_refused():
    with pytest.raises(Refusal) as refused:
        plain_media_type(b"text/html")
    assert refused.value.status == 406
    assert refused.value.message.endswith("application/vnd.kafka.v2+json, application/json, application/vnd.kafka+json")


@pytest.mark.parametrize(
    ("content_type", "media"),
    [
        (None, Format.JSON),
        *((name.encode(), media) for name, media in FORMATS.items() if media is not Format.EVENTS),
        (b"application/json; charset=utf-8", Format.JSON),
        (b'application/json;charset="UTF-8"', Format.JSON),
        (b"APPLICATION/X-NDJSON ; Charset=utf8;", Format.NDJSON),
        (b"application/json; profile=x", Format.JSON),
    ],
)
def test_a_content_type_means_a_format(content_type, media):
    assert produce_format(content_type, ACCEPTED) is media


@pytest.mark.parametrize(
    "content_type",
    [
        b"",
        b"application",
        b"application/xml",
        b"text/event-stream",
        b"application/x-www-form-urlencoded",
        b"application/json, application/x-ndjson",
        b"application/json x",
        b"*/*",
        b"application/*",
        b"application/vnd.kafka.avro.v2+json",
        b"application/vnd.kafka.jsonschema.v2+json",
        b"application/vnd.kafka.protobuf.v2+json",
        b"application/vnd.kafka.json.v3+json",
        b"\xff/\x00",
    ],
)
def test_any_other_content_type_is_refused_by_naming_what_is_accepted(content_type):
    with pytest.raises(Refusal) as refused:
        produce_format(content_type, ACCEPTED)
    assert refused.value.status == 415
    for media in (*ACCEPTED, "application/json"):
        assert media in refused.value.message


@pytest.mark.parametrize("charset", [b"utf-16", b"iso-8859-1", b'"us-ascii"', b'""'])
def test_another_charset_than_utf_8_is_refused(charset):
    with pytest.raises(Refusal, match="utf-8") as refused:
        produce_format(b"application/json; charset=" + charset, ACCEPTED)
    assert refused.value.status == 415


@pytest.mark.parametrize(
    "piece", [b'"', b'\\"', b'";="', b"a/b,", b"a/b;q=", b" ", b";", b"*/*;", b",", b"application/*;q=0.1,", b"a", b"/"]
)
def test_a_header_of_32_kib_takes_no_time(piece):
    header = (piece * 32_768)[:32_768]
    began = time.process_time()
    for ask in (lambda: asked(header), lambda: plain_media_type(header), lambda: produce_format(header, ACCEPTED)):
        try:
            ask()
        except Refusal as refusal:
            assert len(refusal.message) < 1_000  # noqa: PT017 - it may be refused or not
    assert time.process_time() - began < 2
