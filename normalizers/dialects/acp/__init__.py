"""Agent Client Protocol (ACP): agents that speak it, and its dialect."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect


def _is_acp(value: dict[str, Any]) -> bool:
    method, params, result = value.get("method"), value.get("params"), value.get("result")
    if isinstance(method, str):
        if method.startswith(("session/", "fs/", "terminal/")):
            return True
        return method == "initialize" and isinstance(params, dict) and "clientCapabilities" in params
    if not isinstance(result, dict) or "id" not in value:
        return False
    return "agentCapabilities" in result or "stopReason" in result or ("sessionId" in result and "modes" in result)


LISTED_AS = "any agent that speaks ACP"

DIALECTS = (
    Dialect(
        "acp",
        "parser:Acp",
        _is_acp,
        reads="JSON-RPC of ACP agents: Copilot, Droid, Gemini CLI, Kilo Code, Kimi Code, OpenCode, Qwen Code, Vibe,"
        " `claude-agent-acp`, `codex-acp` and others",
        tapped_with="`tooltap proxy -- AGENT`",
        arrives="streams text",
        omits="–; what the model saw, as ACP speaks to the client; Gemini CLI reports no output of shell, read and"
        " search tools, Copilot no picture that it reads",
        unproven="v2 and unstable updates, elicitations, terminals run by the client; other agents than the recorded",
    ),
    Dialect(
        "acp-stored",
        "stored:AcpStored",
        lambda line: line.get("acp") in ("session", "update"),
        reads="what an ACP agent repeats of its stored sessions",
        tapped_with="`tooltap ingest --acp -- AGENT`",
        arrives="streams text",
        omits="permission requests, tokens, cost; times, the model, how a turn ended, what the model saw",
        unproven="everything: the shape is that of `acp`; OpenCode 1.18 was read with it",
    ),
)
