"""Answers in pieces: the GIL is never held for long, and nothing large is built whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final

from delta_log import Fetched
from ingest_api.formats.encode import Writer
from ingest_api.formats.encode.prefetch import Ahead
from ingest_api.web.request import Piece

#: Up to these sizes an answer is one piece, which is sent at once.
_FEW: Final = 500
_FEW_BYTES: Final = 128 * 1024


def stream_pieces(writer: Writer, fetched: Sequence[Fetched]) -> bytes | AsyncGenerator[Piece]:
    """Make the body of an answer: whole if it is small."""
    if sum(each.count for each in fetched) <= _FEW and sum(each.size for each in fetched) <= _FEW_BYTES:
        pieces = [piece for each in fetched for piece in writer.rows(each.partition, each.batches)]
        return b"".join((writer.start(), *pieces, writer.end()))
    return _stream(writer, fetched)


async def stream_ahead(
    writer: Writer, partition: int, ahead: Ahead, is_gone: Callable[[], bool]
) -> AsyncGenerator[Piece]:
    """Make the body of an answer whose rows are decoded while it is sent; it stops early if the client is gone."""
    head = writer.start()
    if head:
        yield head
    async with aclosing(ahead.steps()) as steps:
        async for batches in steps:
            if is_gone():
                return
            for piece in writer.rows(partition, batches):
                yield piece
                await asyncio.sleep(0)
    tail = writer.end()
    if tail:
        yield tail


async def _stream(writer: Writer, fetched: Sequence[Fetched]) -> AsyncGenerator[Piece]:
    head = writer.start()
    if head:
        yield head
    for each in fetched:
        for piece in writer.rows(each.partition, each.batches):
            yield piece
            await asyncio.sleep(0)  # yield to other tasks, however fast this reader is
    tail = writer.end()
    if tail:
        yield tail
