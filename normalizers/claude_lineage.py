"""Which agent a line of a transcript belongs to, and which call spawned that agent.

From 2.0 on a subagent's lines name it (`agentId`). Before, its conversation stands among the main agent's lines
(`isSidechain`), begins with the prompt of its call, and goes on by `parentUuid` alone; such an agent has the id of its
call.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.claude_answers import text_of
from tooltap.normalizers.values import record, records, string

__all__ = ["Lineage", "LineageState"]

LINES = 4_096
AGENTS = 512


class LineageState(msgspec.Struct):
    lines: dict[str, str] = {}
    """Uuids of the last lines -> agent; empty for the main agent."""
    parents: dict[str, str] = {}
    """Agent -> call that spawned it."""
    prompts: dict[int, str] = {}
    """CRC of a subagent's prompt -> call that spawns it."""


class Lineage:
    def __init__(self, state: LineageState) -> None:
        self._state = state

    def seen(self, value: dict[str, Any]) -> bool:
        """Whether this very line was read before: a resumed session may write its history again."""
        return str(value.get("uuid")) in self._state.lines

    def note(self, value: dict[str, Any], agent: str) -> None:
        if uuid := string(value.get("uuid")):
            _keep(self._state.lines, uuid, agent, LINES)

    def spawn(self, agent: str, call_id: str) -> None:
        _keep(self._state.parents, agent, call_id, AGENTS)

    def spawns(self, message: dict[str, Any]) -> None:
        """Remember the prompts that calls of this message give to subagents."""
        for block in records(message.get("content")):
            call_id, prompt = string(block.get("id")), string(record(block.get("input")).get("prompt"))
            if block.get("type") == "tool_use" and call_id and prompt:
                _keep(self._state.prompts, _digest(prompt), call_id, AGENTS)

    def place(self, value: dict[str, Any]) -> tuple[str, str | None]:
        """(agent, spawning call) of a sidechain's line."""
        state = self._state
        agent = string(value.get("agentId")) or state.lines.get(str(value.get("parentUuid")))
        call_id = state.parents.get(agent) if agent else None
        if call_id is None and value.get("type") == "user":
            call_id = state.prompts.get(_digest(text_of(record(value.get("message")).get("content"))))
        agent = agent or call_id or string(value.get("uuid")) or "sidechain"
        if call_id is not None:
            self.spawn(agent, call_id)
        return agent, call_id


def _digest(prompt: str) -> int:
    return zlib.crc32(prompt.encode())


def _keep(table: dict[Any, str], key: Any, item: str, limit: int) -> None:
    table[key] = item
    while len(table) > limit:
        del table[next(iter(table))]
