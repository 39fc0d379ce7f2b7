"""Bodies are read whole, within the limit of one and of all together, and what they hold is given back."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from ingest_api.web import body_reader as bodies_module
from ingest_api.web.body_reader import Bodies, ClientGone
from ingest_api.web.errors import Refusal
from ingest_api.web.request import Call
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


class Sender:
    """A request whose body is sent as a test says."""

    def __init__(self, bodies: Bodies, address: str = "192.0.2.1", **headers: str) -> None:
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.bodies = bodies
        self.call = call_of(bodies, [], **headers)
        self.call.scope["client"] = (address, 1)
        self.call.receive = self._receive
        self.reading = asyncio.create_task(self.call.body())

    async def send(self, size: int, *, last: bool = False) -> None:
        self._parts.put_nowait(b"x" * size)
        if last:
            self._parts.put_nowait(None)
        for _ in range(10):
            await asyncio.sleep(0)

    async def refusal(self) -> Refusal:
        with pytest.raises(Refusal) as error:
            await self.reading
        assert self.reading.cancelling() == 0
        self.bodies.release(self.call)
        return error.value

    async def _receive(self) -> dict[str, Any]:
        part = await self._parts.get()
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}


@in_loop
async def test_what_is_announced_and_does_not_come_holds_nothing():
    bodies = Bodies(MIB, 2 * MIB)
    senders = [Sender(bodies, content_length=str(MIB)) for _ in range(50)]
    for sender in senders:
        await sender.send(1)
    assert bodies.held == 0
    assert len(await call_of(bodies, [b"x" * MIB]).body()) == MIB
    for sender in senders:
        sender.reading.cancel()


@in_loop
async def test_a_body_that_finds_no_room_waits_and_goes_on_when_there_is_some():
    bodies = Bodies(2 * MIB, 2 * MIB)
    first = call_of(bodies, [b"x" * MIB])
    await first.body()
    second = Sender(bodies)
    await second.send(MIB)
    await second.send(512 * KIB, last=True)
    assert not second.reading.done()
    assert bodies.held == 2 * MIB
    bodies.release(first)
    assert len(await second.reading) == MIB + 512 * KIB
    assert bodies.held == MIB + 512 * KIB
    bodies.release(second.call)
    assert bodies.held == 0


@in_loop
async def test_a_body_does_not_wait_for_ever():
    bodies = Bodies(2 * MIB, 2 * MIB)
    await call_of(bodies, [b"x" * MIB]).body()
    second = Sender(bodies)
    with mock.patch.object(bodies_module, "_LOOK_S", 0.001):
        await second.send(MIB)
        await second.send(1)
        refusal = await second.refusal()
    assert (refusal.status, refusal.code) == (503, 50306)
    assert bodies.held == MIB


@in_loop
async def test_two_bodies_that_hold_half_each_do_not_wait_for_each_other():
    bodies = Bodies(2 * MIB, 2 * MIB)
    senders = [Sender(bodies), Sender(bodies, "192.0.2.2")]
    for sender in senders:
        await sender.send(MIB)
    for sender in senders:
        await sender.send(MIB, last=True)
    assert len(await senders[0].reading) == 2 * MIB
    assert (await senders[1].refusal()).code == 50306


@in_loop
async def test_the_newest_body_of_an_address_with_more_than_half_gives_way_to_another_address():
    bodies = Bodies(2 * MIB, 2 * MIB)
    greedy = [Sender(bodies) for _ in range(4)]
    for sender in greedy:
        await sender.send(512 * KIB)
    other = call_of(bodies, [b"x" * 256 * KIB])
    assert len(await other.body()) == 256 * KIB
    refusal = await greedy[3].refusal()
    assert (refusal.status, refusal.code) == (503, 50306)
    assert refusal.facts == {"retriable": True, "outcome": "not_attempted"}
    assert "your address" in refusal.message
    assert bodies.held == 3 * 512 * KIB + 256 * KIB
    for sender in greedy[:3]:
        await sender.send(1, last=True)
        assert len(await sender.reading) == 512 * KIB + 1
        bodies.release(sender.call)


@in_loop
async def test_a_body_that_takes_too_long_gives_way_when_memory_is_short():
    bodies = Bodies(2 * MIB, 2 * MIB, grace_s=20.0)
    slow = Sender(bodies)
    await slow.send(2 * MIB)
    assert slow.call.room is not None
    slow.call.room.began -= 20.0
    assert len(await call_of(bodies, [b"x" * MIB]).body()) == MIB
    assert "body_timeout_ms" in (await slow.refusal()).message


@in_loop
async def test_a_request_that_is_cancelled_while_it_is_told_to_give_way_is_cancelled():
    bodies = Bodies(2 * MIB, 2 * MIB)
    greedy = [Sender(bodies) for _ in range(4)]
    for sender in greedy:
        await sender.send(512 * KIB)
    reading = asyncio.create_task(call_of(bodies, [b"x" * 256 * KIB]).body())
    await asyncio.sleep(0)
    greedy[3].reading.cancel()
    await reading
    with pytest.raises(asyncio.CancelledError):
        await greedy[3].reading
    for sender in greedy:
        bodies.release(sender.call)
        sender.reading.cancel()
    assert bodies.held == 256 * KIB


@pytest.mark.parametrize("compress", [gzip.compress, lambda body: pa.compress(body, "zstd", asbytes=True)])
@in_loop
async def test_what_is_decoded_counts_as_it_comes(compress: Any):
    """A small body that inflates finds no more room than others, and is refused before all of it is there."""
    coding = "gzip" if compress is gzip.compress else "zstd"
    bodies = Bodies(64 * MIB, 64 * MIB)
    await call_of(bodies, [b"x" * 48 * MIB]).body()
    coded = compress(b"y" * 60 * MIB)
    assert len(coded) < MIB
    call = call_of(bodies, [coded], content_encoding=coding)
    decoded: list[int] = []
    with (
        mock.patch.object(bodies_module, "_LOOK_S", 0.001),
        mock.patch.object(bodies_module, "_decode_on", spy_on(bodies_module._decode_on, decoded)),
        pytest.raises(Refusal) as error,
    ):
        await call.body()
    assert refused(error) == (503, 50306)
    assert 16 * MIB <= decoded[-1] <= 18 * MIB
    bodies.release(call)
    assert bodies.held == 48 * MIB


def spy_on(decode_on: Any, decoded: list[int]) -> Any:
    def spy(pieces: Any, so_far: bytearray) -> bytes | None:
        whole = decode_on(pieces, so_far)
        decoded.append(len(so_far))
        return whole

    return spy


@in_loop
async def test_a_body_in_thousands_of_pieces_is_what_was_sent():
    bodies = Bodies(MIB, 2 * MIB)
    parts = [b"%d," % number for number in range(5000)]
    assert await call_of(bodies, parts).body() == b"".join(parts)
