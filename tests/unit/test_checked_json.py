"""A root's own files vouch for themselves: no turned bit of one is taken for what was written."""

import msgspec
import pytest

from delta_log.root.root import RootInfo, decode_info, encode_info


def test_no_turned_bit_is_overlooked():
    data = encode_info(RootInfo("0123456789abcdef0123456789abcdef", 1))
    assert decode_info(data) == RootInfo("0123456789abcdef0123456789abcdef", 1)
    for place in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(msgspec.DecodeError):
            decode_info(bytes(damaged))


def test_a_file_of_an_older_version_has_no_checksum_and_is_read():
    assert decode_info(b'{"cluster_id":"c","format":1}') == RootInfo("c", 1)
