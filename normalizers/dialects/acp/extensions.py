"""What vendors add to the protocol: methods of their own, and lineage in `_meta`.

The protocol allows both. Methods that it does not define are skipped, whoever calls them; the names of the keys for
lineage are alike, whatever the vendor's object that they are in.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.wire.values import first_string

__all__ = ["is_extension", "stated_lineage"]

_OWN = frozenset({"$", "auth", "elicitation", "fs", "mcp", "providers", "session", "terminal", "tool_call"})
"""First parts of the protocol's own methods. What is unknown of these is a newer protocol, not an extension."""
_PARENTS = ("parentToolUseId", "parentToolCallId", "parent_tool_use_id", "parentToolUseID")
"""Claude Code's adapters; Qwen Code 0.24.4; the same in other spellings."""
_AGENTS = ("agentId", "agent_id")
"""Copilot CLI 1.0.102."""


def is_extension(method: str) -> bool:
    """Whether it is in the form of an extension's name (`_x`, `x/y`): a vendor's method or kind of update."""
    namespace, separator, _ = method.partition("/")
    return method.startswith("_") or (bool(separator) and namespace not in _OWN)


def stated_lineage(meta: Any) -> tuple[str | None, str | None]:
    """The call that spawned the subagent of an update, and the subagent."""
    if type(meta) is not dict:
        return None, None
    parent, agent = first_string(meta, *_PARENTS), first_string(meta, *_AGENTS)
    for owner in meta.values():
        if type(owner) is dict:
            parent = parent or first_string(owner, *_PARENTS)
            agent = agent or first_string(owner, *_AGENTS)
    return parent, agent
