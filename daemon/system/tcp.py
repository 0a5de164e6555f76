"""Listening on TCP: for this machine only, unless the user allows more."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from tooltap.daemon.system.addresses import is_loopback
from tooltap.daemon.system.listener import BACKLOG, ListenError

__all__ = ["Address", "listen", "parse_address", "url_of"]

LOOPBACK = "127.0.0.1"
EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1"}
"""Addresses to listen at -> addresses to connect to."""


class Address(NamedTuple):
    host: str
    port: int
    """0: any free port."""


def parse_address(text: str) -> Address:
    """Read `HOST:PORT`, `[IPV6]:PORT`, or `:PORT` on loopback. Raises `ValueError` with what was expected."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"HOST:PORT, such as 127.0.0.1:8422, not {text!r}")
    return Address(host.strip("[]") or LOOPBACK, int(port))


def listen(address: Address, *, allow_remote: bool) -> socket.socket:
    """Raises `ListenError`."""
    host, port = address
    if not allow_remote and not is_loopback(host):
        raise ListenError(f"{host} can be reached from other machines: that needs --allow-remote")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise ListenError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    except OSError as error:  # its own text would repeat the address
        raise ListenError(f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from None


def url_of(listening: socket.socket) -> str:
    """The URL for programs on this machine."""
    host, port = listening.getsockname()[:2]
    host = EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
