"""How many connections there may be, of one user or address and of all, so that nobody shuts others out."""

from __future__ import annotations

from typing import Protocol

from tooltap.daemon.system.connections.peer import Peer


class Connection(Protocol):
    def give_way(self) -> None:
        """Close, because another one takes the place."""


class Shares:
    """`most`: connections of all; `each`: those of one user of this machine, or of one address.

    When all places are taken, a new connection gets that of the user or address with the most, unless it has as many
    itself. Our own user gets a place of any other one. So it takes as many users and addresses as there are places to
    shut out anybody else, and our own user is never shut out by others.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._held: dict[str, dict[Connection, None]] = {}
        self._places: dict[Connection, str] = {}

    def take(self, connection: Connection, peer: Peer) -> bool:
        """Return whether the connection has a place now."""
        own = self._held.get(peer.name, {})
        if len(own) >= self._each:
            return False
        if len(self._places) >= self._most and not self._make_place(peer, len(own)):
            return False
        self._held.setdefault(peer.name, {})[connection] = None
        self._places[connection] = peer.name
        return True

    def leave(self, connection: Connection) -> None:
        """Call it for every connection that has ended, whether it had a place or not."""
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
