"""What large bodies are asked by numpy is answered as small ones are asked."""

import pytest

from ingest_api.formats.decode.strict_json import count_octet, may_have_loose_base64

SOUND = b'{"value":"QQ=="},{"value":"QUI="},{"value":"QUJD"},'
#: Longer than what a loop decodes itself.
LONG = SOUND * (600 * 1024 // len(SOUND))


def test_octets_are_counted_alike_however_long_the_body():
    assert count_octet(LONG, b":") == 3 * LONG.count(SOUND)
    assert count_octet(SOUND, b":") == 3
    assert count_octet(b"", b":") == 0


@pytest.mark.parametrize("loose", [b'"QR=="', b'"QUJ="', b'"=="'], ids=bytes.decode)
def test_unused_bits_are_seen_wherever_they_are(loose: bytes):
    assert not may_have_loose_base64(SOUND)
    assert not may_have_loose_base64(LONG)
    for text in (SOUND, LONG):
        assert may_have_loose_base64(text + loose)
        assert may_have_loose_base64(loose + text)
