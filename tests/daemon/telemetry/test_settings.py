"""The table `[otlp]`: the address, and headers."""

from __future__ import annotations

import pytest

from tooltap.daemon.config import ConfigError, load_config
from tooltap.daemon.telemetry.settings import Telemetry


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://host/api/public/otel/", "https://host/api/public/otel/v1/traces"),
        ("http://[::1]:4318/v1/traces", "http://[::1]:4318/v1/traces"),
    ],
)
def test_path_is_added_once(url: str, address: str) -> None:
    assert Telemetry(url=url).address == address


@pytest.mark.parametrize(
    "url",
    [
        *("", "host:4318", "ftp://host", "http://", "http://u:key@host", "http://host:x", "http://h?a"),
        *("http://h\x07", "http://h/\x1b[2J", "http://h/a b", "http://h/\n", "http://h/é"),
    ],
)
def test_address_that_is_none_is_one_sentence(url: str) -> None:
    with pytest.raises(ConfigError, match=r"url looks like http://127\.0\.0\.1:4318, not"):
        load_config(otlp={"url": url})


def test_headers_of_the_environment_are_decoded_and_the_settings_win() -> None:
    settings = Telemetry(url="http://host", headers={"X-Team": "blue"})
    found = settings.all_headers({"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20key, x-team=red,broken,a b=c"})

    assert found == {"authorization": "Bearer key", "x-team": "blue"}


def test_header_that_would_begin_another_is_refused() -> None:
    with pytest.raises(ConfigError, match="the header 'x' cannot be sent"):
        load_config(otlp={"url": "http://host", "headers": {"x": "1\r\ny: 2"}})
