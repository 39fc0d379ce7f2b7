"""Settings are Kafka's by name, read strictly, and refused with a hint where they cannot be meant."""

from __future__ import annotations

import zlib
from dataclasses import fields

import pytest

from lakelog.foundation.errors import InvalidSetting
from lakelog.produce.compression import compressor_of
from lakelog.produce.settings import PRODUCER_SETTINGS, ProducerSettings
from lakelog.topics.settings import ADMIN_SETTINGS, AdminSettings

SERVER = {"bootstrap.servers": "http://localhost:8082"}


def refused(**given: object) -> str:
    with pytest.raises(InvalidSetting) as caught:
        ProducerSettings.of(SERVER | {name.replace("_", "."): value for name, value in given.items()})
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("http://localhost:8082", "http://localhost:8082"),
        ("https://log.example/prefix/", "https://log.example/prefix"),
        ("localhost:8082", "http://localhost:8082"),
        (" 127.0.0.1:8082 ", "http://127.0.0.1:8082"),
        ("http://[::1]:8082", "http://[::1]:8082"),
    ],
)
def test_the_server_is_a_url_or_a_host_and_a_port(given: str, address: str):
    assert ProducerSettings.of({"bootstrap.servers": given}).bootstrap_servers == address


@pytest.mark.parametrize(
    "given", ["", "a:1,b:2", "ftp://a", "http://", "http://a:port", "http://a:99999", "http://a?b", "http://a b", 8082]
)
def test_what_is_no_address_is_refused(given: object):
    assert "one URL" in refused(bootstrap_servers=given)


def test_the_server_must_be_named():
    with pytest.raises(InvalidSetting, match=r"bootstrap\.servers: it must be given"):
        ProducerSettings.of({})


def test_defaults_are_those_of_the_declaration():
    settings = ProducerSettings.of(SERVER)
    for declared in PRODUCER_SETTINGS[1:]:
        assert getattr(settings, declared.name.replace(".", "_")) == declared.default


def test_every_declared_setting_has_a_field_and_every_field_a_declaration():
    for cls, declared in ((ProducerSettings, PRODUCER_SETTINGS), (AdminSettings, ADMIN_SETTINGS)):
        assert {field.name for field in fields(cls)} == {setting.name.replace(".", "_") for setting in declared}


def test_numbers_and_flags_may_be_text_as_in_a_file_of_properties():
    settings = ProducerSettings.of(SERVER | {"linger.ms": "5", "enable.idempotence": "false", "acks": -1})
    assert (settings.linger_ms, settings.enable_idempotence, settings.acks) == (5, False, "-1")


@pytest.mark.parametrize("given", [-1, 1.5, True, "1e3", "", " 5", None])
def test_a_number_that_is_none_is_refused(given: object):
    assert "a whole number, 0 or more" in refused(linger_ms=given)


@pytest.mark.parametrize("given", [1, "yes", None, "True"])
def test_a_flag_that_is_none_is_refused(given: object):
    assert "true or false" in refused(enable_idempotence=given)


def test_an_unknown_setting_is_refused_with_the_one_that_is_meant():
    assert "is linger.ms meant?" in refused(lingerms=5)
    with pytest.raises(InvalidSetting, match=r"is linger\.ms meant"):
        ProducerSettings.of(SERVER | {"linger_ms": 5})
    assert refused(nonsense=5).endswith("there is no such setting")


def test_passwords_are_not_there_yet():
    assert "no authentication yet" in refused(security_protocol="SASL_SSL")


def test_more_than_five_requests_under_way_need_idempotence_off():
    assert "at most 5" in refused(max_in_flight_requests_per_connection=6)
    given = {"max.in.flight.requests.per.connection": 6, "enable.idempotence": False}
    assert ProducerSettings.of(SERVER | given).max_in_flight_requests_per_connection == 6


def test_acks_0_turns_idempotence_off_and_contradicts_it_where_it_was_asked_for():
    assert not ProducerSettings.of(SERVER | {"acks": 0}).enable_idempotence
    assert "acks=0" in refused(acks="0", enable_idempotence=True)


@pytest.mark.parametrize("given", ["", "two\nlines", "ä", "x" * 256, 5, " x"])
def test_a_client_id_that_cannot_stand_in_a_header_is_refused(given: object):
    assert "printable ASCII" in refused(client_id=given)


def test_serializers_and_partitioners_are_words_or_callables():
    settings = ProducerSettings.of(SERVER | {"value.serializer": str.encode, "partitioner": "murmur3"})
    assert settings.value_serializer == str.encode
    assert "bytes, string, json, or a callable" in refused(key_serializer="avro")
    assert "server, murmur2, murmur3, md5, or a callable" in refused(partitioner="sticky")


def test_the_longest_wait_is_no_shorter_than_the_first():
    assert ProducerSettings.of(SERVER | {"retry.backoff.ms": 5_000}).backoff == (5.0, 5.0)


def test_zstd_is_asked_for_its_quickest_level(monkeypatch: pytest.MonkeyPatch):
    """By a module that has the same function."""
    monkeypatch.setattr("lakelog.produce.compression._ZSTD_MODULES", ("nowhere.zstd", "zlib"))
    compress = compressor_of("zstd")
    assert compress is not None
    assert compress(b"x" * 100) == zlib.compress(b"x" * 100, 1)


def test_a_compression_that_is_not_installed_is_refused_when_the_producer_is_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lakelog.produce.compression._ZSTD_MODULES", ("nowhere.zstd",))
    with pytest.raises(InvalidSetting, match="pip install zstandard"):
        compressor_of("zstd")
