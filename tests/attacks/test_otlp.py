"""Attacks on the addresses for telemetry: records that make no sense, are huge or act on a terminal, bombs, and other
users of the machine."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attacks.stranger import Stranger
from tests.attacks.test_terminal import ACTING, NAME
from tests.cli.command import here
from tests.daemon.running import Running
from tests.daemon.taps.log_records import encoded, event, request, turn
from tests.daemon.web.browsing import Browser, browsed

pytestmark = pytest.mark.process

JSON, PROTOBUF = "application/json", "application/x-protobuf"
ZEROS = gzip.compress(bytes(1_000_000))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Browser]]:
    with browsed(tmp_path_factory.mktemp("served")) as served:
        yield served


def send(browser: Browser, body: bytes, kind: str = JSON, coding: str = "") -> int:
    headers = {"Content-Type": kind, "Content-Encoding": coding}
    return browser.get("/v1/logs", headers, method="POST", body=body).status


def nested(depth: int) -> bytes:
    """An attribute in Protobuf whose value is a list in a list, and so on."""
    value = b""
    for _ in range(depth):
        for tag in (b"\x0a", b"\x2a"):
            value = tag + _length(len(value)) + value
    return b"".join(_wrap(value))


def _wrap(value: bytes) -> Iterator[bytes]:
    for tag in (b"\x12", b"\x32", b"\x12", b"\x12", b"\x0a"):
        value = tag + _length(len(value)) + value
    yield value


def _length(size: int) -> bytes:
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size])


def records(**changes: Any) -> bytes:
    return encoded(request({**event("user_prompt", 1), **changes}))


SHAPES = {"resourceLogs": [7, {"scopeLogs": 7}, {"scopeLogs": [{"logRecords": [[], 7]}]}]}
SURROGATES = (
    b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"attributes":[{"key":"session.id","value":'
    b'{"stringValue":"\\ud800"}},{"key":"\\udfff","value":{"stringValue":"\\udfff"}}]}]}]}]}'
)
NUMBERS = [{"key": "a", "value": {"intValue": "9" * 5_000}}]
ACTS = request(*turn(NAME, prompt=NAME), event(NAME, 9, NAME), service=NAME, version=NAME)
MANY = request(*(event("user_prompt", 1, f"many-{one}") for one in range(200)))
TAKEN: dict[str, bytes] = {
    "nothing of Protobuf": b"",
    "other shapes": encoded(SHAPES),
    "attributes that are none": records(attributes=[7, {"key": 7}, {"key": "a", "value": []}]),
    "a session that is no text": records(attributes=[{"key": "session.id", "value": {"intValue": 7}}]),
    "long session": encoded(request(*turn("s" * 100_000))),
    "path as session": encoded(request(*turn("../../../etc/passwd\0"))),
    "surrogates": SURROGATES,
    "control characters": encoded(ACTS),
    "huge numbers": records(timeUnixNano="9" * 5_000, attributes=NUMBERS),
    "many sessions": encoded(MANY),
    "long text": encoded(request(*turn("long", prompt="x" * 9_000_000))),
}
REFUSED: dict[str, tuple[bytes, str, str, int]] = {
    "nothing as JSON": (b"", JSON, "", 400),
    "zeros": (bytes(100_000), PROTOBUF, "", 400),
    "noise": (bytes(range(256)) * 400, PROTOBUF, "", 400),
    "nested JSON": (b'{"resourceLogs":' + b"[" * 1_000_000, JSON, "", 400),
    "nested Protobuf": (nested(5_000), PROTOBUF, "", 400),
    "length that lies": (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", PROTOBUF, "", 400),
    "endless number": (b"\x0a" + b"\xff" * 100_000, PROTOBUF, "", 400),
    "bomb": (ZEROS * 1_000, JSON, "gzip", 413),
    "bomb in a bomb": (zlib.compress(ZEROS * 100), JSON, "gzip, deflate", 413),
    "codings": (b"{}", JSON, ", ".join(["gzip"] * 1_000), 400),
}


def goes_on(what: str, daemon: Running, browser: Browser) -> None:
    """The daemon has no fault, and takes what comes next."""
    assert send(browser, encoded(request(*turn(f"after {what}")))) == 200
    with daemon.connect() as wire:
        assert f"after {what}" in [one["session"] for one in wire.ask("sessions")["sessions"]]
        assert wire.ask("stats").get("errors", {}) == {}


@pytest.mark.parametrize("what", TAKEN)
def test_batch_that_is_taken_breaks_nothing(what: str, served: tuple[Running, Browser]) -> None:
    daemon, browser = served
    assert send(browser, TAKEN[what], JSON if TAKEN[what] else PROTOBUF) == 200
    goes_on(what, daemon, browser)


@pytest.mark.parametrize("what", REFUSED)
def test_batch_that_is_refused_breaks_nothing(what: str, served: tuple[Running, Browser]) -> None:
    daemon, browser = served
    body, kind, coding, status = REFUSED[what]
    assert send(browser, body, kind, coding) == status
    goes_on(what, daemon, browser)


def test_what_is_sent_does_not_act_on_a_terminal(served: tuple[Running, Browser]) -> None:
    daemon, browser = served
    assert send(browser, TAKEN["control characters"]) == 200
    for words in (("sessions",), ("calls",), ("stats",), ("tail", "--after", "start", "--no-follow")):
        done = here(*words, "--socket", daemon.path)
        assert done.returncode == 0, done.stderr
        assert [one for one in ACTING if one in done.stdout + done.stderr] == []


def post(url: str, path: str, body: str) -> int:
    """Send a batch without the token."""
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    split = urlsplit(url)
    connection = HTTPConnection(split.hostname or "", split.port or 0, timeout=60)
    connection.request("POST", path, body.encode(), {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/traces", "/v1/metrics"])
def test_other_user_sends_nothing(served: tuple[Running, Browser], stranger: Stranger, path: str) -> None:
    daemon, browser = served
    assert stranger.run(post, browser.url, path, encoded(request(*turn("a stranger's"))).decode()) == 403
    with daemon.connect() as wire:
        assert "a stranger's" not in json.dumps(wire.ask("sessions"))
