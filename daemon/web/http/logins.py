"""Logins: browsers that were admitted by a link, until they are idle too long, too old, or logged out.

A link holds a one-time code that expires soon. A browser exchanges the code for two secrets. The cookie is sent to
every port of the host. The other one, the page's secret, is stored by the page for its own origin, and sent to nobody
else, as a header; without it the cookie opens nothing. The file beside the token has the digests of both, so that a
login survives a restart of the daemon.

Where a browser cannot send a header (to open a page, a live feed, an image), the address carries a signature (`sign`).
It is for one address, and valid only together with the cookie of a login. It is made for a page that has proved its
origin, and never reaches another one: it is not in a cookie, and our pages send no `Referer` elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from tooltap.daemon.config import Web
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.tcp import is_loopback
from tooltap.daemon.web.http.requests import WebError
from tooltap.traces.recording.whole_file import whole_file

SIGNATURE_SECONDS = 60
"""Seconds for which an address that was signed for a login is valid."""
SIGNATURE_KEY = "pass"
"""Key of a signature in the query of an address."""
FOREVER = 0
EXPIRY_DIGITS = 19
LOGIN_LINK = 600.0
"""Seconds for which a link can be used, once, to log a browser in."""
MOST_LOGINS = 50
"""Maximum number of logins; one more ends the least recently used."""
CODES = 100
"""Maximum number of unused links; one more invalidates the oldest."""
SAVE_PERIOD = 60.0
"""Interval, in seconds, at which times of use are written to the file; shorter if `login_idle` is short."""
AGENT_LENGTH = 400
LOGIN_BYTES = 4_096
"""Maximum bytes of one login in the file: each character of a `User-Agent` may take six."""

# In this order, because most browsers name others as well.
_PROGRAMS = (
    (re.compile(r"Edg\w{0,3}/(\d+)"), "Edge"),
    (re.compile(r"OPR/(\d+)"), "Opera"),
    (re.compile(r"Firefox/(\d+)"), "Firefox"),
    (re.compile(r"Chrom\w{0,3}/(\d+)"), "Chrome"),
    (re.compile(r"Version/(\d++)[\d.]*+ (?:Mobile/\w++ )?Safari"), "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
_log = get_logger("web")


class Login(msgspec.Struct, kw_only=True):
    """Times are in milliseconds since the epoch."""

    id: str
    cookie: bytes
    """Digest of the cookie's value."""
    secret: bytes
    """Digest of the page's secret."""
    created: int
    used: int
    agent: str
    """`User-Agent`."""
    address: str
    """IP address of the browser's machine."""


class Entry(NamedTuple):
    """A new login, and the two secrets that its browser gets in exchange for a code."""

    login: Login
    cookie: str
    secret: str


