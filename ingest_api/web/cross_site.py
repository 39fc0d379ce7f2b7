"""Protection against cross-site request forgery: the web pages that may change anything. Pure.

A page that a user visits can have the browser send requests to any server that the browser reaches. It cannot read the
answers, but their effects remain. A page can forge none of these:

- `Origin`: sent with every cross-origin request other than GET and HEAD;
- `Sec-Fetch-Site`: sent with all requests, but only to https and to loopback;
- a preflight: other methods, fields and types are sent only once the server allowed them to the page's origin, which
  this server does for `cors_origins` alone.

A GET to a server by its name over plain http may have neither field. `User-Agent` then tells browsers from programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ingest_api.web.errors import Refusal
from ingest_api.web.forwarded import Address
from ingest_api.web.negotiation import is_known

#: The code of a refused request.
FOREIGN_PAGE: Final = 40302
ANY: Final = "*"
#: A page of this very origin, or an address typed by the user.
_NEAR: Final = frozenset((b"same-origin", b"none"))
#: The methods without a preflight, unless a field or the type of the body needs one.
_SIMPLE: Final = frozenset(("GET", "HEAD", "POST"))
#: A field that needs a preflight.
PROOF: Final = b"x-requested-with"
_BROWSER: Final = b"Mozilla/"
_SHOWN: Final = 200
#: The fields that are checked here.
FIELDS: Final = frozenset((b"origin", b"referer", b"sec-fetch-site", b"user-agent", PROOF, b"content-type"))

Fields = Mapping[bytes, bytes]


def check_page(method: str, fields: Fields, address: Callable[[], Address], allowed: tuple[str, ...]) -> None:
    """Refuse a request from a foreign page. A repeated field is joined by a comma, and matches nothing."""
    if ANY in allowed:
        return
    origin, site = fields.get(b"origin"), fields.get(b"sec-fetch-site")
    if origin is not None:
        if not _is_allowed(origin, address(), allowed) and not (site == b"same-origin" and _names_host(origin, fields)):
            raise _refusal(f"it comes from a web page of {_shown(origin)}")
    elif site is not None:
        if site not in _NEAR:
            raise _refusal(f"it comes from a web page of another address (Sec-Fetch-Site: {_shown(site)})")
    elif looks_like_browser(fields) and not _needs_preflight(method, fields):
        referer = fields.get(b"referer")
        if referer is None:
            raise _refusal("the browser does not say from which page it comes (a program may add X-Requested-With)")
        if not _is_allowed(b"/".join(referer.split(b"/")[:3]), address(), allowed):
            raise _refusal(f"it comes from the web page {_shown(referer)}")


def looks_like_browser(fields: Fields) -> bool:
    signed = b"origin" in fields or b"sec-fetch-site" in fields or b"referer" in fields
    return signed or fields.get(b"user-agent", b"").startswith(_BROWSER)


def media_type(fields: Fields) -> str | None:
    """Media type of the body, without its parameters."""
    given = fields.get(b"content-type")
    return None if given is None else given.partition(b";")[0].strip(b" \t").decode("latin-1").lower()


def _needs_preflight(method: str, fields: Fields) -> bool:
    if method not in _SIMPLE or PROOF in fields:
        return True
    return is_known(media_type(fields))


def _is_allowed(origin: bytes, address: Address, allowed: tuple[str, ...]) -> bool:
    given = origin.decode("latin-1").lower()
    return given == address.origin or any(given == each.lower() for each in allowed)


def _names_host(origin: bytes, fields: Fields) -> bool:
    """True for the same host under another scheme: behind a proxy that ends TLS unannounced; the browser vouches."""
    return origin.partition(b"://")[2].lower() == fields.get(b"host", b"").lower()


def _refusal(why: str) -> Refusal:
    text = f"this request may change something, and {why}. If that page may, name its origin in cors_origins"
    return Refusal(403, text, code=FOREIGN_PAGE)


def _shown(value: bytes) -> str:
    text = value.decode("latin-1")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
