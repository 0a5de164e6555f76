"""The settings of the sender: where spans are sent, and what is in them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import unquote, urlsplit

import msgspec

PATH, METRICS_PATH = "/v1/traces", "/v1/metrics"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
"""The variable in which OpenTelemetry's own programs expect headers: `NAME=VALUE,…`, values percent-encoded."""


class Telemetry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The collector of OpenTelemetry that gets spans and metrics; none without `url`."""

    url: str | None = None
    """Its address for OTLP over HTTP, such as `http://127.0.0.1:4318`; `/v1/traces` and `/v1/metrics` are added."""
    content: bool = False
    """Send texts, arguments and results too."""
    headers: dict[str, str] = {}
    """Headers of each request, such as a key; beside them count those of `OTEL_EXPORTER_OTLP_HEADERS`."""
    metrics_interval: Annotated[float, msgspec.Meta(ge=0)] = 60.0
    """Seconds between two requests with metrics; 0: none are sent."""
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """Seconds that a request may take."""

    def __post_init__(self) -> None:
        if self.url is None:
            return
        try:
            parts = urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        is_plain = self.url.isascii() and self.url.isprintable() and " " not in self.url
        if not is_address or not is_plain or parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError(f"url looks like http://127.0.0.1:4318, not {self.url!r}")
        for name, value in self.headers.items():
            if not _is_header(name, value):
                raise ValueError(f"the header {name!r} cannot be sent")

    @property
    def address(self) -> str:
        """Where spans are sent."""
        return self._base + PATH

    @property
    def metrics_address(self) -> str:
        return self._base + METRICS_PATH

    @property
    def _base(self) -> str:
        return (self.url or "").rstrip("/").removesuffix(PATH)

    def all_headers(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the headers of each request: those of the environment, and the settings', which win."""
        found = {}
        for part in environment.get(HEADERS, "").split(","):
            name, is_pair, value = (unquote(one.strip()) for one in part.partition("="))
            if is_pair and _is_header(name, value):
                found[name.lower()] = value
        return found | {name.lower(): value for name, value in self.headers.items()}


def _is_header(name: str, value: str) -> bool:
    return (
        name.isascii() and name.replace("-", "").replace("_", "").isalnum() and value.isascii() and value.isprintable()
    )
