"""Exit codes: one for each kind of failure, and what to do then. Pure.

Failures are identified by the `code` of each error of the clients and of the log, so that no error class must be
imported. The table of the reference is compared with this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = [
    "ABSENT",
    "CALLED_WRONGLY",
    "DONE",
    "EXITS",
    "FAILED",
    "INTERRUPTED",
    "IN_THE_WAY",
    "NOBODY_READS",
    "NOTHING_CHANGED",
    "NOT_AS_IT_SHOULD_BE",
    "NOT_NOW",
    "UNKNOWN",
    "UNUSABLE",
    "WRONG_ROOT",
    "Failure",
    "done_in_part",
    "exit_code_of",
    "one_sentence",
    "show_failure",
]

DONE: Final = 0
FAILED: Final = 1
CALLED_WRONGLY: Final = 2
NOT_NOW: Final = 3
UNKNOWN: Final = 4
ABSENT: Final = 5
IN_THE_WAY: Final = 6
UNUSABLE: Final = 7
WRONG_ROOT: Final = 8
NOT_AS_IT_SHOULD_BE: Final = 9
INTERRUPTED: Final = 130
NOBODY_READS: Final = 141

#: Exit codes that promise that nothing was changed.
NOTHING_CHANGED: Final = frozenset({NOT_NOW, ABSENT, IN_THE_WAY, WRONG_ROOT})

_LOOK = "try again, and look at the server's log if it goes on"
_LOOK_FIRST = "look what is there before you repeat it"
_STATE = "look where things stand, and try again"
_MEND = "mend it, and try again"


class Exit(NamedTuple):
    """An exit code. `cures`: the codes of its errors, each with what to do next."""

    code: int
    meaning: str
    cures: Mapping[str, str] = {}


class Failure(Exception):
    """Error of a command itself: what happened, what to do next, and the exit code.

    `code` is that of the error which it rephrases, if any.
    """

    def __init__(self, what: str, cure: str = "", *, exit_code: int = FAILED, code: str = "") -> None:
        self.what, self.cure, self.exit_code, self.code = what, cure, exit_code, code
        super().__init__(f"{what}; {cure}" if cure else what)


EXITS: Final = (
    Exit(DONE, "done"),
    Exit(FAILED, "failed in a way that has no code of its own; a sentence on stderr says why"),
    Exit(CALLED_WRONGLY, "called wrongly, or installed without a part that the command needs; nothing was done"),
    Exit(
        NOT_NOW,
        "not now: no server answers, it is not ready, or another process has the root; nothing was changed",
        {
            "NETWORK_EXCEPTION": "start one with `lakelog serve`, or name another with --server URL",
            "NOT_AVAILABLE": _LOOK,
            "FOREIGN_ANSWER": "look what answers there, or name another server with --server URL",
            "THROTTLING_QUOTA_EXCEEDED": "try again more slowly, and look why the tables are behind",
            "BUFFER_EXHAUSTED": _LOOK,
            "REQUEST_TIMED_OUT": _LOOK,
            "KAFKA_STORAGE_ERROR": "`lakelog doctor` looks at the place, the server's log says more",
            "ROOT_IN_USE": "",  # its own sentence says it
            "NOT_LEADER_OR_FOLLOWER": "ask the process that has the root now",
            "READ_ONLY": "ask the process that may write",
            "CLOSED": _LOOK,
            "PLAN_OUTDATED": "run it again: it plans anew",
        },
    ),
    Exit(
        UNKNOWN,
        "unknown: it may or may not have been done, or in part; the sentence has what is known",
        {"OUTCOME_UNKNOWN": _LOOK_FIRST, "WAKEUP": _LOOK_FIRST},
    ),
    Exit(
        ABSENT,
        "there is no such topic, partition, group or offset; nothing was changed",
        {
            "UNKNOWN_TOPIC_OR_PARTITION": "`lakelog topics list` names the topics there are",
            "GROUP_ID_NOT_FOUND": "`lakelog groups list` names the groups there are",
            "UNKNOWN_MEMBER_ID": "join again",
            "TRANSACTIONAL_ID_NOT_FOUND": "begin one",
            "OFFSET_OUT_OF_RANGE": "choose one inside",
            "NO_OFFSET_FOR_PARTITION": "say where to begin, as with --from-beginning",
        },
    ),
    Exit(
        IN_THE_WAY,
        "something is in the way: a topic of that name, members of the group, another user of an id; "
        "nothing was changed",
        {
            "TOPIC_ALREADY_EXISTS": "choose another name, or use the one there is",
            "NON_EMPTY_GROUP": "stop its members first",
            "ILLEGAL_STATE": _STATE,
            "MEMBER_ID_TAKEN": "choose another name",
            "INVALID_GROUP_REQUEST": _STATE,
            "FENCED_MEMBER_EPOCH": _STATE,
            "FENCED_INSTANCE_ID": "choose another group.instance.id",
            "ILLEGAL_GENERATION": _STATE,
            "NOT_PARTITION_OWNER": _STATE,
            "MAX_POLL_INTERVAL_EXCEEDED": _STATE,
            "COMMIT_FAILED": "read on: what was read after the last commit comes again",
            "CONCURRENT_MODIFICATION": _STATE,
            "INVALID_PRODUCER_EPOCH": "stop the other one",
            "INVALID_PRODUCER_STATE": _STATE,
            "PRODUCER_EPOCH_TOO_HIGH": _STATE,
            "OUT_OF_ORDER_SEQUENCE_NUMBER": _STATE,
            "DUPLICATE_SEQUENCE_NUMBER": _STATE,
            "INVALID_TXN_STATE": "begin another transaction",
            "PRODUCER_FENCED": "stop the other one",
            "TRANSACTION_TIMED_OUT": "begin another transaction, and do less in it",
            "TRANSACTION_ABORTED": "begin another transaction",
            "TRANSACTION_VERSION_DECIDED": "nothing: it was done before",
        },
    ),
    Exit(
        UNUSABLE,
        "a setting, a name, a record or a query that cannot be used; it was refused",
        {
            "INVALID_CONFIG": _MEND,
            "INVALID_TOPIC_EXCEPTION": "choose another name",
            "INVALID_GROUP_ID": "choose another name",
            "INVALID_REQUEST": _MEND,
            "INVALID_RECORD": _MEND,
            "INVALID_TIMESTAMP": "mend the clock, or the message.timestamp settings of the topic",
            "INVALID_PARTITIONS": "choose another number",
            "POLICY_VIOLATION": "choose a smaller number, or raise the limit",
            "INVALID_REGULAR_EXPRESSION": _MEND,
            "TRANSACTION_TOO_LARGE": "commit sooner",
            "UNKNOWN_TRANSACTION_STAGE": _MEND,
            "INVALID_TRANSACTION_TIMEOUT": "choose a shorter one",
            "MESSAGE_TOO_LARGE": "send less, or raise max.message.bytes of the topic",
            "SERIALIZATION_ERROR": _MEND,
            "OFFSET_METADATA_TOO_LARGE": "shorten it",
        },
    ),
    Exit(
        WRONG_ROOT,
        "the place holds no log, or one that is damaged; nothing was changed",
        {
            "NOT_A_ROOT": "name another place with --data ROOT",
            "CORRUPT_MESSAGE": "keep the file, and see docs/how-to/recover.md",
        },
    ),
    Exit(
        NOT_AS_IT_SHOULD_BE,
        "a verdict: it was done, and there is damage, or something is left or missing; the output names it",
    ),
    Exit(INTERRUPTED, "interrupted by Ctrl-C; what was done stays done"),
    Exit(NOBODY_READS, "whoever read the output went away, as `head` does"),
)

#: What to do next, by class, for errors whose class says more than their code.
_CURES_OF_KINDS: Final = {
    "UnknownPartition": "choose one that there is",
    "StorageRefused": "`lakelog doctor --data PLACE` tries that place",
}
#: Cure of an unexpected error.
_TRACE: Final = "--debug shows where"
#: Codes of errors that have none of their own, by exit code.
_NAMES: Final = {
    FAILED: "FAILED",
    CALLED_WRONGLY: "CALLED_WRONGLY",
    NOT_NOW: "NOT_NOW",
    UNKNOWN: "UNKNOWN",
    ABSENT: "ABSENT",
    IN_THE_WAY: "IN_THE_WAY",
    UNUSABLE: "UNUSABLE",
    WRONG_ROOT: "WRONG_ROOT",
    NOT_AS_IT_SHOULD_BE: "NOT_AS_IT_SHOULD_BE",
    INTERRUPTED: "INTERRUPTED",
}
_BY_CODE: Final = {code: (each.code, cure) for each in EXITS for code, cure in each.cures.items()}


def exit_code_of(error: BaseException) -> int:
    if isinstance(error, Failure):
        return error.exit_code
    return _BY_CODE.get(getattr(error, "code", ""), (FAILED, ""))[0]


def done_in_part(error: BaseException, done: str) -> Failure:
    """The same error after a part of the work is done: an exit code that promises no change would be wrong."""
    code = exit_code_of(error)
    exit_code = UNKNOWN if code in NOTHING_CHANGED else code
    return Failure(str(error).rstrip("."), done, exit_code=exit_code, code=getattr(error, "code", ""))


def one_sentence(error: BaseException) -> str:
    """Describe an error in a sentence, with what to do next if that is known."""
    said, cure = _said(error)
    return f"{said.rstrip('.')}; {cure}" if cure else said


def show_failure(command: str, error: BaseException, *, as_json: bool) -> str:
    """Format a failure as one line: a sentence for people, or an object for programs."""
    if not as_json:
        return f"{command}: {one_sentence(error)}"
    import json

    message, hint = _said(error)
    exit_code = exit_code_of(error)
    code = getattr(error, "code", "") or _NAMES[exit_code]
    told = {"command": command, "code": code, "message": message, "hint": hint or None, "exit_code": exit_code}
    return json.dumps({"error": told}, ensure_ascii=False)


def _said(error: BaseException) -> tuple[str, str]:
    if isinstance(error, Failure):
        return _on_one_line(error.what), _on_one_line(error.cure)
    _, cure = _BY_CODE.get(getattr(error, "code", ""), (FAILED, _TRACE))
    return _on_one_line(str(error)) or type(error).__name__, _CURES_OF_KINDS.get(type(error).__name__, cure)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
