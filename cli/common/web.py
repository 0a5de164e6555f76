"""Asks the daemon over HTTP, with its token, about the browsers that are logged in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from tooltap.cli.common.connection import request

__all__ = ["ask_web", "web_token"]

TIMEOUT = 10.0


def web_token(socket: Path | None) -> str:
    """Return the token of the daemon at this socket."""
    return _token(_web(socket))


def ask_web(socket: Path | None, method: str, path: str) -> Any:
    """Send a request to the daemon at this socket. Directly: a proxy would learn the token."""
    from http.client import HTTPConnection, HTTPException

    web = _web(socket)
    where = urlsplit(web["url"])
    connection = HTTPConnection(where.hostname or "", where.port, timeout=TIMEOUT)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {_token(web)}"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, HTTPException, ValueError) as error:
        raise click.ClickException(f"the daemon does not answer at {web['url']}: {error}") from None
    finally:
        connection.close()
    if response.status >= 400:
        raise click.ClickException(answer["error"]["message"])
    return answer


def _web(socket: Path | None) -> dict[str, Any]:
    web: dict[str, Any] | None = request(socket, "stats").get("web")
    if web is None:
        raise click.ClickException("the daemon does not serve browsers; start it with: tooltap serve --web")
    return web


def _token(web: dict[str, Any]) -> str:
    from tooltap.daemon.system.listener import ListenError
    from tooltap.daemon.web.http.token import read_token

    try:
        return read_token(Path(web["tokenFile"]))
    except ListenError as error:
        raise click.ClickException(str(error)) from None
