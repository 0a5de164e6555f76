"""Requests whose end two servers could see in different places are refused."""

from __future__ import annotations

import h11
import pytest

from tooltap.daemon.system.http_server import StrictConnection

LENGTH = "a request has one Content-Length, which is a number"
ONE_LINE = "a header of a request is one line"
LINES = "a line of a request ends with CR and LF"
BOTH = "a request has a Content-Length or a Transfer-Encoding, not both"


def request(*fields: str, version: str = "1.1", end: str = "\r\n") -> StrictConnection:
    connection = StrictConnection(65_536)
    head = "".join(f"{line}{end}" for line in (f"POST /x HTTP/{version}", "Host: localhost", *fields, ""))
    connection.receive_data(head.encode() + b"5\r\nhello\r\n0\r\n\r\n")
    return connection


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (["Content-Length: 5", "Content-Length: 5"], LENGTH),
        (["Content-Length: 5", "X: y", "content-length: 5"], LENGTH),
        (["Content-Length: 5, 5"], LENGTH),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], BOTH),
        (["Transfer-Encoding: chunked", "Content-Length: 0"], BOTH),
        (["Transfer-Encoding: CHUNKED", "Content-Length: 5"], BOTH),
        (["Content-Length:", " 5"], ONE_LINE),
        (["Content-Length: 5", " , 5"], ONE_LINE),
        (["X: y", "\tContent-Length: 5"], ONE_LINE),
        (["X: y\nContent-Length: 5"], LINES),
        (["Content-Length: 5\n"], LINES),
    ],
)
def test_ambiguous_request_is_refused(fields: list[str], sentence: str) -> None:
    connection = request(*fields)
    with pytest.raises(h11.RemoteProtocolError):
        connection.next_event()

    assert connection.mistake == sentence


@pytest.mark.parametrize(
    "fields",
    [
        ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: +5"],
        ["Content-Length: -5"],
        ["Content-Length: 5 5"],
        ["Content-Length: 0x5"],
        ["Content-Length: 5.0"],
        ["Content-Length: 1_0"],
        ["Content-Length: 5;"],
        ["Content-Length: \u0665"],
        ["Content-Length: " + "9" * 30],
        ["Content-Length : 5"],
        [" Content-Length: 5"],
        ["Content-Length\t: 5"],
        ["Content-Length"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding : chunked"],
        ["Transfer-Encoding: \x0bchunked"],
        ["Transfer-Encoding: chunked\rX: y"],
        ["X: y\rContent-Length: 5"],
        ["X: \0"],
    ],
)
def test_wrong_length_is_refused(fields: list[str]) -> None:
    """Some of them h11 refuses itself."""
    with pytest.raises(h11.RemoteProtocolError):
        request(*fields).next_event()


def test_lines_without_cr_are_refused() -> None:
    connection = request("Content-Length: 5", end="\n")
    with pytest.raises(h11.RemoteProtocolError):
        connection.next_event()

    assert connection.mistake == LINES


def test_coding_in_http_1_0_is_refused() -> None:
    with pytest.raises(h11.RemoteProtocolError):
        request("Transfer-Encoding: chunked", version="1.0").next_event()


@pytest.mark.parametrize(
    "field", ["Content-Length: 5", "Content-Length:5", "Content-Length: \t5 ", "Transfer-Encoding: Chunked", "X: y"]
)
def test_clear_request_is_read(field: str) -> None:
    assert isinstance(request(field).next_event(), h11.Request)


def test_head_in_pieces_and_requests_in_a_row_are_read_alike() -> None:
    connection = StrictConnection(65_536)
    good = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    for index in range(len(good)):
        assert connection.next_event() is h11.NEED_DATA
        connection.receive_data(good[index : index + 1])
        if isinstance(event := connection.next_event(), h11.Request):
            break
    connection.receive_data(good[index + 1 :] + good.replace(b"5\r\n", b"5\r\nContent-Length: 5\r\n"))
    while not isinstance(event, h11.EndOfMessage):
        event = connection.next_event()
    connection.send(h11.Response(status_code=204, headers=[]))
    connection.send(h11.EndOfMessage())
    connection.start_next_cycle()

    with pytest.raises(h11.RemoteProtocolError):
        connection.next_event()
    assert connection.mistake == LENGTH
