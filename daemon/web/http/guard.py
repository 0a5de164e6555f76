"""The guard: only a browser or program of this machine's user may enter, by one of our host names.

- `Host` must be one of our names. A page that points its own host name at this machine (DNS rebinding) sends its own.
- A request from a page of another origin says so (`Origin`, `Sec-Fetch-Site`), even on the same site, and is refused.
- A program sends the token, as `Authorization: Bearer`. A browser has the cookie of its login, and proves that a page
  of our own origin asks: by a header with the page's secret, or by a signature in the address (`logins.py`).
- Whoever opens an address without that, from a bookmark, a chat or another site, gets the login page: a page without
  data, the same for everybody. If its script finds the page's secret, it opens the address with a signature.

All other requests get the same refusal, whether the address exists or not. The guard also reads the body of a request,
where one is allowed.

Pages of other origins get in if the user allows the origin (`Origins`, CORS) and gives them the token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.sanitize import one_line
from tooltap.daemon.system.tcp import is_address, is_loopback, without_port
from tooltap.daemon.web.http.logins import Login, Logins, split_signature
from tooltap.daemon.web.http.requests import error_response, json_response
from tooltap.daemon.web.http.token import is_token

NO_ENTRY = (
    "programs must send the daemon's token as `Authorization: Bearer TOKEN`, and browsers must use the link that"
    " `tooltap serve link` prints"
)
OTHER_HOST = (
    "the daemon does not know the host {}: name it in `hosts` of the table `[web]` of the configuration file, as in"
    ' `hosts = ["laptop.example.org"]`, and restart the daemon'
)
TOKEN_IN_ADDRESS = (
    "a token in an address is not accepted: programs send it as `Authorization: Bearer TOKEN`, and browsers use the"
    " link that `tooltap serve link` prints"
)
USED = "this link was used before, or is too old; `tooltap serve link` prints a new one"
OPEN_PATHS = ("/healthz",)
OPEN_FOLDER = "/static/"
"""Folder served without a login: the static files of the login page. They are packaged, and the same for everybody."""
ENTER, SIGN = "/login", "/pass"
TELLING = ("/api/answer", "/api/send", "/api/interrupt")
"""Addresses that tell an agent something. A browser proves its origin to them by the page's secret alone: a signature,
which is in an address, does not suffice."""
RUNNING = "/api/ag-ui/"
"""Beginning of addresses that tell an agent something if the method is `POST`, likewise."""
SECRET_HEADER = "tooltap-page"
LOGIN = "tooltap.login"
"""Key of the scope: the login of the browser that asks; None if a program does, with the token."""
FORM_BYTES = 65_536
HISTORY_BYTES = 16_777_216
"""Maximum size of a request that repeats a whole conversation, as AG-UI's clients do."""
OTLP_PATHS = ("/v1/logs", "/v1/traces", "/v1/metrics")
"""Addresses to which agents send their telemetry."""
OTLP_BYTES = 16_777_216
"""Maximum size of a batch of telemetry, also when it is decoded. An exporter limits the records in a batch, not their
size."""
TELLING_BYTES = 1_048_576
"""Maximum size of a request that is passed on to an agent, in bytes."""
PATIENCE = 60.0
"""Timeout, in seconds, for a client that reads nothing or does not finish its request. A feed can resume afterwards."""
SAFE_SITES = ("same-origin", "none")
"""Accepted values of `Sec-Fetch-Site`: our own pages, and addresses opened by the user."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types tooltap",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer` a browser sends our own form with `Origin: null`
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Default headers of every response."""
SANDBOX = "default-src 'none'; sandbox"
"""Content-Security-Policy of untrusted content, such as an output: it can load and run nothing."""

_log = get_logger("web")