class Logins:
    """`path`: the file of logins. `key`: signs the addresses of outputs, whose cards are rendered once for all
    readers."""

    def __init__(
        self,
        path: Path,
        key: bytes,
        web: Web,
        *,
        clock: Clock = wall_clock,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._key = key
        self._web = web
        self._clock = clock
        self._steady = steady
        self._codes: OrderedDict[bytes, float] = OrderedDict()
        """Digest of a code -> its expiry, by the steady clock."""
        self._scopes: defaultdict[str, set[anyio.CancelScope]] = defaultdict(set)
        """Id of a login -> cancel scopes of its requests that wait in `receive`."""
        self._saved = self._steady()
        self._lock = anyio.Lock()
        self._logins = {login.id: login for login in self._read()}
        self._known = self._look()
        """The file as it was written last, or found at the start; None: there was none."""

    # -- links and entering -------------------------------------------------------------------------------------

    def new_code(self) -> str:
        code = secrets.token_urlsafe()
        self._codes[_digest(code)] = self._steady() + LOGIN_LINK
        while len(self._codes) > CODES:
            self._codes.popitem(last=False)
        return code

    async def enter(self, code: str, agent: str, address: str, before: Login | None) -> Entry | None:
        """Redeem a code; None if it is invalid, used or expired. `before`: the browser's previous login, which ends."""
        until = self._codes.pop(_digest(code), 0.0)
        if self._steady() >= until:
            return None
        if before is not None:
            self._drop(before.id)
        now = self._clock()
        name = secrets.token_hex(4)
        cookie, secret = f"{name}.{secrets.token_urlsafe()}", secrets.token_urlsafe()
        login = Login(
            id=name,
            cookie=_digest(cookie),
            secret=_digest(secret),
            created=now,
            used=now,
            agent=agent[:AGENT_LENGTH],
            address=address,
        )
        alive = self.alive()
        for one in alive[: max(0, len(alive) + 1 - MOST_LOGINS)]:
            self._drop(one.id)
        self._logins[name] = login
        await self._save_if_possible()
        return Entry(login, cookie, secret)

    # -- who is in ----------------------------------------------------------------------------------------------

    def find(self, cookie: str) -> Login | None:
        """Return the login of a cookie; None if it is unknown or has ended."""
        login = self._logins.get(cookie.partition(".")[0])
        if login is None or not hmac.compare_digest(_digest(cookie), login.cookie):
            return None
        return login if self.ends(login) > self._clock() else None

    def is_secret(self, login: Login, given: str) -> bool:
        return hmac.compare_digest(_digest(given), login.secret)

    def new_signature(self, login: Login, target: str) -> str:
        """Sign an address for the browser of one login. It expires after `SIGNATURE_SECONDS`."""
        return sign(login.secret, target, self._clock() + SIGNATURE_SECONDS * 1_000)

    def is_signature(self, login: Login, target: str, given: str) -> bool:
        now = self._clock()
        return is_signed(login.secret, target, given, now) or is_signed(self._key, target, given, now)

    def signed_url(self, target: str) -> str:
        """Return an address with a signature that is valid in any login and does not expire: of an output, or an
        exported file."""
        return f"{target}{'&' if '?' in target else '?'}{SIGNATURE_KEY}={sign(self._key, target)}"

    async def use(self, login: Login) -> None:
        login.used = self._clock()
        if self._steady() - self._saved > min(SAVE_PERIOD, self._web.login_idle / 10):
            await self._save_if_possible()

    def during(self, login: Login, receive: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        """Wrap a request's `receive`: it reports a disconnect when the login ends. While it waits, the login is in
        use."""

        async def received() -> Any:
            with self._open(login):
                return await receive()
            return {"type": "http.disconnect"}

        return received

    # -- their end ----------------------------------------------------------------------------------------------

    def ends(self, login: Login) -> int:
        """Return when the login expires if it is not used again, in milliseconds since the epoch."""
        oldest = login.created + int(self._web.login_lifetime * 1_000)
        if self._scopes.get(login.id):
            return oldest
        return min(oldest, login.used + int(self._web.login_idle * 1_000))

    def describe(self, login: Login) -> dict[str, Any]:
        return {
            "id": login.id,
            "browser": _browser(login.agent),
            "address": login.address,
            "created": login.created,
            "used": self._clock() if self._scopes.get(login.id) else login.used,
            "ends": self.ends(login),
        }

    def words(self, login: Login) -> str:
        """Say which browser acts: `the page in Chrome 131 on Linux`, with its address if it is on another machine."""
        where = "" if not login.address or is_loopback(login.address) else f", at {login.address}"
        return f"the page in {_browser(login.agent)}{where}"

    def alive(self) -> list[Login]:
        """Drop expired logins, and return the others, least recently used first."""
        now = self._clock()
        for login in [one for one in self._logins.values() if self.ends(one) <= now]:
            self._drop(login.id)
        return sorted(self._logins.values(), key=lambda one: one.used)

    async def revoke(self, name: str) -> None:
        """End a login. Raises `WebError`."""
        if not self._drop(name):
            raise WebError(404, "not-found", f"no browser is logged in as {name[:100]!r}")
        try:
            await self._save()
        except OSError as error:
            sentence = f"it has ended, but a restart of the daemon would bring it back: {self._path}: {error.strerror}"
            raise WebError(503, "internal", sentence) from None

    def _drop(self, name: str) -> bool:
        for scope in self._scopes.pop(name, ()):
            scope.cancel()
        return self._logins.pop(name, None) is not None

    @contextmanager
    def _open(self, login: Login) -> Iterator[None]:
        left = (login.created - self._clock()) / 1_000 + self._web.login_lifetime
        with anyio.move_on_after(left) as scope:
            if login.id not in self._logins:
                scope.cancel()
            self._scopes[login.id].add(scope)
            try:
                yield
            finally:
                login.used = self._clock()
                open_now = self._scopes.get(login.id, set())
                open_now.discard(scope)
                if not open_now:
                    self._scopes.pop(login.id, None)

    # -- the file -----------------------------------------------------------------------------------------------

    async def _save(self) -> None:
        """Raises `OSError`."""
        async with self._lock:
            self._saved = self._steady()
            await anyio.to_thread.run_sync(_write, self._path, msgspec.json.encode(self.alive()))
            self._known = self._look()

    async def renew_file(self) -> None:
        """Write the file again if it was removed, replaced or written by another program: a restart of the daemon would
        forget logins, or bring ended ones back. Raises `OSError`."""
        if not self._lock.locked() and self._look() != self._known:
            _log.warning("the logins were removed or replaced in use; writing them again", file=str(self._path))
            await self._save()

    def _look(self) -> tuple[int, ...] | None:
        """Return what changes when the file is replaced or written; None if there is none. Raises `OSError`."""
        try:
            status = os.lstat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    async def _save_if_possible(self) -> None:
        try:
            await self._save()
        except OSError as error:
            _log.warning("the logins cannot be written", file=str(self._path), reason=error.strerror)

    def _read(self) -> list[Login]:
        """Read the file. One that other users could have written, or that cannot be decoded, counts as empty."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        except OSError as error:
            return self._nobody(error.strerror or str(error))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return self._nobody("other users can read or write it")
            try:
                return msgspec.json.decode(file.read(LOGIN_BYTES * MOST_LOGINS), type=list[Login])
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                return self._nobody(str(error))

    def _nobody(self, reason: str) -> list[Login]:
        _log.warning("browsers must log in again: their file cannot be used", file=str(self._path), reason=reason)
        return []


def _browser(agent: str) -> str:
    """Name the browser and the system of a `User-Agent`, or return what it says."""
    program = next((f"{name} {found[1]}" for pattern, name in _PROGRAMS if (found := pattern.search(agent))), "")
    system = next((name for word, name in _SYSTEMS if word in agent), "")
    return " on ".join(part for part in (program, system) if part) if program else agent[:100] or "unknown"


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode(errors="surrogateescape")).digest()


def _write(path: Path, data: bytes) -> None:
    with whole_file(path, 0o600) as file:
        file.write(data)


def sign(key: bytes, target: str, expires: int = FOREVER) -> str:
    """Return the signature of an address. `expires`: milliseconds since the epoch."""
    return f"{expires}.{_mac(key, target, expires)}"


def is_signed(key: bytes, target: str, given: str, now: int) -> bool:
    """Verify a signature, in constant time."""
    digits, _, mac = given.partition(".")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > EXPIRY_DIGITS:
        return False
    expires = int(digits)
    wanted = _mac(key, target, expires)
    return hmac.compare_digest(mac.encode(), wanted.encode()) and (expires == FOREVER or now < expires)


def split_signature(path: str, query: str) -> tuple[str, str, str]:
    """Return the address without a signature, its query, and the signature, which is empty if there is none."""
    parts = query.split("&")
    given = [part.partition("=")[2] for part in parts if part.startswith(f"{SIGNATURE_KEY}=")]
    rest = "&".join(part for part in parts if not part.startswith(f"{SIGNATURE_KEY}="))
    return f"{path}?{rest}" if rest else path, rest, given[0] if len(given) == 1 else ""


def _mac(key: bytes, target: str, expires: int) -> str:
    mac = hmac.digest(key, f"{expires}\n{target}".encode(errors="surrogateescape"), "sha256")
    return base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
