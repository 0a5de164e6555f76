"""Who is at the other end of a connection: which user of this machine, or which address.

The kernel knows the user of a Unix socket, and on Linux also that of a TCP connection from this machine: the socket at
its other end is one of ours to look up (`sock_diag`, as `ss` does it). An address alone says nothing there, because
every user may connect from any address of 127.0.0.0/8.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import sys
from typing import NamedTuple

from tooltap.daemon.system.listener import peer_uid

THIS_MACHINE = "this machine"
IPV6_SITE = 64
"""Bits of an IPv6 address that name a site: one machine may have all addresses that begin with them."""

# From <linux/sock_diag.h>, <linux/inet_diag.h> and <net/tcp_states.h>.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST = 4, 20, 1
_HEAD = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBBBI")
_ENDS = struct.Struct("!HH16s16s")
_ANY_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFF_FFFF, 0xFFFF_FFFF)
_FOUND = struct.Struct("=BBBB")
_OWNER = struct.Struct("=IIIII")
_ALL_STATES = 0xFFFF_FFFF
_LISTENING = 10


class Peer(NamedTuple):
    user: int | None
    """The user id, if it is a program on this machine and the system says whose."""
    address: str
    """The network address; empty for a Unix socket."""

    @property
    def is_us(self) -> bool:
        """Whether it is our own user."""
        return self.user == os.geteuid()

    @property
    def name(self) -> str:
        """What all connections have in common that one user, or one machine, may open."""
        if self.user is not None:
            return f"user {self.user}"
        try:
            address = ipaddress.ip_address(self.address.partition("%")[0])
        except ValueError:
            return self.address
        if address.is_loopback:
            return THIS_MACHINE
        if address.version == 6:
            return str(ipaddress.ip_network((address, IPV6_SITE), strict=False))
        return str(address)


def peer_of(connection: socket.socket) -> Peer:
    """Look at a connection that was just accepted: of one that the other end has closed, nobody knows the user."""
    if connection.family == socket.AF_UNIX:
        try:
            return Peer(peer_uid(connection), "")
        except OSError:
            return Peer(None, "")
    try:
        there, here = connection.getpeername()[:2], connection.getsockname()[:2]
    except OSError:  # it is gone
        return Peer(None, "")
    try:
        return Peer(user_of_tcp(connection.family, there, here), there[0])
    except OSError:  # a sandbox may forbid to ask
        return Peer(None, there[0])


def user_of_tcp(family: int, local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """Return the owner of the socket with these two ends; None if it is not on this machine, or unknown. Raises
    `OSError`."""
    if sys.platform != "linux":
        return None
    query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
    ends = _ENDS.pack(local[1], remote[1], _packed(family, local[0]), _packed(family, remote[0]))
    body = query + ends + _ANY_INTERFACE_AND_COOKIE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_SOCK_DIAG) as kernel:
        kernel.sendto(_HEAD.pack(_HEAD.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + body, (0, 0))
        answer = kernel.recv(4_096)  # the kernel has answered before `sendto` returns
    if _HEAD.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    _, state, _, _ = _FOUND.unpack_from(answer, _HEAD.size)
    found = answer[_HEAD.size + _FOUND.size :]
    *_, user, inode = _OWNER.unpack_from(found, _ENDS.size + len(_ANY_INTERFACE_AND_COOKIE))
    # Without such a socket the kernel names one that listens at the port. One without an inode was closed by its
    # program, and older kernels call it root's.
    is_the_one = state != _LISTENING and inode and found.startswith(ends)
    return user if is_the_one else None


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0]).ljust(16, b"\0")
