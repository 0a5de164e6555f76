"""A web server of somebody else on this machine: another port of the host that the user's browser visits."""

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
    """Keeps every request that it gets, and answers any of them: with a page of `page`, else with 200 and nothing."""

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
        """What it can try elsewhere: the values of all headers that hold credentials, and the bodies of what its pages
        have sent to `/loot`."""
        headers = [value for one in self.requests for name, value in one.headers if name.lower() in CREDENTIALS]
        return headers + [one.body.decode("utf-8", "replace") for one in self.requests if one.target == "/loot"]

    def page(self, script: str = "", body: str = "", *, host: str = "127.0.0.1") -> str:
        """Return the address of a new page with this script, at the end of this body. `host`: a name of this machine.

        What the script gets, it reports with `fetch("/loot", {method: "POST", body: …})`."""
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
