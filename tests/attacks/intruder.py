"""Attacks of another user: functions for `Stranger.run`, so each of them imports what it needs."""

from __future__ import annotations

from typing import Any

__all__ = ["ask", "connect_unix", "flood", "hold", "send_and_leave"]


def connect_unix(path: str, sent: str) -> str:
    """Connect to a Unix socket, send this, and return all that comes."""
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(path)
        answer = b""
        try:
            connection.sendall(sent.encode())
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # closed already; what was said before can be read
            pass
        try:
            while data := connection.recv(65_536):
                answer += data
        except ConnectionResetError:  # what was sent is not read
            pass
        return answer.decode()


def ask(url: str, target: str, headers: dict[str, str], source: str = "127.0.0.1", half_close: bool = False) -> Any:
    """Send a request from an address of this machine; return the status and the body of the response."""
    import http.client
    import socket
    import urllib.parse

    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30, source_address=(source, 0))
    try:
        connection.putrequest("GET", target, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        if half_close:
            connection.sock.shutdown(socket.SHUT_WR)
        response = connection.getresponse()
        return [response.status, response.read().decode()]
    finally:
        connection.close()


def send_and_leave(host: str, port: int, request: str) -> None:
    """Send a request and disconnect before the server can look up whose connection it is."""
    import socket

    for _ in range(20):
        with socket.create_connection((host, port)) as connection:
            connection.sendall(request.encode())


def hold(place: Any, count: int) -> int:
    """Open `count` connections, from many addresses, and keep them until the process ends; return how many were opened.
    `place`: the path of a Unix socket, or host and port."""
    import socket
    import sys

    held = sys.__dict__.setdefault("held", [])
    for number in range(count):
        try:
            if isinstance(place, str):
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(place)
            else:
                source = (f"127.0.0.{1 + number % 200}", 0)
                connection = socket.create_connection(tuple(place), timeout=30, source_address=source)
        except OSError:
            continue
        held.append(connection)
    return len(held)


def flood(path: str, seconds: float, least: int) -> int:
    """Connect to a Unix socket as often as possible, and at least so many times."""
    import socket
    import time

    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end or count < least:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(path)
                count += 1
            except OSError:
                pass
    return count