class Guard:
    """ASGI middleware. `hosts`: our names besides the loopback ones. `any_address`: accept every IP address as `Host`,
    since no page can make an address mean another machine. `cookie`: name of the login's cookie; browsers share cookies
    between ports, so each daemon needs its own name. `cookie_seconds`: how long a browser keeps the cookie. `patience`:
    seconds for a form to arrive."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        token: str,
        logins: Logins,
        login_page: Callable[[Request], Awaitable[Response]],
        hosts: Collection[str],
        any_address: bool,
        cookie: str,
        cookie_seconds: int,
        patience: float,
    ) -> None:
        self._application = application
        self._token = token
        self._logins = logins
        self._login_page = login_page
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address
        self._cookie = cookie
        self._cookie_seconds = cookie_seconds
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = _with_headers(send)
        try:
            response = await self._answer(scope, receive, send)
            if response is not None:
                await response(scope, receive, send)
        except Exception:
            _log.exception("a request failed", path=scope["path"])
            raise  # the server aborts the response

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """Return a response; None if the application has answered."""
        headers = Headers(scope=scope)
        if not self._names_us(headers):
            return error_response(403, "forbidden", _why_not(headers))
        if not _is_from_here(headers):
            return await self._refused(scope, headers)
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        target, query, given = split_signature(path, query)
        is_running = scope["path"].startswith(RUNNING) and scope["method"] == "POST"
        is_telling = is_running or scope["path"] in TELLING
        login = self._login_of(headers, target, "" if is_telling else given)
        is_entering = scope["path"] == ENTER and scope["method"] == "POST"
        is_open = is_entering or scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_FOLDER)
        if not is_open and login is None and not self._has_token(headers):
            return await self._refused(scope, headers)
        if scope["method"] == "POST":
            most, what = (TELLING_BYTES, "request") if is_telling else (FORM_BYTES, "form")
            most = HISTORY_BYTES if is_running else most
            if scope["path"] in OTLP_PATHS:
                most, what = OTLP_BYTES, "batch"
            try:
                with anyio.fail_after(self._patience):
                    body = await _body(receive, most)
            except TimeoutError:
                return error_response(408, "timeout", f"the {what} did not arrive in time", _CLOSE)
            except _TooLongError:
                return error_response(413, "too-large", f"a {what} has at most {most} bytes", _CLOSE)
            receive = _replay(body, receive)
        elif headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return error_response(400, "no-body", "only a form may have a body", _CLOSE)
        if is_entering:
            return await self._enter(body, scope, headers)
        if login is not None:
            await self._logins.use(login)
            if scope["path"] == SIGN and scope["method"] == "POST":
                return Response(self._logins.new_signature(login, body.decode("latin-1")), media_type="text/plain")
            receive = self._logins.during(login, receive)
        await self._application({**scope, "query_string": query.encode("latin-1"), LOGIN: login}, receive, send)
        return None

    async def _enter(self, code: bytes, scope: Scope, headers: Headers) -> Response:
        """Log a browser in with the code of a link, and end its previous login."""
        agent, address = headers.get("user-agent", ""), (scope["client"] or ("",))[0]
        before = self._login_by_cookie(headers)
        entry = await self._logins.enter(code.decode("latin-1"), agent, address, before)
        if entry is None:
            return error_response(403, "used", USED)
        response = json_response({"secret": entry.secret})
        response.set_cookie(
            self._cookie, entry.cookie, max_age=self._cookie_seconds, path="/", httponly=True, samesite="strict"
        )
        return response

    async def _refused(self, scope: Scope, headers: Headers) -> Response:
        if _opens_a_page(scope, headers):
            return await self._login_page(Request(scope))
        has_token = any(part.startswith(b"token=") for part in scope["query_string"].split(b"&"))
        return error_response(403, "forbidden", TOKEN_IN_ADDRESS if has_token else NO_ENTRY)

    def _names_us(self, headers: Headers) -> bool:
        hosts = headers.getlist("host")
        return len(hosts) == 1 and self._is_ours(hosts[0])

    def _is_ours(self, host: str) -> bool:
        name = without_port(host).lower()
        return is_loopback(name) or name in self._hosts or (self._any_address and is_address(name))

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and is_token(credentials.strip(), self._token)

    def _login_of(self, headers: Headers, target: str, given: str) -> Login | None:
        """Return the login of the request's cookie if the request proves its origin. A request with `Authorization` has
        none."""
        if headers.get("authorization") or (login := self._login_by_cookie(headers)) is None:
            return None
        is_proved = self._logins.is_secret(login, headers.get(SECRET_HEADER, "")) or (
            given != "" and self._logins.is_signature(login, target, given)
        )
        return login if is_proved else None

    def _login_by_cookie(self, headers: Headers) -> Login | None:
        values = [cookie_parser(line).get(self._cookie) for line in headers.getlist("cookie")]
        found = [self._logins.find(value) for value in values if value is not None]
        return next((login for login in found if login is not None), None)


def _why_not(headers: Headers) -> str:
    """Say why a request that does not name us is refused."""
    hosts = headers.getlist("host")
    name = one_line(without_port(hosts[0])) if len(hosts) == 1 else ""
    return OTHER_HOST.format(name) if name else NO_ENTRY


def _is_from_here(headers: Headers) -> bool:
    if any(site not in SAFE_SITES for site in headers.getlist("sec-fetch-site")):
        return False
    host = headers["host"].lower()
    return all(origin.lower() in {f"http://{host}", f"https://{host}"} for origin in headers.getlist("origin"))


def _opens_a_page(scope: Scope, headers: Headers) -> bool:
    """Whether the request opens an address in a tab, instead of loading a part of a page. Browsers without
    `Sec-Fetch-Mode` are recognized by `Accept`."""
    if scope["method"] != "GET":
        return False
    if "sec-fetch-mode" in headers:
        return headers["sec-fetch-mode"] == "navigate" and headers.get("sec-fetch-dest") == "document"
    return "text/html" in headers.get("accept", "")


_CLOSE = {"Connection": "close"}


def _with_headers(send: Send) -> Send:
    """Add `HEADERS` to every response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


class _TooLongError(Exception):
    """The body is too long."""


async def _body(receive: Receive, most: int) -> bytes:
    """Read a body of at most `most` bytes; empty if the client has left."""
    body = bytearray()
    while (message := await receive())["type"] != "http.disconnect":
        body += message["body"]
        if len(body) > most:
            raise _TooLongError
        if not message["more_body"]:
            return bytes(body)
    return b""


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed


ALLOWED_HEADERS = "Authorization, Last-Event-ID"
PREFLIGHT_SECONDS = 600
BROWSERS_OWN = (b"origin", b"cookie", b"sec-fetch-site")


class Origins:
    """ASGI middleware before the guard, for pages of other origins that the user allows. They may read what they
    request with the token, nothing else: the guard sees their requests like a program's, without the cookie that the
    browser adds. `origins`: as browsers send them, such as `http://localhost:5173`."""

    def __init__(self, guarded: ASGIApp, origins: Collection[str]) -> None:
        self._guarded = guarded
        self._origins = {origin.lower() for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        given = headers.getlist("origin")
        if len(given) != 1 or given[0].lower() not in self._origins:
            await self._guarded(scope, receive, send)
            return

        async def allowing(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer["Access-Control-Allow-Origin"] = given[0]
                answer.add_vary_header("Origin")
            await send(message)

        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _preflight()(scope, receive, allowing)
            return
        kept = [(name, value) for name, value in scope["headers"] if name not in BROWSERS_OWN]
        await self._guarded({**scope, "headers": kept}, receive, allowing)


def _preflight() -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Methods": "GET, HEAD",
            "Access-Control-Allow-Headers": ALLOWED_HEADERS,
            "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
        },
    )
