"""An HTTP server on loopback whose responses a test controls byte by byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

TIMEOUT = 30


class Request(NamedTuple):
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


class Response:
    """Writes a response exactly as given."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler

    def head(self, status: int, *headers: str) -> None:
        self.write("".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} Whatever", *headers, "")).encode())

    def write(self, data: bytes) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def chunk(self, data: bytes) -> None:
        """Write a chunk of a body with `Transfer-Encoding: chunked`; an empty chunk ends the body."""
        self.write(b"%x\r\n%s\r\n" % (len(data), data))

    def whole(self, status: int, body: bytes, *headers: str) -> None:
        self.head(status, f"Content-Length: {len(body)}", *headers)
        self.write(body)

    def stream(self, *chunks: bytes, kind: str = "text/event-stream", headers: tuple[str, ...] = ()) -> None:
        self.head(200, f"Content-Type: {kind}", "Transfer-Encoding: chunked", *headers)
        for chunk in chunks:
            self.chunk(chunk)
        self.chunk(b"")

    def break_off(self) -> None:
        """Close the connection after the response."""
        self._handler.close_connection = True

    def wait_until_left(self) -> None:
        """Wait until the client has closed the connection."""
        self._handler.connection.settimeout(TIMEOUT)
        assert self._handler.connection.recv(1) == b""
        self.break_off()


class HttpServer:
    """HTTP server that calls `respond` in a thread for each request. `port`: 0 for any; `bound`: a socket that has a
    port and does not listen yet, which is closed with the server."""

    def __init__(
        self, respond: Callable[[Request, Response], None], port: int = 0, *, bound: socket.socket | None = None
    ) -> None:
        self.requests: list[Request] = []
        self.connected = threading.Event()
        """Set when the head of a request has arrived."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                outer.connected.set()
                request = Request(self.command, self.path, self.headers.items(), self._body())
                outer.requests.append(request)
                respond(request, Response(self))

            def _body(self) -> bytes:
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("content-length", 0)))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            do_GET = do_POST = do_HEAD = do_DELETE = handle_any

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", port), Handler, bind_and_activate=bound is None)
        if bound is not None:
            self._server.socket.close()
            self._server.socket = bound
            self._server.server_port = bound.getsockname()[1]
            self._server.server_activate()
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that close the connection."""
