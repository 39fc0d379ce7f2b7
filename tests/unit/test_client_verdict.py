"""What a server's answers mean for the records of a request: compared with the answers that the server makes."""

from __future__ import annotations

import inspect

import pytest

from delta_log.model import errors as log_errors
from delta_log.model.errors import LakelogError as LogError
from ingest_api.formats.decode.record_errors import refuse_records
from ingest_api.web.errors import Refusal, answer_error, try_again
from lakelog.foundation import errors
from lakelog.foundation.errors import ForeignAnswer
from lakelog.produce.batch import NOWHERE, Place
from lakelog.produce.rows import Row
from lakelog.produce.verdict import Ahead, Later, Refused, Skipped, Stored, TooLarge, Unknown, Verdict, read_verdict
from lakelog.transport.exchange import Answer, AnswerLost, NotSent
from lakelog.transport.server_errors import read_fault

ROWS = [Row(b"0"), Row(b"1", partition=3), Row(b"2", partition=9), Row(b"3", partition=9)]


def read(answer: Answer) -> Verdict:
    return read_verdict(answer, "t", ROWS, "http://server")


def served(error: Exception) -> Answer:
    """As the server answers it."""
    made = answer_error(error)
    return Answer(made.status, {name.decode(): value.decode() for name, value in made.headers}, made.body)


def made_of(cls: type[LogError]) -> LogError:
    """An error of the log with facts of some kind."""
    given = {"index": 1, "size": 9, "limit": 8, "expected": 4, "received": 6, "current": 2, "sequence": 4}
    given |= {"partition": 9, "partitions": 4}
    parameters = inspect.signature(cls.__init__).parameters.values()
    names = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY][1:]
    if names[:1] == ["args"]:
        return cls("what it says")
    return cls(*(given.get(name, name) for name in names))


ALL = [cls for cls in vars(log_errors).values() if isinstance(cls, type) and issubclass(cls, LogError)]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_an_error_of_the_log_is_unknown_or_retriable_to_the_client_as_the_log_says(cls: type[LogError]):
    match read(served(made_of(cls))):
        case Unknown(error):
            assert cls.outcome == "unknown"
        case Later(error):
            assert cls.retriable
        case Ahead(error):
            assert cls is log_errors.OutOfOrderSequence
        case Skipped(error, current):
            assert (cls, current) == (log_errors.ProducerEpochTooHigh, 2)
        case Refused(error):
            assert not cls.retriable
        case other:
            raise AssertionError(other)
    assert error.outcome == cls.outcome
    assert error.said is not None


def test_places_are_read_from_a_success():
    body = b'{"offsets":[{"partition":0,"offset":7,"error_code":null,"error":null},{"partition":1,"offset":8},'
    body += b'{"partition":1,"offset":9},{"partition":null,"offset":null}],"key_schema_id":null,"duplicate":true}'
    assert read(Answer(200, {}, body)) == Stored([Place(0, 7), Place(1, 8), Place(1, 9), NOWHERE])


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b'{"offsets":[]}', b'{"offsets":{"partition":0}}', b"\xff"])
def test_a_success_that_cannot_be_read_is_unknown(body: bytes):
    assert isinstance(read(Answer(200, {}, body)), Unknown)


def test_accepted_means_places_that_nobody_knows():
    assert read(Answer(202, {}, b"")) == Stored([NOWHERE] * 4)


@pytest.mark.parametrize("status", [301, 304, 500, 502, 503, 504])
def test_what_says_nothing_of_the_outcome_is_unknown(status: int):
    verdict = read(Answer(status, {"retry-after": "7"}, b"<html>a proxy</html>"))
    assert isinstance(verdict, Unknown)
    assert (verdict.after_s, verdict.error.outcome) == (7.0, "unknown")
    assert "a proxy" in str(verdict.error)


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b"<html><head><title>t</title></head><p>Not\n<b>here</b>"])
def test_a_4xx_that_no_lakelog_server_wrote_is_told_apart(body: bytes):
    error = read_fault(Answer(404, {}, body), "it").error
    assert isinstance(error, ForeignAnswer)
    assert (error.status, error.outcome, error.retriable) == (404, "not_attempted", False)
    assert ("Not here" in str(error), "<" in str(error)) == (body.startswith(b"<"), False)


@pytest.mark.parametrize("status", [408, 425, 429])
def test_a_4xx_that_means_not_now_is_tried_again(status: int):
    assert isinstance(read(Answer(status, {}, b"")), Later)


def test_a_server_that_is_not_ready_says_when():
    verdict = read(served(try_again("starting", code=50307)))
    assert isinstance(verdict, Later)
    assert verdict.after_s == 1.0


def test_a_retry_after_that_is_a_date_is_passed_over():
    verdict = read(Answer(429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b""))
    assert isinstance(verdict, Later)
    assert verdict.after_s == 0.0


def test_no_connection_means_not_sent_and_a_broken_one_means_unknown():
    assert isinstance(read_verdict(NotSent("refused"), "t", ROWS, "http://server"), Later)
    broken = read_verdict(AnswerLost("reset"), "t", ROWS, "http://server")
    assert isinstance(broken, Unknown)
    assert "(http://server gave no whole answer: reset)" in str(broken.error), "whom it is about"


def test_a_body_that_is_too_large_is_told_from_a_record_that_is():
    assert isinstance(read(served(Refusal(413, "too large"))), TooLarge)
    verdict = read(served(log_errors.RecordTooLarge(2, 2_000_000, 1_048_588)))
    assert isinstance(verdict, Refused)
    assert list(verdict.bad) == [2]
    error = verdict.bad[2]
    assert isinstance(error, errors.RecordTooLarge)
    assert (error.size, error.limit) == (2_000_000, 1_048_588)


def test_every_record_that_is_named_has_its_own_error():
    verdict = read(served(refuse_records([(0, "its key is not base64"), (3, "it is too old")], 4)))
    assert isinstance(verdict, Refused)
    assert {index: str(error) for index, error in verdict.bad.items()} == {
        0: "a record for t: its key is not base64",
        3: "a record for t: it is too old",
    }


@pytest.mark.parametrize("named", [b'"x"', b"[1]", b'[{"index":-1,"message":"x"}]', b'[{"index":"0"}]', b"{}"])
def test_names_that_cannot_be_read_blame_all(named: bytes):
    verdict = read(Answer(422, {}, b'{"error_code":422,"message":"no","errors":%b}' % named))
    assert isinstance(verdict, Refused)
    assert verdict.bad == {}


def test_of_a_partition_that_is_not_there_the_records_of_the_highest_are_to_blame():
    verdict = read(served(log_errors.UnknownPartition("t", 9, 4)))
    assert isinstance(verdict, Refused)
    assert list(verdict.bad) == [2, 3]


def test_the_request_id_is_kept_for_who_looks_into_the_server_s_log():
    verdict = read(Answer(404, {"x-request-id": "abc-1"}, b'{"error_code":40401,"message":"no"}'))
    assert isinstance(verdict, Refused)
    assert verdict.error.said == errors.Said(404, 40401, "no", "abc-1")
