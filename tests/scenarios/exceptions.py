"""Exceptions: where a recorded run deviated from its script, or its wire does not state a fact; found in the recorded
lines."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EXCEPTIONS", "Excepted"]


class Excepted(NamedTuple):
    path: str
    """Pattern of the whole path below the fixtures."""
    about: str
    """Pattern of the kind of fact (`check.Miss.about`)."""
    what: str
    """Pattern that occurs in the description (`check.Miss.what`)."""
    why: str


EXCEPTIONS: tuple[Excepted, ...] = (
    # The run went another way.
    Excepted("acp/codex-acp-.*/reviewed.*", "status", "denied", "Codex's guardian refused the calls"),
    Excepted("acp/codex-acp-zed-.*/search.*", "status", "greet.*failed", "`rg` is not installed: exit code 127"),
    Excepted("acp/copilot-.*/sql.*", "call", "todo", "the list is a table: a statement changes one entry of it"),
    Excepted("acp/qwen-.*/loop-stopped.*", "text|end|call", "", "no `todo_write`; the agent stopped the loop"),
    Excepted("codex-exec/codex-0.169/mcp.*", "status", "denied", "with the policy `never` approvals are refused"),
    Excepted("codex-mcp/.*/mcp-approval-open.*", "status|end|result|call", "", "the recording stops at a request"),
    Excepted(".*/question-unavailable.*", "status", "AskUserQuestion", "the tool was not offered"),
    Excepted("codex-rollout/.*/subagent-with-history.*", ".*", "", "the child's file begins with its parent's history"),
    Excepted("droid-session/.*/thinking.*", "status|output", "Bash|day", "the call lacks a parameter, and is refused"),
    Excepted("gemini-stream/.*/tool-unavailable.*", "status", "rm README", "the tool was not offered"),
    Excepted("kimi-json/.*/interrupted.*", "end", "completed", "the model had finished before it was interrupted"),
    Excepted("(kimi-session|opencode-db)/.*/subagent.*", "output", "Grep", "`rg` is not installed"),
    Excepted("mini-trajectory/.*/shell.*", "end", "failed", "an answer without a call is an error to the agent"),
    Excepted("pi-json/.*/listing.*", "output", "Glob", "`fd` is not installed"),
    Excepted("vibe-session/.*/thinking.*", "end", "cancelled", "the recording stops before the turn ends"),
    Excepted("vibe-json/.*/tool-discovery.*", "call", "mcp:", "the model looks for tools, and runs them in a script"),
    # The wire does not say it.
    Excepted("acp/codex-acp-.*/retries.*", "end", "completed", "the turn ends with `end_turn`, the error is a text"),
    Excepted("acp/gemini-.*", "output", "(Read|Grep) lacks", "results end with `content: []`"),
    Excepted("(acp|gemini-stream)/gemini-.*/shell-fails.*", "status", "completed", "no exit code: it says success"),
    Excepted("codex-exec/.*/unicode.*", "call", "write", "a change of a file has only its path and kind"),
    Excepted("gemini-stream/.*/grep.*", "output", "Grep", "only the number of matches is on the wire"),
    Excepted("continue-session/.*/shell-fails.*", "output", "partial", "no output of a command that fails"),
    Excepted("(continue-session|gemini-stream|opencode-bus)/.*/mcp.*", "call", "mcp:", "no line names the server"),
)
