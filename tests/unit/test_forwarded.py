"""Under which address a client reached the server, as headers tell."""

from __future__ import annotations

import pytest

from ingest_api.web.forwarded import find_address, is_trusted


def base(
    *headers: tuple[str, str],
    scheme: str = "http",
    server: tuple[str, int | None] = ("10.0.0.1", 8082),
    believed: bool = True,
) -> str:
    given = [(name.encode(), value.encode()) for name, value in headers]
    return find_address(given, scheme, server, believed=believed).base


def test_without_proxies_it_is_what_the_client_said():
    assert base(("host", "log.example:8082")) == "http://log.example:8082"
    assert base(("host", "log.example"), scheme="https") == "https://log.example"
    assert base(("host", "[::1]:8082")) == "http://[::1]:8082"


def test_a_port_that_the_scheme_has_anyway_is_not_written():
    assert base(("host", "log.example:80")) == "http://log.example"
    assert base(("host", "log.example:443"), ("x-forwarded-proto", "https")) == "https://log.example"


def test_without_any_name_it_is_the_address_of_the_server():
    assert base() == "http://10.0.0.1:8082"
    assert base(server=("::1", 80)) == "http://[::1]"
    assert base(server=("/run/socket", None)).startswith("http://")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("x-forwarded-host", "a.example"), ("x-forwarded-proto", "https")], "https://a.example"),
        ([("x-forwarded-host", "a.example, b.example"), ("x-forwarded-proto", "https, http")], "https://a.example"),
        ([("x-forwarded-host", "a.example"), ("x-forwarded-port", "8443")], "http://a.example:8443"),
        ([("x-forwarded-host", "a.example"), ("x-forwarded-prefix", "/kafka/")], "http://a.example/kafka"),
        ([("x-forwarded-prefix", "/a/b")], "http://host.example/a/b"),
        ([("forwarded", "for=1.2.3.4;host=a.example;proto=https")], "https://a.example"),
        ([("forwarded", 'for="[::1]:9";host="a.example:81", host=b.example')], "http://a.example:81"),
        ([("forwarded", "host=a.example"), ("x-forwarded-host", "b.example")], "http://a.example"),
        ([("forwarded", "Host=a.example;Proto=HTTPS")], "https://a.example"),
    ],
)
def test_proxies_are_believed_if_they_are_trusted(given: list[tuple[str, str]], expected: str):
    assert base(("host", "host.example"), *given) == expected
    assert base(("host", "host.example"), *given, believed=False) == "http://host.example"


@pytest.mark.parametrize(
    ("client", "trusted", "is_it"),
    [
        (("10.1.2.3", 5), ("10.0.0.0/8",), True),
        (("10.1.2.3", 5), ("192.0.2.1", "10.1.2.3"), True),
        (("::ffff:10.1.2.3", 5), ("10.0.0.0/8",), True),
        (("fe80::1%eth0", 5), ("fe80::/10",), True),
        (("11.1.2.3", 5), ("10.0.0.0/8",), False),
        (("::1", 5), ("10.0.0.0/8", "127.0.0.1"), False),
        (("127.0.0.1", 5), (), False),
        (("no address", 5), ("0.0.0.0/0",), False),
        (None, ("0.0.0.0/0", "::/0"), False),
    ],
)
def test_a_proxy_is_trusted_by_its_address(client, trusted, is_it):
    assert is_trusted(client, trusted) is is_it


@pytest.mark.parametrize(
    "host",
    [
        "a b",
        "a/b",
        "a@b",
        "a\r\nx: y",
        "a\n",
        "<a>",
        "a:0",
        "a:65536",
        "a:x",
        "",
        "-a",
        "http://a",
        "a?b",
        "[::1",
        "ä.example",
        "a" * 5000,
    ],
)
def test_what_cannot_be_a_host_is_as_good_as_not_given(host: str):
    assert base(("x-forwarded-host", host), ("host", "host.example")) == "http://host.example"
    assert base(("forwarded", f'host="{host}"'), ("host", "host.example")) == "http://host.example"
    assert base(("host", host)) == "http://10.0.0.1:8082"


@pytest.mark.parametrize("prefix", ["kafka", "//evil.example", "/a b", "/a\r\nb", '/"', "/<script>", "/" + "a/" * 50])
def test_what_cannot_be_a_prefix_is_as_good_as_not_given(prefix: str):
    assert base(("x-forwarded-prefix", prefix), ("host", "host.example")) == "http://host.example"


@pytest.mark.parametrize("scheme", ["ftp", "javascript", "https://", "", "ws"])
def test_what_is_no_scheme_of_the_web_is_as_good_as_not_given(scheme: str):
    assert base(("x-forwarded-proto", scheme), ("host", "host.example")) == "http://host.example"


@pytest.mark.parametrize("forwarded", [";", "=", "host", 'host="', "host=a;;proto=https", ",host=b", "for=x host=b"])
def test_a_broken_forwarded_breaks_nothing(forwarded: str):
    assert base(("forwarded", forwarded), ("host", "host.example")) in ("http://host.example", "http://a")
