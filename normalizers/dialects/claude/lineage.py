"""Which agent a line of a transcript belongs to, and which call spawned that agent.

From 2.0 on a subagent's lines name it (`agentId`). Before, its conversation is among the main agent's lines
(`isSidechain`), begins with the prompt of its call, and continues by `parentUuid` alone; such an agent has the id of
its call.
"""

from __future__ import annotations

import zlib

import msgspec

from tooltap.normalizers.core.bounded import put
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.wire.values import record, string

LINES = 4_096
AGENTS = 512


class Asked(msgspec.Struct, omit_defaults=True):
    """A prompt that calls gave to subagents."""

    waiting: list[str] = []
    """Calls whose subagent was not seen yet, oldest first."""
    last: str | None = None
    """The call whose subagent was seen last."""


class Lineage(msgspec.Struct):
    lines: dict[str, str] = {}
    """Uuids of the last lines -> agent; empty for the main agent."""
    parents: dict[str, str] = {}
    """Agent -> call that spawned it."""
    prompts: dict[int, Asked] = {}
    """By the prompt's CRC."""

    def seen(self, value: Line) -> bool:
        """Whether this very line was read before: a resumed session may write its history again."""
        return str(value.get("uuid")) in self.lines

    def remember(self, value: Line, agent: str) -> None:
        uuid = value.get("uuid")
        if uuid and type(uuid) is str:
            put(self.lines, uuid, agent, LINES)

    def spawned(self, agent: str, call_id: str) -> None:
        if self.parents.get(agent) != call_id:
            put(self.parents, agent, call_id, AGENTS)
            for asked in self.prompts.values():
                if call_id in asked.waiting:
                    asked.waiting.remove(call_id)

    def expect(self, message: Line) -> None:
        """Remember the prompts that calls of this message give to subagents."""
        if type(content := message.get("content")) is not list:
            return
        for block in content:
            if type(block) is not dict or block.get("type") != "tool_use" or "prompt" not in record(block.get("input")):
                continue
            call_id, prompt = string(block.get("id")), string(block["input"]["prompt"])
            if call_id and prompt:
                digest = zlib.crc32(prompt.encode())
                asked = self.prompts.pop(digest, None) or Asked()
                if call_id not in (*asked.waiting, asked.last):
                    asked.waiting = [*asked.waiting, call_id][-AGENTS:]
                put(self.prompts, digest, asked, AGENTS)

    def place(self, value: Line) -> tuple[str, str | None]:
        """(agent, spawning call) of a sidechain's line."""
        known = (self.lines.get(str(value.get(key))) for key in ("uuid", "parentUuid"))
        agent = string(value.get("agentId")) or next((one for one in known if one), None)
        call_id = self.parents.get(agent) if agent else None
        if call_id is None and value.get("type") == "user":
            call_id = self._asked(text_of(record(value.get("message")).get("content")))
        agent = agent or call_id or string(value.get("uuid")) or "sidechain"
        if call_id is not None:
            self.spawned(agent, call_id)
        return agent, call_id

    def _asked(self, prompt: str) -> str | None:
        """The call that gave a subagent its prompt. Calls with the same prompt have a subagent each; before 2.0 no line
        says which, so they are assigned in order."""
        asked = self.prompts.get(zlib.crc32(prompt.encode()))
        if asked is None:
            return None
        if asked.waiting:
            asked.last = asked.waiting.pop(0)
        return asked.last
