"""The guard: only a browser or program of this machine's user may enter, by one of our host names and with the token.

- `Host` must be one of our names. A page that points its own host name at this machine (DNS rebinding) sends its own.
- A request from a page of another origin says so (`Origin`, `Sec-Fetch-Site`), even on the same site, and is refused.
- The token comes in a cookie, or as `Authorization: Bearer`. The link with the token sets the cookie and redirects to
  the same address without the token, which keeps it out of the history and of the `Referer` header.

All other requests get the same refusal, whether the address exists or not. The guard also reads the body of a request,
where one is allowed.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tooltap.daemon.system.addresses import is_address, is_loopback, without_port
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.web.http.errors import error_response
from tooltap.daemon.web.http.token import is_token

__all__ = ["Guard"]

NO_ENTRY = "this needs the link that `tooltap serve link` prints"
OPEN_PATHS = ("/healthz",)
COOKIE_DAYS = 365
FORM_BYTES = 65_536
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
"""On every response that does not set them itself."""

_log = get_logger("web")


class Guard:
    """ASGI middleware. `hosts`: our names besides the loopback ones. `any_address`: accept every IP address as `Host`,
    since no page can make an address mean another machine. `cookie`: its name. Cookies do not distinguish ports, so
    each daemon needs its own. `patience`: seconds for a form to arrive."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        token: str,
        hosts: Collection[str],
        any_address: bool,
        cookie: str,
        patience: float,
    ) -> None:
        self._application = application
        self._token = token
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address
        self._cookie = cookie
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
        if not self._is_from_here(headers):
            return _refusal()
        given = [value for key, value in parse_qsl(scope["query_string"].decode("latin-1")) if key == "token"]
        if given:
            return self._welcome(scope) if all(is_token(one, self._token) for one in given) else _refusal()
        if scope["path"] not in OPEN_PATHS and not self._is_known(headers):
            return _refusal()
        if scope["method"] == "POST":
            try:
                with anyio.fail_after(self._patience):
                    body = await _body(receive)
            except TimeoutError:
                return error_response(408, "timeout", "the form did not arrive in time", _CLOSE)
            except _TooLongError:
                return error_response(413, "too-large", f"a form has at most {FORM_BYTES} bytes", _CLOSE)
            receive = _replay(body, receive)
        elif headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return error_response(400, "no-body", "only a form may have a body", _CLOSE)
        await self._application(scope, receive, send)
        return None

    def _is_from_here(self, headers: Headers) -> bool:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return False
        if any(site not in SAFE_SITES for site in headers.getlist("sec-fetch-site")):
            return False
        own = {f"http://{hosts[0].lower()}", f"https://{hosts[0].lower()}"}
        return all(origin.lower() in own for origin in headers.getlist("origin"))

    def _is_ours(self, host: str) -> bool:
        name = without_port(host).lower()
        return is_loopback(name) or name in self._hosts or (self._any_address and is_address(name))

    def _is_known(self, headers: Headers) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return is_token(credentials.strip(), self._token)
        return any(
            is_token(given, self._token)
            for line in headers.getlist("cookie")
            if (given := cookie_parser(line).get(self._cookie)) is not None
        )

    def _welcome(self, scope: Scope) -> Response:
        """Set the cookie and redirect to the same address without the token."""
        path = "/" + scope["raw_path"].decode("latin-1").lstrip("/\\")  # `//host` would be another host
        query = "&".join(
            part for part in scope["query_string"].decode("latin-1").split("&") if not _is_token_part(part)
        )
        location = f"{path}?{query}" if query else path
        response = Response(status_code=303, headers={"Location": location, "Referrer-Policy": "no-referrer"})
        response.set_cookie(
            self._cookie, self._token, max_age=COOKIE_DAYS * 86_400, path="/", httponly=True, samesite="strict"
        )
        return response


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


def _refusal() -> Response:
    return error_response(403, "forbidden", NO_ENTRY)


def _is_token_part(part: str) -> bool:
    return any(key == "token" for key, _ in parse_qsl(part, keep_blank_values=True))


class _TooLongError(Exception):
    """The form is too long."""


async def _body(receive: Receive) -> bytes:
    """Read the body of a form; empty if the client has left."""
    body = bytearray()
    while (message := await receive())["type"] != "http.disconnect":
        body += message["body"]
        if len(body) > FORM_BYTES:
            raise _TooLongError
        if not message["more_body"]:
            return bytes(body)
    return b""


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed
