"""Accepting connections (also at the limit of open files), identifying the user at the other end, and fair limits per
user or address, so that no client can lock others out.

The kernel knows the user of a Unix socket, and on Linux also the user of a TCP connection from this machine: the socket
at the other end can be looked up (`sock_diag`, as `ss` does). An address alone does not identify a local user, because
every user may connect from any address of 127.0.0.0/8.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import resource
import socket
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tooltap.daemon.system.listener import peer_uid
from tooltap.daemon.system.logs import Trouble, get_logger

AT_ONCE = 128
"""Most connections accepted in one turn of the event loop."""
PAUSE = 1.0
"""Seconds to wait after `accept` has failed."""

_log = get_logger("process")


def allow_open_files(wanted: int) -> None:
    """Raise the limit of open files, 256 or 1,024 on many systems, to `wanted`, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
        except (OSError, ValueError):
            _log.warning("cannot raise the limit of open files", limit=soft, wanted=wanted)


class Acceptor:
    """Accepts connections in an event loop. `protocol` makes the protocol of a new connection.

    When file descriptors run out, asyncio's own server (Python 3.11) logs a thousand tracebacks a second, and more when
    it is closed. This one logs one sentence, accepts nothing for `PAUSE` seconds, and clients wait in the accept queue.
    """

    def __init__(self, listening: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self.trouble = Trouble(_log, "no connection can be accepted; clients wait", "connections are accepted again")
        self._listening = listening
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Accept no more, and close the socket."""
        if self._again is not None:
            self._again.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                self.trouble.end()
                return
            except OSError as error:
                self._pause(error.strerror or str(error))
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # the client is gone
            connection.close()

    def _pause(self, problem: str) -> None:
        self.trouble.begin(problem)
        self._loop.remove_reader(self._listening)
        self._again = self._loop.call_later(PAUSE, self._loop.add_reader, self._listening, self._accept)


# -- who is at the other end ------------------------------------------------------------------------------------------

THIS_MACHINE = "this machine"
IPV6_SITE = 64
"""Prefix length of an IPv6 site: one machine may own all addresses of a prefix."""

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
    """User id of the program at the other end; None if it is on another machine or unknown."""
    address: str
    """The network address; empty for a Unix socket."""

    @property
    def is_us(self) -> bool:
        """Whether the peer has the user id of this process."""
        return self.user == os.geteuid()

    @property
    def name(self) -> str:
        """Key by which connections are counted: the user, or the address; for IPv6, the site prefix."""
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
    """Identify the peer of a connection. Call right after accepting it: once the other end is closed, the user is
    unknown."""
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
    """Return the user id of the local process that owns the TCP socket with these two ends; None if it is not on this
    machine, or unknown. Raises `OSError`."""
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


# -- how many connections ---------------------------------------------------------------------------------------------


class Connection(Protocol):
    def give_way(self) -> None:
        """Close the connection: it is evicted in favor of another one."""


class Shares:
    """Fair allocation of connections. `most`: limit of all connections; `each`: limit per user of this machine, or per
    address.

    When all places are taken, a new connection evicts one of the user or address with the most connections, unless its
    own user or address has as many. Our own user can always evict others. So locking out others takes as many users and
    addresses as there are places, and our own user cannot be locked out.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._held: dict[str, dict[Connection, None]] = {}
        self._places: dict[Connection, str] = {}

    def take(self, connection: Connection, peer: Peer) -> bool:
        """Take a place for a connection, if necessary by evicting another one. Returns False if it cannot have one."""
        own = self._held.get(peer.name, {})
        if len(own) >= self._each:
            return False
        if len(self._places) >= self._most and not self._make_place(peer, len(own)):
            return False
        self._held.setdefault(peer.name, {})[connection] = None
        self._places[connection] = peer.name
        return True

    def leave(self, connection: Connection) -> None:
        """Release the place of a connection that has ended. Does nothing if it had none."""
        if (name := self._places.pop(connection, None)) is not None:
            del self._held[name][connection]
            if not self._held[name]:
                del self._held[name]

    def _make_place(self, peer: Peer, has: int) -> bool:
        others = [name for name in self._held if name != peer.name]
        largest = max(others, key=lambda name: len(self._held[name]), default=None)
        if largest is None or not (peer.is_us or len(self._held[largest]) > has + 1):
            return False
        loser = next(reversed(self._held[largest]))  # its newest: it has done the least yet
        self.leave(loser)
        loser.give_way()
        return True
