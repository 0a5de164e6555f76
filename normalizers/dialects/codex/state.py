"""What the Codex dialects remember between lines. The fields' names and types are the format of dumps."""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.running import RunningState
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.text_buffer import TextBuffer

__all__ = ["CodexState", "Said", "Thread"]


class Said(msgspec.Struct):
    """A block of text that was emitted, and the forms in which it has arrived so far."""

    role: str
    digest: int
    forms: list[str]


class Thread(msgspec.Struct, omit_defaults=True):
    """One Codex thread: a session, or a subagent."""

    ended: str | None = None
    """The turn that ended last."""
    failed: str | None = None
    """Why the running turn will fail, once an error has been reported."""
    said: list[Said] = []
    """Texts of the running turn; newest last."""
    receiving: dict[str, str] = {}
    """Key of a text that arrives in deltas -> its role."""
    usage: list[int | None] = []
    """The figures emitted last."""
    rate_limit: str | None = None
    """The limit that was reported as reached."""
    mcp_failures: list[str] = []
    """MCP servers whose failure to start was reported."""
    settings: dict[str, str] = {}
    """The `cwd`, `model` and `mode` that were emitted last."""
    script: str | None = None
    """The newest call of the tool that runs tools (code mode)."""
    plan_call: str | None = None
    """The newest `update_plan` call."""
    searches: int = 0
    """Web searches that ended and were not yet repeated as a response item, which has no id in 0.120."""
    diff: TextBuffer | None = None
    """The running turn's accumulated diff."""
    diff_digest: int = 0


class CodexState(State, kw_only=True):
    agent_version: str | None = None
    threads: dict[str, Thread] = msgspec.field(default_factory=dict)
    running: RunningState = msgspec.field(default_factory=RunningState)
    made_up: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind of call -> how many of them got a synthetic id: plans, diffs, searches without one."""
