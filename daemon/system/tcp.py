"""TCP: recognizing this machine's own names and addresses, and listening on loopback only, unless the user allows
more."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from typing import NamedTuple

from tooltap.daemon.system.listener import BACKLOG, ListenError

_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{0,5})?")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_address(host: str) -> bool:
    """Whether it is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def without_port(host: str) -> str:
    """The name or address in a `Host` header; empty for anything else."""
    match = _HOST.fullmatch(host)
    return "" if match is None else match["address"] or match["name"]


LOOPBACK = "127.0.0.1"
EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1"}
"""Addresses to listen at -> addresses to connect to."""


class Address(NamedTuple):
    host: str
    port: int
    """Port number; 0: any free port."""


def parse_address(text: str) -> Address:
    """Read `HOST:PORT`, `[IPV6]:PORT`, or `:PORT` on loopback. Raises `ValueError` with what was expected."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"HOST:PORT, such as 127.0.0.1:8422, not {text!r}")
    return Address(host.strip("[]") or LOOPBACK, int(port))


def listen(address: Address, *, allow_remote: bool) -> socket.socket:
    """Listen at a TCP address. Raises `ListenError`."""
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
    """The URL of a listening socket, for programs on this machine."""
    host, port = listening.getsockname()[:2]
    host = EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
