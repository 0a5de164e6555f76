"""Which hosts are this machine: they are reached without a proxy, and may serve their user without a login."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["is_address", "is_loopback", "without_port"]

_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{0,5})?")


def is_loopback(host: str) -> bool:
    """`host`: a name or an address."""
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
