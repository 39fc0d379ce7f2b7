"""That no test gives a server up that stood still for a few seconds, as all of a busy machine may."""

import inspect
from collections.abc import Callable

import httpx
import pytest


@pytest.mark.parametrize("kind", [httpx.Client, httpx.AsyncClient])
def test_a_request_that_says_nothing_of_time_waits_longer_than_a_busy_machine_stands_still(kind: type[httpx.Client]):
    assert all(seconds is not None and seconds >= 30 for seconds in kind().timeout.as_dict().values())


@pytest.mark.parametrize("ask", [httpx.get, httpx.put, httpx.post, httpx.stream])
def test_so_does_one_without_a_client(ask: Callable[..., object]):
    assert inspect.signature(ask).parameters["timeout"].default == httpx.Client().timeout
