"""Addresses to listen at, and the messages for wrong ones."""

from __future__ import annotations

import socket

import pytest

from tooltap.daemon.system.listener import ListenError
from tooltap.daemon.system.tcp import Address, listen, parse_address, url_of


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8422", ("127.0.0.1", 8422)),
        ("localhost:0", ("localhost", 0)),
        (":80", ("127.0.0.1", 80)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_address_is_parsed(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "8422", "host", "host:", "host:x", "host:65536", "host:-1", "host:²"])
def test_wrong_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT, such as 127\.0\.0\.1:8422, not"):
        parse_address(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com", ""])
def test_remote_address_must_be_allowed(host: str) -> None:
    with pytest.raises(ListenError, match="can be reached from other machines: that needs --allow-remote"):
        listen(Address(host, 0), allow_remote=False)


def test_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenError, match=f"^cannot listen on 127.0.0.1:{port}: Address already in use$"):
            listen(Address("127.0.0.1", port), allow_remote=False)


def test_unknown_host_is_one_sentence() -> None:
    with pytest.raises(ListenError, match=r"^cannot listen on no\.such\.invalid:1: "):
        listen(Address("no.such.invalid", 1), allow_remote=True)


@pytest.mark.parametrize(("host", "named"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")])
def test_url_is_local(host: str, named: str) -> None:
    with listen(Address(host, 0), allow_remote=True) as listening:
        port = listening.getsockname()[1]

        assert url_of(listening) == f"http://{named}:{port}"
        socket.create_connection((named.strip("[]"), port)).close()
