"""The web gateway as one ASGI application: all endpoints, behind the guard."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.types import ASGIApp

from tooltap.daemon.web.api import api
from tooltap.daemon.web.api import logins as api_logins
from tooltap.daemon.web.http.errors import HANDLERS
from tooltap.daemon.web.http.guard import PATIENCE, Guard
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.origins import Origins
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page import page
from tooltap.daemon.web.page.login_page import doorstep


def application(
    services: Services, *, token: str, logins: Logins, new_link: Callable[[], str], host: str, port: int
) -> ASGIApp:
    """Assemble it. `new_link` makes a link that logs a browser in; `host` and `port`: where the server listens."""
    web = services.config.web
    routes = [*api.routes(services), *api_logins.routes(logins, new_link), *page.routes(services, logins)]
    endpoints = Starlette(routes=routes, exception_handlers=HANDLERS)
    endpoints.router.redirect_slashes = False  # an address with a slash too many is not found
    guarded = Guard(
        endpoints,
        token=token,
        logins=logins,
        doorstep=doorstep,
        hosts=(host, *web.hosts),
        any_address=web.allow_remote,
        cookie=f"tooltap-{port}",
        cookie_seconds=int(web.login_lifetime),
        patience=PATIENCE,
    )
    return Origins(guarded, web.origins)
