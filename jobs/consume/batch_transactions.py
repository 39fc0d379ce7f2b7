"""A batch as one transaction of the server: its output rows, and the offsets of its group.

    transaction = transactions.begin_for(share)       or for a version of a query: None if that is committed
    transactions.move(transaction, share, offsets)    adds the offsets; Fenced
    …                                                 the sink adds rows, and commits
    transactions.end(transaction)                     commits if there were no rows
    transactions.is_committed(transaction)            after a failure: if not, it is aborted

Fenced is raised if the member was shut out or the server restarted: the owners of the partitions then read the batch
again from the committed offsets. It knows routes, and nothing of batches.
"""

from __future__ import annotations

import time
import uuid
from typing import Any, Final

import httpx

from jobs.foundation.result import Unfinished
from jobs.groups.group_client import NOT_THERE, Fenced, Groups, cut_entries
from jobs.groups.group_member import Share
from jobs.source.positions import Positions

__all__ = ["Transactions"]

_PAUSE_S: Final = 0.2
#: More than a server allows: its refusal names the limit.
_LONGEST_MS: Final = 2**63 - 1
_REFUSED: Final = (409, 422)
_CONFLICT: Final = (409,)
#: Refusals of a transaction that was aborted, 404 if a topic was gone whose offsets it was to move.
_NO_MORE: Final = (409, 404)
_DECIDED: Final = 40918
_NO_SUCH_TIME: Final = 42208
_TIMED_OUT: Final = 40915


class Transactions:
    """Transactions of one group."""

    def __init__(self, groups: Groups, group: str) -> None:
        self._groups = groups
        self._group = group

    def begin_for(self, share: Share) -> str:
        """Begin one named after the first partition, which has one owner: one left open by another is aborted."""
        topic, partition = min(share.partitions)
        begun = self._begin({"transactional_id": self._name(f"{topic}-{partition}")})
        assert begun is not None  # noqa: S101 - only a version may be committed already
        return begun

    def begin(self, query: str, version: int) -> str | None:
        """Begin the transaction of a version; all callers get the same one while it is open."""
        return self._begin({"transactional_id": self._name(query), "version": version})

    def begin_anew(self, query: str, version: int) -> str | None:
        """Begin the transaction of a version without content: one left by a killed run is aborted first."""
        left = self.begin(query, version)
        if left is None:
            return None
        self._groups.ask("POST", f"/transactions/{left}/abort", fine=_CONFLICT)
        return self.begin(query, version)

    def move(self, transaction: str, share: Share, offsets: Positions) -> None:
        try:
            for some in cut_entries(offsets):
                asked = {"group": self._group, "instance": share.name, "generation": share.generation, "offsets": some}
                self._groups.ask("POST", f"/transactions/{transaction}/offsets", asked, fenced=NOT_THERE)
        except Fenced:
            self._groups.ask("POST", f"/transactions/{transaction}/abort", fine=_CONFLICT)
            raise

    def end(self, transaction: str) -> None:
        """Commit a transaction; one that is committed stays so."""
        self._groups.ask("POST", f"/transactions/{transaction}/commit", {"stages": []})

    def is_committed(self, transaction: str) -> bool:
        """Return whether it is committed; an open one is aborted. Fenced if it was aborted by another party."""
        while True:
            state = self._groups.ask("GET", f"/transactions/{transaction}").json()["state"]
            if state == "committed":
                return True
            if state == "aborted":
                raise self._why(transaction)
            if self._groups.ask("POST", f"/transactions/{transaction}/abort", fine=_CONFLICT).is_success:
                return False
            time.sleep(_PAUSE_S)  # it is being committed

    def _name(self, of: str) -> str:
        """Build the transactional id, hashed, as the name of a group may be as long as a whole id."""
        return f"consume-{uuid.uuid5(uuid.NAMESPACE_URL, f'{self._group}/{of}').hex}"

    def _begin(self, asked: dict[str, Any]) -> str | None:
        answer = self._ask_for(asked | {"timeout_ms": _LONGEST_MS})
        if _code(answer) == _NO_SUCH_TIME:
            answer = self._ask_for(asked | {"timeout_ms": answer.json()["limit"]})
        if answer.is_success:
            return str(answer.json()["id"])
        if _code(answer) == _DECIDED:
            return None
        raise Fenced(answer.json()["message"])

    def _ask_for(self, asked: dict[str, Any]) -> httpx.Response:
        return self._groups.ask("POST", "/transactions", asked, fine=_REFUSED)

    def _why(self, transaction: str) -> Exception:
        """Find why a transaction was aborted: the answer to a commit tells."""
        answer = self._groups.ask("POST", f"/transactions/{transaction}/commit", {"stages": []}, fine=_NO_MORE)
        what = answer.json()["message"]
        if _code(answer) == _TIMED_OUT:
            return Unfinished(f"a batch took too long to be stored once: {what}; have it be smaller, by --max-offsets")
        return Fenced(what)


def _code(answer: httpx.Response) -> int | None:
    return None if answer.is_success else answer.json()["error_code"]
