"""Output bodies over HTTP: type, ranges, expiry, and the sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.daemon.events import commit, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed, store
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.web.api.outputs import Span, UnsatisfiableError, requested_span
from tooltap.normalizers.core.items import OutputChunk

BODY = bytes(range(256)) * 4
PLACE = "/api/outputs/s%2Fa:1:o0"


@pytest.fixture(scope="module")
def stored(common: tuple[Running, Browser]) -> Browser:
    """A browser of a daemon that has the body."""
    daemon, browser = common
    keep(daemon, BODY)
    return browser


def keep(daemon: Running, data: bytes, mime_type: str = "application/x-test") -> None:
    daemon.commit(commit(OutputChunk("s/a:1:o0", 0, data, mime_type), message("m", "s/a"), stream="s/a"))


def test_whole_body_has_its_type(stored: Browser) -> None:
    answer = stored.get(PLACE)

    assert (answer.status, answer.body) == (200, BODY)
    assert answer.headers["content-type"] == "application/x-test"
    assert answer.headers["content-length"] == "1024"
    assert answer.headers["accept-ranges"] == "bytes"
    assert stored.get("/api/outputs/s/a:1:o0").body == BODY


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-0", BODY[:1]),
        ("bytes=0-", BODY),
        ("bytes=10-19", BODY[10:20]),
        ("bytes=1000-9999", BODY[1_000:]),
        ("bytes=1023-", BODY[-1:]),
        ("bytes=-24", BODY[-24:]),
        ("bytes=-9999", BODY),
        ("Bytes= 1-2 ", BODY[1:3]),
    ],
)
def test_range_is_partial_content(stored: Browser, asked: str, part: bytes) -> None:
    answer = stored.get(PLACE, {"Range": asked})

    start = BODY.index(part) if len(part) > 256 else 1024 - len(part) if BODY.endswith(part) else BODY.index(part)
    assert (answer.status, answer.body) == (206, part)
    assert answer.headers["content-range"] == f"bytes {start}-{start + len(part) - 1}/1024"
    assert answer.headers["content-length"] == str(len(part))


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=9999-10000", "bytes=-0"])
def test_range_beyond_end_is_unsatisfiable(stored: Browser, asked: str) -> None:
    answer = stored.get(PLACE, {"Range": asked})

    assert answer.error == (416, "no-such-range", "the output has 1024 bytes")
    assert answer.headers["content-range"] == "bytes */1024"


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=5-2"},
        {"Range": "bytes=0-1,5-6"},
        {"Range": "bytes=-"},
        {"Range": "bytes=a-b"},
        {"Range": "bytes=" + "9" * 5_000 + "-"},
        {"Range": "lines=0-1"},
        {"Range": "bytes=0-1", "If-Range": '"tag"'},
    ],
)
def test_invalid_range_returns_whole_body(stored: Browser, headers: dict[str, str]) -> None:
    """RFC 9110, 14.2: an invalid `Range` is ignored."""
    answer = stored.get(PLACE, headers)

    assert (answer.status, answer.body) == (200, BODY)


@given(st.integers(0, 300), st.integers(0, 400) | st.none(), st.integers(0, 400) | st.none())
def test_span_equals_slice(size: int, first: int | None, last: int | None) -> None:
    header = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    body = bytes(number % 251 for number in range(size))
    if (first is None and last is None) or (first is not None and last is not None and last < first):
        assert requested_span(header, size) is None
        return
    if first is None:
        expected = body[max(size - (last or 0), 0) :]
    else:
        expected = body[first:] if last is None else body[first : last + 1]
    if not expected:
        with pytest.raises(UnsatisfiableError):
            requested_span(header, size)
        return

    span = requested_span(header, size)

    assert span is not None
    assert body[span.start : span.end] == expected
    assert 0 <= span.start < span.end <= size


@given(st.text(max_size=30) | st.from_regex(r"bytes=[0-9,\- ]*", fullmatch=True), st.integers(0, 2**40))
def test_any_header_yields_valid_span(header: str, size: int) -> None:
    try:
        span = requested_span(header, size)
    except UnsatisfiableError:
        return

    assert span is None or (isinstance(span, Span) and 0 <= span.start < span.end <= size)


def test_long_body_is_sent_in_slices(daemon: Running, browser: Browser) -> None:
    body = bytes(number % 251 for number in range(3_000_000))
    keep(daemon, body)

    assert browser.get(PLACE).body == body
    assert browser.get(PLACE, {"Range": "bytes=1000000-2500000"}).body == body[1_000_000:2_500_001]


def test_empty_body(daemon: Running, browser: Browser) -> None:
    keep(daemon, b"", "text/plain")

    assert (browser.get(PLACE).status, browser.get(PLACE).body) == (200, b"")
    assert browser.get(PLACE, {"Range": "bytes=0-"}).status == 416


def test_head_has_headers_only(stored: Browser) -> None:
    whole = stored.get(PLACE, method="HEAD")
    part = stored.get(PLACE, {"Range": "bytes=-5"}, method="HEAD")

    assert (whole.status, whole.body, whole.headers["content-length"]) == (200, b"", "1024")
    assert (part.status, part.body, part.headers["content-length"]) == (206, b"", "5")


@pytest.mark.parametrize(
    ("mime_type", "sent", "shown"),
    [
        ("image/png", "image/png", True),
        ("text/plain", "text/plain; charset=utf-8", True),
        ("text/plain; charset=latin-1", "text/plain; charset=utf-8", True),
        ("audio/wav", "audio/wav", True),
        ("text/html", "text/html; charset=utf-8", False),
        ("TEXT/HTML", "text/html; charset=utf-8", False),
        ("image/svg+xml", "image/svg+xml", False),
        ("application/xhtml+xml", "application/xhtml+xml", False),
        ("text/xml", "text/xml; charset=utf-8", False),
        ("application/pdf", "application/pdf", False),
        ("text/javascript", "text/javascript; charset=utf-8", False),
        ("application/json", "application/json", False),
        ("", "application/octet-stream", False),
        ("image/png\r\nSet-Cookie: a=b", "application/octet-stream", False),
        ("image/png x", "application/octet-stream", False),
        ("bild/ä", "application/octet-stream", False),
    ],
)
def test_bodies_are_sandboxed(daemon: Running, browser: Browser, mime_type: str, sent: str, shown: bool) -> None:
    """A type that a browser might run is a download; all are sandboxed."""
    keep(daemon, b"<script>alert(1)</script>", mime_type)

    answer = browser.get(PLACE)

    assert answer.body == b"<script>alert(1)</script>"
    assert answer.headers["content-type"] == sent
    assert answer.headers["content-disposition"].startswith("inline;" if shown else "attachment;")
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/me/app.py", "app.py"),
        ("/a/ä b.txt", "%C3%A4%20b.txt"),
        ('/a/x"; filename="y', "x%22%3B%20filename%3D%22y"),
        ("/a/x\r\nSet-Cookie: a=b", "x%0D%0ASet-Cookie%3A%20a%3Db"),
        ("C:\\x\\..\\y.txt", "y.txt"),
        ("/a/", "output"),
    ],
)
def test_download_has_file_name(daemon: Running, browser: Browser, path: str, name: str) -> None:
    answer = browser.get(f"/api/outputs/{store(daemon.connect(), b'x', path=path)}")

    assert answer.headers["content-disposition"] == f"inline; filename*=UTF-8''{name}"
    assert "set-cookie" not in answer.headers


def test_json_output_has_metadata(daemon: Running, browser: Browser) -> None:
    output_id = store(daemon.connect(), "eins\nzwei\ndrü".encode(), path="/a.txt", language="text")

    whole = browser.get(f"/api/outputs/{output_id}?format=json").json
    lines = browser.get(f"/api/outputs/{output_id}?format=json&unit=lines&offset=1&length=1").json

    about = {"mimeType": "text/plain", "type": "file", "path": "/a.txt", "language": "text"}
    assert whole == {"text": "eins\nzwei\ndrü", "offset": 0, "length": 14, "total": 14, "unit": "bytes", **about}
    assert lines == {"text": "zwei\n", "offset": 1, "length": 1, "total": 3, "unit": "lines", **about}
    assert json.dumps(browser.get(f"/api/outputs/{store(daemon.connect(), b'ff')}?format=json").json)


def test_json_output_encodes_binary_as_base64(daemon: Running, browser: Browser) -> None:
    keep(daemon, b"\xff\x00")

    assert browser.get(f"{PLACE}?format=json").json["b64"] == "/wA="


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("format=xml", "`format`: invalid enum value 'xml'"),
        ("format=json&length=0", "`length`: expected `int` >= 1"),
        ("format=json&unit=words", "`unit`: invalid enum value 'words'"),
        ("offset=1", "unknown key `offset`; the keys here: none"),
    ],
)
def test_bad_request_is_one_sentence(stored: Browser, query: str, sentence: str) -> None:
    assert stored.get(f"{PLACE}?{query}").error == (400, "bad-query", sentence)


@pytest.mark.parametrize("suffix", ["", "?format=json"])
def test_unknown_output_is_not_found(stored: Browser, suffix: str) -> None:
    for output_id in ("x", "s:1:o0", "..%2f..%2fetc%2fpasswd", "%00", "display-0123456789abcdef-00000000"):
        answer = stored.get(f"/api/outputs/{output_id}{suffix}")
        assert answer.error[:2] == (404, "not-found")
    assert stored.get(f"/api/outputs/{'x' * 501}{suffix}").status in (400, 404)


@pytest.mark.parametrize("suffix", ["", "?format=json"])
def test_expired_output_is_gone(tmp_path: Path, suffix: str) -> None:
    with browsed(tmp_path, output_cache_bytes=4_096) as (daemon, browser):
        output_id = store(daemon.connect(), b"x" * 3_000)
        store(daemon.connect(), b"y" * 3_000)
        keep(daemon, BODY)
        piece = OutputChunk("o:1:o0", 0, b"x", "text/plain")
        daemon.commit(commit(piece, message("m", "o", session="gone"), stream="o", state="ended"))
        daemon.expire(wall_clock() + 1)

        for gone in (output_id, "o:1:o0"):
            status, code, sentence = browser.get(f"/api/outputs/{gone}{suffix}").error
            assert (status, code) == (410, "expired")
            assert sentence.startswith(f"output '{gone}' has expired")


def test_body_expiring_while_sent_breaks_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    size = 30_000_000
    with browsed(tmp_path, output_cache_bytes=size + 1) as (daemon, browser):
        output_id = store(daemon.connect(), b"x" * size)
        with browser.connect() as connection:
            head = f"GET /api/outputs/{output_id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {browser.token}"
            connection.sendall(f"{head}\r\n\r\n".encode())
            received = len(connection.recv(1_000))
            store(daemon.connect(), b"y" * size)
            while data := connection.recv(1_000_000):
                received += len(data)

        assert received < size
        assert browser.get(f"/api/outputs/{output_id}").status == 410
    assert not caplog.records
