"""The protocol of `tooltap mcp`, spoken by hand: what the SDK's client, in `test_mcp.py`, does not send."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import environment
from tooltap.daemon.taps.mcp.server import MAX_LINE, MAX_REQUESTS

ROOTS: dict[str, Any] = {"capabilities": {"roots": {}}}
SHOW = {"name": "display_image", "arguments": {"path": "none"}}


class Spoken:
    """A server, and a client that writes lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: Any = None, **about: Any) -> None:
        frame = {"jsonrpc": "2.0", "method": method, **about} | ({} if params is None else {"params": params})
        self.write(json.dumps(frame).encode())

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        self.send(method, params, id=method)
        answer = self.read()
        assert answer["id"] == method
        return answer


@pytest.fixture
def spoken(tmp_path: Path) -> Iterator[Spoken]:
    command = [sys.executable, "-m", "tooltap.cli", "mcp", "--socket", str(tmp_path / "none.sock")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), **pipes) as process:  # type: ignore[call-overload]
        try:
            yield Spoken(process)
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{", "a message is not JSON"),
        (b"\xff", "a message is not JSON"),
        (b"[]", "a message is not an object"),
        (b'{"method": "ping", "id": null}', "the id of a request is missing, or in use"),
        (b'{"method": "ping", "id": true}', "the id of a request is missing, or in use"),
        (b'{"method": "ping", "id": [1]}', "the id of a request is missing, or in use"),
        (b'"' + b"x" * MAX_LINE + b'"', f"a message has more than {MAX_LINE} bytes"),
    ],
    ids=["json", "utf-8", "list", "null", "bool", "object", "long"],
)
def test_message_that_is_none_is_refused_and_the_next_is_served(spoken: Spoken, line: bytes, error: str) -> None:
    spoken.write(line)
    assert (answer := spoken.read())["error"]["message"] == error
    assert answer["id"] is None
    assert spoken.ask("ping")["result"] == {}


def test_what_is_no_request_gets_no_answer(spoken: Spoken) -> None:
    for line in (b'{"id": "roots-1", "result": {}}', b'{"method": "notifications/other"}', b"{}", b""):
        spoken.write(line)
    assert spoken.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("wanted", "agreed"), [("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25"), (3, "2025-11-25")]
)
def test_version_that_is_not_known_gets_the_newest_with_a_handshake(spoken: Spoken, wanted: Any, agreed: str) -> None:
    assert spoken.ask("initialize", {"protocolVersion": wanted})["result"]["protocolVersion"] == agreed


def test_other_version_without_a_handshake_is_told_which_there_is(spoken: Spoken) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    error = spoken.ask("tools/list", {"_meta": meta})["error"]
    assert (error["code"], error["data"]) == (-32022, {"supported": ["2026-07-28"], "requested": "2099-01-01"})


def test_unknown_method_and_tool(spoken: Spoken) -> None:
    assert spoken.ask("resources/list")["error"]["code"] == -32601
    assert spoken.ask("tools/call", {"name": 1})["error"]["message"] == "`name` is not a string"
    result = spoken.ask("tools/call", {"name": "cat"})["result"]
    assert result["isError"]
    assert result["content"][0]["text"] == "There is no tool cat; there is render_file_contents, display_image."


def test_requests_are_bounded_and_can_be_cancelled(spoken: Spoken) -> None:
    """Each call waits for the client's roots, which it does not send."""
    spoken.ask("initialize", {"protocolVersion": "2025-11-25", **ROOTS})
    for number in range(MAX_REQUESTS):
        spoken.send("tools/call", SHOW, id=number)
    asked = [spoken.read() for _ in range(MAX_REQUESTS)]
    assert {one["method"] for one in asked} == {"roots/list"}

    assert spoken.ask("ping")["error"]["message"] == f"{MAX_REQUESTS} requests have no answer yet"
    spoken.send("notifications/cancelled", {"requestId": 0})
    assert spoken.ask("ping")["result"] == {}

    spoken.write(
        json.dumps({"id": asked[1]["id"], "result": {"roots": [{"uri": "https://example.org"}, 3, {}]}}).encode()
    )
    assert spoken.read()["result"]["isError"]


def test_requests_of_a_file_are_answered(tmp_path: Path) -> None:
    lines = b"".join(
        json.dumps({"id": number, "method": "tools/call", "params": SHOW}).encode() + b"\n" for number in range(9)
    )
    command = [sys.executable, "-m", "tooltap.cli", "mcp", "--socket", str(tmp_path / "none.sock")]
    finished = subprocess.run(command, input=lines, capture_output=True, cwd=tmp_path, env=environment(), check=True)
    answers = [json.loads(line) for line in finished.stdout.splitlines()]
    assert sorted(one["id"] for one in answers) == [*range(9)]
    assert all(one["result"]["isError"] for one in answers)


def test_client_that_no_longer_reads_does_no_harm(spoken: Spoken) -> None:
    assert spoken.ask("ping")["result"] == {}
    assert spoken.process.stdout is not None
    spoken.process.stdout.close()
    spoken.send("ping", id=1)
    spoken.send("ping", id=2)
    assert spoken.process.stdin is not None
    spoken.process.stdin.close()
    assert spoken.process.wait(10) == 0
