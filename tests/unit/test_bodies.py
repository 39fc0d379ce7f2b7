"""Bodies are read whole, within the limit of one and of all together, and what they hold is given back."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from typing import Any

import pytest

from ingest_api.bodies import Bodies, ClientGone
from ingest_api.call import Call
from ingest_api.errors import Refusal
from tests.support.loops import in_loop

KIB = 1024
MIB = 1024 * KIB


def call_of(bodies: Bodies, parts: Sequence[bytes | None], **headers: str) -> Call:
    """A request whose body comes in `parts`; None is that the client goes away."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        part = left.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    given = [(name.replace("_", "-").encode(), content.encode()) for name, content in headers.items()]
    return Call({"headers": given}, receive, {}, bodies)


def refused(error: pytest.ExceptionInfo[Refusal]) -> tuple[int, int]:
    return error.value.status, error.value.code


@in_loop
async def test_a_body_is_what_was_sent_however_it_came():
    for parts in ([b"abc"], [b"a", b"bc"], [b"", b"a", b"", b"bc", b""], [b"a" * 3 * MIB, b"b"], [b""]):
        bodies = Bodies(64 * MIB, 128 * MIB)
        call = call_of(bodies, parts)
        assert await call.body() == b"".join(parts)
        bodies.release(call)
        assert bodies.held == 0


@in_loop
async def test_a_body_that_is_announced_as_too_large_is_refused_before_it_is_read():
    bodies = Bodies(MIB, 2 * MIB)
    with pytest.raises(Refusal) as error:
        await call_of(bodies, [], content_length=str(MIB + 1)).body()
    assert refused(error) == (413, 413)
    assert bodies.held == 0


@in_loop
async def test_a_body_that_grows_too_large_is_refused_while_it_comes():
    bodies = Bodies(MIB, 2 * MIB)
    parts = [b"x" * (256 * KIB)] * 4 + [b"x", None]
    call = call_of(bodies, parts)
    with pytest.raises(Refusal) as error:
        await call.body()
    assert refused(error) == (413, 413)
    bodies.release(call)
    assert bodies.held == 0
    assert len(await call_of(bodies, parts[:4]).body()) == MIB


@in_loop
async def test_a_body_of_more_than_it_was_announced_as_is_counted():
    bodies = Bodies(MIB, 2 * MIB)
    with pytest.raises(Refusal):
        await call_of(bodies, [b"x" * (MIB + 1)], content_length="3").body()


@in_loop
async def test_a_client_that_leaves_has_sent_nothing():
    bodies = Bodies(MIB, 2 * MIB)
    for parts in ([None], [b"x" * 128 * KIB, None]):
        call = call_of(bodies, parts)
        with pytest.raises(ClientGone):
            await call.body()
        bodies.release(call)
    assert bodies.held == 0


@in_loop
async def test_bodies_that_fill_the_memory_keep_out_others_until_they_are_answered():
    bodies = Bodies(MIB, 2 * MIB)
    calls = [call_of(bodies, [b"x" * MIB], content_length=str(MIB)) for _ in range(3)]
    await calls[0].body()
    await calls[1].body()
    with pytest.raises(Refusal) as error:
        await calls[2].body()
    assert refused(error) == (503, 50306)
    assert error.value.facts == {"retriable": True, "outcome": "not_attempted"}
    assert error.value.headers == [(b"retry-after", b"1")]
    small = call_of(bodies, [b"x"])
    assert await small.body() == b"x"
    bodies.release(calls[0])
    again = call_of(bodies, [b"x" * (512 * KIB), b"x"])
    assert len(await again.body()) == 512 * KIB + 1
    for call in (calls[1], calls[2], small, again):
        bodies.release(call)
    assert bodies.held == 0


@in_loop
async def test_a_body_that_comes_in_pieces_stops_when_there_is_no_room():
    bodies = Bodies(2 * MIB, 2 * MIB)
    first = call_of(bodies, [b"x" * MIB])
    await first.body()
    second = call_of(bodies, [b"x" * (768 * KIB), b"x" * (768 * KIB), b"never read"])
    with pytest.raises(Refusal) as error:
        await second.body()
    assert refused(error) == (503, 50306)
    bodies.release(second)
    bodies.release(first)
    assert bodies.held == 0


@pytest.mark.parametrize("size", [3, 100 * KIB, 300 * KIB, MIB])
@in_loop
async def test_a_compressed_body_is_decoded(size: int):
    bodies = Bodies(MIB, 2 * MIB)
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    call = call_of(bodies, [gzip.compress(content)], content_encoding="gzip")
    assert await call.body() == content
    assert bodies.held == (size if size >= 64 * KIB else 0)


@in_loop
async def test_a_body_may_be_as_large_as_the_limit_whatever_it_was_compressed_to():
    bodies = Bodies(MIB, 2 * MIB)
    content = b"y" * (MIB - 20 * KIB)
    coded = gzip.compress(content, 0)
    assert len(coded) < MIB < len(coded) + len(content)
    call = call_of(bodies, [coded], content_encoding="gzip")
    assert await call.body() == content


@in_loop
async def test_a_body_that_expands_too_far_is_refused():
    bodies = Bodies(MIB, 2 * MIB)
    call = call_of(bodies, [gzip.compress(b"x" * (MIB + 1))], content_encoding="gzip")
    with pytest.raises(Refusal) as error:
        await call.body()
    assert refused(error) == (413, 413)
    bodies.release(call)
    assert bodies.held == 0


@pytest.mark.parametrize(("coding", "status"), [("br", 415), ("gzip, gzip", 415), ("gzip", 422), ("zstd", 422)])
@in_loop
async def test_what_cannot_be_decoded_is_refused(coding: str, status: int):
    with pytest.raises(Refusal) as error:
        await call_of(Bodies(MIB, 2 * MIB), [b"no such thing"], content_encoding=coding).body()
    assert error.value.status == status


@in_loop
async def test_identity_is_no_coding():
    assert await call_of(Bodies(MIB, 2 * MIB), [b"abc"], content_encoding="Identity").body() == b"abc"
