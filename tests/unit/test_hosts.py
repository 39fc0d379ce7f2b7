"""Which names of a host are a server's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest_api.web.hosts import Hosts, Named, read_host


def test_a_name_that_is_learnt_later_is_served_from_then_on():
    hosts = Hosts(("box",))
    assert not hosts.serves(b"box.corp.example")
    hosts.learn({"Box.Corp.Example."})
    assert hosts.serves(b"box.corp.example:8082")
    assert hosts.serves(b"BOX")


def test_an_advertised_name_is_taken_as_it_is_meant():
    hosts = Hosts((), ("Lake.Example.", "lake_1"))
    assert hosts.serves(b"lake.example")
    assert hosts.serves(b"lake_1:80")
    assert not hosts.serves(b"a.lake.example")


def test_a_host_is_a_name_or_an_address_and_may_have_a_port():
    assert read_host(b"[::1]:80") == Named("::1", is_address=True)
    assert read_host(b"1.2.3.4") == Named("1.2.3.4", is_address=True)
    assert read_host(b"A.b:") == Named("a.b", is_address=False)
    assert read_host(b"[1.2.3.4]") is None
    assert read_host(b"::1") is None
    assert read_host(b"a b") is None
    assert read_host("ä".encode("latin-1")) is None


@given(st.binary(max_size=40))
def test_no_bytes_are_a_host_by_accident(host: bytes):
    name = host.lower().split(b":")[0].rstrip(b".")
    served = Hosts().serves(host)
    named = read_host(host)
    assert served == (named is not None and (named.is_address or name == b"localhost" or name.endswith(b".localhost")))


def test_what_is_remembered_has_a_bound():
    hosts = Hosts()
    for number in range(2000):
        assert hosts.serves(b"h%d.localhost" % number)
        assert not hosts.serves(b"h%d.example" % number)
    assert len(hosts.met) <= 256
