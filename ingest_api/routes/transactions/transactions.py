"""Transactions: begin, add a group's offsets, commit or abort, describe.

Records are sent to the routes of topics. A retry gets the same answer again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from delta_log import Appended
from delta_log.transactions.coordinator import Transactions
from delta_log.transactions.transaction import Commit, Known
from ingest_api.routes.topics.shapes import takes
from ingest_api.routes.transactions.shapes import (
    BeginRequest,
    BegunView,
    CommitTransactionRequest,
    OffsetsRequest,
    TransactionView,
    moved_by,
    show,
)
from ingest_api.web.context import ServerContext
from ingest_api.web.json_bodies import check_accepts_json, read_json, read_json_or
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Content, Operation, ResponseSpec


class _Transactions:
    """Handlers: each public method is a route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier

    async def begin(self, call: Call) -> Reply:
        _prepare(call)
        asked = await read_json(call, BeginRequest)
        transactions = await self._open()
        begin = partial(transactions.begin, asked.transactional_id, asked.timeout_ms, asked.version)
        begun = await self._tier.in_thread(begin)
        return json_reply(BegunView(begun.id, begun.transactional_id, begun.epoch, begun.timeout_ms))

    async def describe(self, call: Call) -> Reply:
        _prepare(call)
        transactions = await self._open()
        return json_reply(show(await self._tier.in_thread(transactions.describe, call.path["transaction"])))

    async def add_offsets(self, call: Call) -> Reply:
        """Add offsets; the group checks them now, and again at the commit."""
        _prepare(call)
        moved = moved_by(await read_json(call, OffsetsRequest))
        transactions, transaction = await self._open(), call.path["transaction"]
        await self._tier.in_thread(transactions.check, transaction)
        moved = await self._tier.in_time(self._tier.groups.check_moved(moved))
        await self._tier.in_thread(transactions.add, transaction, moved)
        return Reply(204)

    async def commit(self, call: Call) -> Reply:
        _prepare(call)
        stages = (await read_json_or(call, CommitTransactionRequest, CommitTransactionRequest())).stages
        transactions, transaction = await self._open(), call.path["transaction"]
        committed = await self._tier.in_time(transactions.commit_async(transaction, self._store, stages))
        return json_reply(show(Known(transaction, "committed", committed)))

    async def abort(self, call: Call) -> Reply:
        _prepare(call)
        transactions, transaction = await self._open(), call.path["transaction"]
        await self._tier.in_thread(transactions.abort, transaction)
        return json_reply(show(Known(transaction, "aborted")))

    async def _store(self, commit: Commit) -> Sequence[Appended]:
        moved: Any = commit.additions
        return await self._tier.groups.commit_with(moved, commit.appends, commit.decide)

    async def _open(self) -> Transactions:
        """Return the transactions; the first call of a process reads their stored state."""
        return self._tier.log.opened_transactions or await self._tier.in_thread(lambda: self._tier.log.transactions)


def operations(tier: ServerContext) -> list[Operation]:
    """List the routes of this module."""
    of, one = _Transactions(tier), "/transactions/{transaction}"
    view = Content({"application/json": TransactionView})
    return [
        Operation(
            "POST", "/transactions", "begin_transaction", "Begin a transaction", of.begin, "transactions",
            (ResponseSpec(200, "Its id.", Content({"application/json": BegunView})),), body=takes(BeginRequest),
            error_statuses=(409,), doc="What an earlier holder of the transactional id had not committed is aborted.",
        ),
        Operation(
            "GET", one, "describe_transaction", "What became of a transaction", of.describe, "transactions",
            (ResponseSpec(200, "Its state; of one that is committed what is stored.", view),),
            error_statuses=(404,), reads=True,
        ),
        Operation(
            "POST", f"{one}/offsets", "add_offsets_to_transaction", "Commit offsets of a group with a transaction",
            of.add_offsets, "transactions", (ResponseSpec(204, "They are part of it."),), body=takes(OffsetsRequest),
            error_statuses=(404, 409, 413),
            doc="Of a partition what is added later counts. They are checked now and by the commit: where the member or"
            " its generation is stale by then, the whole transaction is aborted.",
        ),
        Operation(
            "POST", f"{one}/commit", "commit_transaction", "Commit a transaction", of.commit, "transactions",
            (ResponseSpec(200, "All of it is stored, and seen from now on.", view),),
            body=takes(CommitTransactionRequest, required=False), error_statuses=(404, 409),
            doc="It may be repeated, and is answered as the first time.",
        ),
        Operation(
            "POST", f"{one}/abort", "abort_transaction", "Abort a transaction", of.abort, "transactions",
            (ResponseSpec(200, "Nothing of it will ever be seen.", view),), error_statuses=(404, 409),
            doc="It may be repeated.",
        ),
    ]  # fmt: skip


def _prepare(call: Call) -> None:
    call.query(())
    check_accepts_json(call)
