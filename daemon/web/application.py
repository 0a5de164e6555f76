"""The web gateway as one ASGI application: all endpoints, behind the guard."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.types import ASGIApp

from tooltap.daemon.web.api import api
from tooltap.daemon.web.http.errors import HANDLERS
from tooltap.daemon.web.http.guard import Guard
from tooltap.daemon.web.http.origins import Origins
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page import page

__all__ = ["application"]


def application(services: Services, *, token: str, host: str, port: int) -> ASGIApp:
    """Assemble it. `host` and `port`: where the server listens."""
    web = services.config.web
    endpoints = Starlette(routes=[*api.routes(services), *page.routes(services)], exception_handlers=HANDLERS)
    endpoints.router.redirect_slashes = False  # an address with a slash too many is not found
    guarded = Guard(
        endpoints,
        token=token,
        hosts=(host, *web.hosts),
        any_address=web.allow_remote,
        cookie=f"tooltap-{port}",
        patience=web.patience,
    )
    return Origins(guarded, web.origins)
