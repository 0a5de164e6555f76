"""OpenTelemetry: the log records that agents send over OTLP, and that the daemon takes at `/v1/logs`."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect


def _is_log_record(value: dict[str, Any]) -> bool:
    return value.get("otlp") in ("log", "span") and isinstance(value.get("attributes"), dict)


LISTED_AS = "OpenTelemetry logs"

DIALECTS = (
    Dialect(
        "otlp",
        "parser:Otlp",
        _is_log_record,
        reads="the log records that Claude Code, Codex, Gemini CLI and Qwen Code send over OTLP, and outputs of"
        " tools in spans of Claude Code and Qwen Code",
        tapped_with="OTLP/HTTP: `POST /v1/logs` and `/v1/traces` of the daemon",
        arrives="late",
        omits="reasoning, permission requests; prompts and texts of the model, unless the agent is set to send them;"
        " outputs of tools, except of Codex, and of Claude Code and Qwen Code if they are set to send spans with them;"
        " how a turn ended, what the model saw",
        unproven="calls that a person has denied, errors of Codex and Gemini CLI",
    ),
)
