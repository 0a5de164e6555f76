"""Passes: what an address carries where a browser can send no header: in a page that it opens, a live feed, an image.

A pass is signed for one address, and lets in only together with the cookie of a login. It is made for a page that has
proved its origin, so it never reaches another one: it is not in a cookie, and our pages send no `Referer` elsewhere.
"""

from __future__ import annotations

import base64
import hmac

QUERY_KEY = "pass"
FOREVER = 0
DIGITS = 19


def make_pass(key: bytes, target: str, expires: int = FOREVER) -> str:
    """Sign an address. `expires`: milliseconds since the epoch."""
    return f"{expires}.{_signature(key, target, expires)}"


def is_pass(key: bytes, target: str, given: str, now: int) -> bool:
    """Verify a pass, in constant time."""
    digits, _, signature = given.partition(".")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > DIGITS:
        return False
    expires = int(digits)
    wanted = _signature(key, target, expires)
    return hmac.compare_digest(signature.encode(), wanted.encode()) and (expires == FOREVER or now < expires)


def with_pass(target: str, given: str) -> str:
    return f"{target}{'&' if '?' in target else '?'}{QUERY_KEY}={given}"


def split_pass(path: str, query: str) -> tuple[str, str, str]:
    """Return the address without a pass, its query, and the pass, which is empty if there is none."""
    parts = query.split("&")
    given = [part.partition("=")[2] for part in parts if part.startswith(f"{QUERY_KEY}=")]
    rest = "&".join(part for part in parts if not part.startswith(f"{QUERY_KEY}="))
    return f"{path}?{rest}" if rest else path, rest, given[0] if len(given) == 1 else ""


def _signature(key: bytes, target: str, expires: int) -> str:
    mac = hmac.digest(key, f"{expires}\n{target}".encode(errors="surrogateescape"), "sha256")
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
