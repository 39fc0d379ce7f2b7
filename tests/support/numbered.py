"""A producer over plain HTTP that numbers its requests, keeps each as it was sent, and sends any of them again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.cutting_proxy import CuttingProxy

#: So many requests of a producer and topic a server remembers.
REMEMBERED = 5
Place = tuple[int | None, int | None]


@dataclass
class Sent:
    """One request. `places` is what it was first told, None as long as it was told nothing."""

    body: bytes
    headers: dict[str, str]
    places: list[Place] | None = None


class Numbered:
    """Of one topic. Each request has two records, with keys that come again and again."""

    def __init__(self, topic: str, name: str = "p", *, epoch: int = 0) -> None:
        self.topic, self.name, self.epoch = topic, name, epoch
        self.sent: list[Sent] = []

    def send(self, url: str, *, query: str = "wait=table") -> None:
        """Store two more records."""
        sent = self._next()
        answer = self._post(url, sent, query)
        assert answer.status_code == 200, answer.text
        assert "duplicate" not in answer.json()
        sent.places = places_of(answer)

    def send_in_vain(self, proxy: CuttingProxy, trouble: str) -> None:
        """Store two more records, and be told nothing of it."""
        sent = self._next()
        proxy.trouble = {trouble: 1.0}
        with pytest.raises(httpx.TransportError):
            self._post(proxy.url, sent, "")
        assert proxy.happened[trouble]

    def check_repeats(self, url: str) -> None:
        """Send everything again: nothing is stored, and whoever is remembered is told what the first was told."""
        for age, sent in reversed(list(enumerate(reversed(self.sent)))):
            answer = self._post(url, sent, "")
            assert (answer.status_code, answer.json().get("duplicate")) == (200, True), answer.text
            if age >= REMEMBERED:
                assert places_of(answer) == [(None, None)] * 2
            elif sent.places is None:
                sent.places = places_of(answer)
                assert (None, None) not in sent.places
            else:
                assert places_of(answer) == sent.places
        self.check_offsets()

    def check_offsets(self) -> None:
        """No two records have the same place, and of each partition no offset is missing."""
        known: dict[int | None, list[int | None]] = {}
        for sent in self.sent:
            for partition, offset in sent.places or ():
                known.setdefault(partition, []).append(offset)
        for offsets in known.values():
            assert offsets == list(range(len(offsets)))

    @property
    def values(self) -> list[bytes]:
        return [b"%d" % number for number in range(2 * len(self.sent))]

    def _next(self) -> Sent:
        first = 2 * len(self.sent)
        records = [{"key": (first + each) % 3, "value": first + each} for each in range(2)]
        stamp = {"Producer-Id": self.name, "Producer-Epoch": str(self.epoch), "Producer-Seq": str(first)}
        headers = {"Content-Type": "application/vnd.kafka.json.v2+json"} | stamp
        self.sent.append(Sent(json.dumps({"records": records}).encode(), headers))
        return self.sent[-1]

    def _post(self, url: str, sent: Sent, query: str) -> httpx.Response:
        return httpx.post(f"{url}/topics/{self.topic}?{query}", content=sent.body, headers=sent.headers, timeout=30)


def places_of(answer: httpx.Response) -> list[Place]:
    body: dict[str, Any] = answer.json()
    return [(each["partition"], each["offset"]) for each in body["offsets"]]
