"""Which hosts are this machine: what is there is asked without a proxy, and what listens there is for its user only."""

from __future__ import annotations

import ipaddress

__all__ = ["is_address", "is_loopback", "without_port"]


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
    """The name or address in a `Host` header, or in what else has an IPv6 address in brackets."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
