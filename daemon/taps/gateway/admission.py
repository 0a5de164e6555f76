"""Access control of the gateway, by user, key, host, origin and path.

The gateway spends its user's money, and may reach servers that trust this machine.

- Programs of our own user on this machine need no key: the kernel identifies the user of a connection. If it cannot,
  and for other users and machines, a key is needed. Most programs can only be configured with a URL and an API key, so
  the key is part of the URL's path, `/key-KEY`, or replaces the API key if the server needs none.
- To the kernel, a page in our user's browser is our user's program. So `Host` must be a name of this machine, against
  DNS rebinding, and requests of pages of other origins (`Origin`, `Sec-Fetch-Site`) are refused. All other requests of
  a browser need the key, because a page can make a browser open any address.
- A path must stay below the path of the server's URL, even if servers decode it several times.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, MutableMapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from tooltap.daemon.system.connections import Peer
from tooltap.daemon.system.tcp import is_address, is_loopback, without_port

Headers: TypeAlias = list[tuple[bytes, bytes]]

BAD_REQUEST, UNAUTHORIZED, FORBIDDEN = 400, 401, 403
SAFE_SITES = (b"same-origin", b"none")
"""Accepted values of `Sec-Fetch-Site`: requests of the server's own pages, and addresses opened by the user."""
KEY_HEADERS = (b"authorization", b"x-api-key", b"api-key")
DECODINGS = 4
"""Most levels of percent-encoding of a path: each server on the way may decode it once."""

NEEDS_KEY = "this needs its key in the URL, as in http://127.0.0.1:4010/key-KEY/v1; `tooltap gateway key` prints it"
WRONG_KEY = "this is not its key; `tooltap gateway key` prints it"
NOT_OURS = "it serves its own user only"
WRONG_HOST = "it is for programs that name it by an address of this machine, or by a name given with --host"
WRONG_PAGE = "it is not for web pages"
WRONG_PATH = (
    "a path begins with one /, and has no . or .. segment, no backslash and no control character, encoded or not"
)

_KEY_PATH = re.compile(rb"/key-([^/]*)(/.*)?")
_NOT_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NEVER = re.compile(r"[\\\x00-\x1f\x7f]")


class RefusedError(Exception):
    """A request is refused. The message is a sentence without its subject, the gateway."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Admitted(NamedTuple):
    path: bytes
    """Path to append to the server's URL."""
    headers: Headers
    """Headers of the request, without the gateway's key."""


class Admission:
    """Access control of the gateway. `key`: None admits only our own user, as at a Unix socket. `hosts`: accepted host
    names in addition to those of loopback. `any_address`: accept every IP address as `Host`; this is safe, because DNS
    rebinding needs a name."""

    def __init__(self, key: str | None, *, hosts: Collection[str], any_address: bool) -> None:
        self._key = None if key is None else key.encode()
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address

    def check(self, scope: MutableMapping[str, Any]) -> Admitted:
        """Admit a request. `scope`: its ASGI scope. Raises `RefusedError`."""
        peer: Peer = scope["state"]["peer"]
        path, headers = scope["raw_path"], scope["headers"]
        if self._key is None:
            if not peer.is_us:
                raise RefusedError(FORBIDDEN, NOT_OURS)
        else:
            host = self._host(headers)
            is_browser = _check_page(headers)
            path, headers, has_key = self._take_key(path, headers)
            if not has_key and not (peer.is_us and is_loopback(host) and not is_browser):
                raise RefusedError(UNAUTHORIZED, NEEDS_KEY)
        if not _stays_below(path):
            raise RefusedError(BAD_REQUEST, WRONG_PATH)
        return Admitted(path, headers)

    def _host(self, headers: Headers) -> str:
        """Check and return the host name in the `Host` header. Raises `RefusedError`."""
        hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
        if len(hosts) == 1:
            name = without_port(hosts[0])
            if is_loopback(name) or name in self._hosts or (self._any_address and is_address(name)):
                return name
        raise RefusedError(FORBIDDEN, WRONG_HOST)

    def _take_key(self, path: bytes, headers: Headers) -> tuple[bytes, Headers, bool]:
        """Remove the key from path and headers. Return both, and whether there was a valid key. Raises
        `RefusedError`."""
        kept = [
            (name, value) for name, value in headers if not (name in KEY_HEADERS and self._is_key(_credentials(value)))
        ]
        if (named := _KEY_PATH.fullmatch(path)) is None:
            return path, kept, len(kept) < len(headers)
        if not self._is_key(named[1]):
            raise RefusedError(UNAUTHORIZED, WRONG_KEY)
        return named[2] or b"/", kept, True

    def _is_key(self, given: bytes) -> bool:
        return self._key is not None and hmac.compare_digest(given, self._key)


def _check_page(headers: Headers) -> bool:
    """Return whether the request comes from a browser, which states the origin of the page. Raises `RefusedError` for a
    page of another origin."""
    own = [scheme + value.lower() for name, value in headers if name == b"host" for scheme in (b"http://", b"https://")]
    for name, value in headers:
        if (name == b"origin" and value.lower() not in own) or (name == b"sec-fetch-site" and value not in SAFE_SITES):
            raise RefusedError(FORBIDDEN, WRONG_PAGE)
    return any(name in (b"origin", b"sec-fetch-site") for name, _ in headers)


def _credentials(value: bytes) -> bytes:
    scheme, _, credentials = value.partition(b" ")
    return credentials.strip() if scheme.lower() == b"bearer" else value.strip()


def _stays_below(path: bytes) -> bool:
    """Whether a request's target is a path, not a URL, and has no path traversal, even after decoding it several
    times."""
    text = path.decode("latin-1")
    if not text.startswith("/") or "#" in text or _NOT_ENCODED.search(text):
        return False
    for _ in range(1 + DECODINGS):
        # Some servers take what follows a `;` for parameters of the segment.
        segments = [segment.partition(";")[0] for segment in text.split("/")]
        if text.startswith("//") or "." in segments or ".." in segments or _NEVER.search(text):
            return False
        try:
            decoded = unquote_to_bytes(text).decode()
        except UnicodeDecodeError:  # an overlong form of a character, for instance
            return False
        if decoded == text:
            return True
        text = decoded
    return False
