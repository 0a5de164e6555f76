"""Kimi CLI, and its successor Kimi Code."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, Prompt, Store
from tooltap.normalizers.wire.values import record, records


def _is_kimi_json(value: dict[str, Any]) -> bool:
    if "jsonrpc" in value:
        return _is_wire(value)
    role = value.get("role")
    if role == "meta":
        return isinstance(value.get("type"), str)
    if not value.keys() <= {"role", "content", "tool_calls", "tool_call_id"}:
        return False
    content = value.get("content")
    if "content" not in value:  # Kimi Code; in APIs, the content beside calls is null
        return role == "assistant" and bool(records(value.get("tool_calls")))
    if not isinstance(content, str | list):
        return False
    if isinstance(content, list) and any(record(part).get("type") in _ANTHROPIC_BLOCKS for part in content):
        return False
    return role == "assistant" or (role == "tool" and isinstance(value.get("tool_call_id"), str))


_ANTHROPIC_BLOCKS = ("redacted_thinking", "thinking", "tool_result", "tool_use")
"""Types of parts that only messages of Anthropic's API have; in both APIs, messages have the same keys."""


def _is_wire(value: dict[str, Any]) -> bool:
    method, params = value.get("method"), record(value.get("params"))
    if method in ("event", "request"):
        return isinstance(params.get("type"), str) and isinstance(params.get("payload"), dict)
    if method == "initialize":  # MCP and ACP have `protocolVersion`
        return "protocol_version" in params
    if method in ("prompt", "steer"):
        return "user_input" in params
    result = record(value.get("result"))
    return "protocol_version" in result or ("request_id" in result and bool(result.keys() & {"response", "answers"}))


def _is_kimi_wire(value: dict[str, Any]) -> bool:
    if value.get("type") == "metadata":
        return isinstance(value.get("protocol_version"), str) and "created_at" not in value
    message = value.get("message")
    return (
        isinstance(message, dict)
        and isinstance(message.get("type"), str)
        and isinstance(message.get("payload"), dict)
        and value.keys() == {"timestamp", "message"}
    )


def _is_kimi_session(value: dict[str, Any]) -> bool:
    kind = str(value.get("type"))
    if kind == "metadata":
        return value.keys() >= {"protocol_version", "created_at"}
    is_event = isinstance(value.get("agentId"), str) or value.get("kind") == "event"
    return is_event and "." in kind and isinstance(value.get("time"), int)


PRODUCT = "Kimi"

DIALECTS = (
    Dialect(
        "kimi-json",
        "parser:KimiJson",
        _is_kimi_json,
        reads="Kimi's printed messages, and its wire mode: JSON-RPC, both directions",
        tapped_with="`tooltap run -- kimi --print --output-format stream-json …`, in Kimi Code "
        "`tooltap run -- kimi -p … --output-format stream-json`; wire mode: `tooltap proxy -- kimi --wire`",
        arrives="streams blocks; in wire mode: streams text",
        omits="cost; the session's id, which Kimi Code prints last. Printed messages have no prompts, permission "
        "requests and tokens, those of Kimi Code no reasoning either, nor whether a tool of an MCP server failed, nor "
        "what its program adds to a result for the model. Wire mode does not tell what the model saw of a result",
        unproven="background tasks of Kimi CLI, notifications, questions, hooks, replays, goals",
        shows_prompts=False,
    ),
    Dialect(
        "kimi-wire",
        "parser:KimiStoredWire",
        _is_kimi_wire,
        reads="Kimi CLI's session files",
        tapped_with="`tooltap serve --follow kimi`",
        arrives="streams text",
        omits="cost; the session's id and folder, the first of which the file's path has, and what the model saw of a "
        "result",
        unproven="calls, permissions, subagents: a session was written as Kimi CLI's source describes them",
    ),
    Dialect(
        "kimi-session",
        "parser:KimiSession",
        _is_kimi_session,
        reads="Kimi Code's session files",
        tapped_with="`tooltap serve --follow kimi`",
        arrives="streams blocks",
        omits="permission requests, cost; the session's id and folder, which the file's path has, and what the model "
        "saw of a result beside what the tool returned",
        unproven="background tasks, interrupts, failed requests",
    ),
)

_PROMPT_FLAGS = ("-p", "--prompt")
"""Flags with which Kimi Code prints: it has no `--print`, and a prompt alone suffices."""

AGENTS = (
    Agent(
        "kimi",
        (
            "--print … --output-format stream-json",
            *(f"{flag} … --output-format stream-json" for flag in _PROMPT_FLAGS),
            *(f"--output-format stream-json … {flag}" for flag in _PROMPT_FLAGS),
            "--wire",
            "acp",
        ),
        "-p … --output-format stream-json",
        answerable=("--wire", "acp"),
        package="@moonshot-ai/kimi-code",
        resume=("-r", SESSION),
        store=Store(
            "kimi-session",
            "KIMI_CODE_HOME",
            ".kimi-code",
            "sessions",
            re.compile(r"[^/]+/(?P<session>[^/]+)/agents/[^/]+/wire\.jsonl"),
            beside=re.compile(r".+/(?!wire\.)[^/]+"),
        ),
        older_stores=(
            Store(
                "kimi-wire",
                "KIMI_SHARE_DIR",
                ".kimi",
                "sessions",
                re.compile(r"[^/]+/(?P<session>[^/]+)/wire\.jsonl"),
            ),
        ),
        prompt=Prompt(
            options=("-p", "--prompt", "-c", "--command"),
            words="none",
            flags="--print --quiet --yolo -y --yes --auto-approve --afk --verbose --debug --thinking",
            valued=(
                "--output-format -w --work-dir -S --session -m --model --config --config-file --agent --agent-file"
                " --mcp-config --mcp-config-file --max-steps-per-turn --add-dir"
            ),
            never="--input-format",
            stdin=True,
        ),
    ),
)
