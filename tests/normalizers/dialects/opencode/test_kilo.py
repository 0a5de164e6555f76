"""Kilo Code, a fork of OpenCode: its lines are read as OpenCode's, under its own name."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import FIXTURES, of, read
from tooltap.normalizers.catalog.registry import original, product_names, products, provider_of_fork
from tooltap.protocol.events import Event, ToolResult, Usage, encode
from tooltap.testing import Line, normalize, read_recording

SPOKEN = FIXTURES / "acp" / "kilo-7.7.9" / "shell.jsonl"


def test_fork_has_a_name_of_its_own() -> None:
    names = product_names()

    assert (names["kilo"], names["opencode"]) == ("Kilo Code", "OpenCode")
    assert {"Kilo Code", "OpenCode"} <= set(products())
    assert (original("kilo"), original("opencode"), original("nobody")) == ("opencode", "opencode", "nobody")
    assert (provider_of_fork("kilo"), provider_of_fork("opencode"), provider_of_fork("")) == ("kilo", None, None)


def test_what_it_speaks_means_what_it_means_in_opencode() -> None:
    """Also what a cost and tokens cover, and how a tool that was called wrongly ends."""
    lines = read_recording(SPOKEN.read_bytes())
    renamed = [Line(_renamed(line.data), line.t, line.direction) for line in lines]
    ours, theirs = normalize("acp", lines), normalize("acp", renamed)

    assert {one.provider for one in ours[1:]} == {"kilo"}
    assert [_without_names(one) for one in ours] == [_without_names(one) for one in theirs]
    assert [(one.scope, one.counter) for one in of(Usage, ours)] == [("session", "lineage"), ("step", None)]


def test_tool_that_was_called_wrongly_fails() -> None:
    start = {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"protocolVersion": 1, "agentInfo": {"name": "Kilo", "version": "7.7.9"}},
    }
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "invalid", "kind": "other", "status": "pending"}
    ended = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "title": "Invalid Tool",
        "status": "completed",
        "rawInput": {"error": "no such tool"},
        "rawOutput": {"output": "The arguments are invalid", "metadata": {}},
    }
    params = [{"sessionId": "s", "update": one} for one in (update, ended)]
    found = read("acp", start, *({"jsonrpc": "2.0", "method": "session/update", "params": one} for one in params))

    assert [(one.provider, one.status) for one in of(ToolResult, found)] == [("kilo", "failed")]


def _renamed(line: Any) -> bytes:
    return bytes(line).replace(b'"name":"Kilo"', b'"name":"OpenCode"')


def _without_names(event: Event) -> bytes:
    return encode(event).replace(b'"kilo"', b'"opencode"')
