"""The parts of the daemon that the web gateway uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tooltap.daemon.config import Config
from tooltap.daemon.hub import Hub
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.server.requests import Requests
from tooltap.daemon.taps.otlp.receiver import Receiver
from tooltap.daemon.web.http.feed import Feeds


class Services(NamedTuple):
    config: Config
    journal: Journal
    hub: Hub
    requests: Requests
    feeds: Feeds
    otlp: Receiver
    statistics: Callable[[], Awaitable[dict[str, Any]]]
    """Returns the answer of `stats`."""
