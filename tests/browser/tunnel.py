"""A tunnel to a port, which can get stuck: it then forwards nothing and closes nothing."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

__all__ = ["Tunnel"]


class Tunnel:
    """`to`: the address of a site. Connections that are open when it gets stuck stay dead."""

    def __init__(self, to: str) -> None:
        self._to = (urlsplit(to).hostname, urlsplit(to).port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._stuck = threading.Event()
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stick(self) -> None:
        self._stuck.set()

    def free(self) -> None:
        """Forward again what connects from now on."""
        self._stuck = threading.Event()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._server.accept()
                stuck = self._stuck
                self._open.append(here)
                if stuck.is_set():
                    continue
                there = socket.create_connection(self._to)
                self._open.append(there)
                for one, other in ((here, there), (there, here)):
                    threading.Thread(target=_forward, args=(one, other, stuck), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._server, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _forward(one: socket.socket, other: socket.socket, stuck: threading.Event) -> None:
    with suppress(OSError):
        while data := one.recv(65_536):
            if not stuck.is_set():
                other.sendall(data)
        if not stuck.is_set():
            other.shutdown(socket.SHUT_WR)
