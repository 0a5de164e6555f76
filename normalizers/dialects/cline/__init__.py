"""Cline: its CLI, and the tasks that its extension of VS Code and that of its fork Roo Code store."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Prompt, Store


def _is_cline_json(value: dict[str, Any]) -> bool:
    key = _CLINE_JSON_KEYS.get(str(value.get("type")))
    return key is not None and key in value and isinstance(value.get("ts"), str)


_CLINE_JSON_KEYS = {"agent_event": "event", "hook_event": "hookEventName", "run_result": "finishReason"}


def _is_cline_session(value: dict[str, Any]) -> bool:
    return value.keys() >= {"agent", "messages", "sessionId", "updated_at"}


def _is_task(value: dict[str, Any]) -> bool:
    """Rule for `cline-tasks`, whose documents are lists of such messages."""
    kind = value.get("type")
    return kind in ("ask", "say") and isinstance(value.get(kind), str) and type(value.get("ts")) is int


PRODUCT = "Cline"

DIALECTS = (
    Dialect(
        "cline-json",
        "parser:ClineJson",
        _is_cline_json,
        reads="Cline CLI's JSON output",
        tapped_with="`tooltap run -- cline --json …`",
        arrives="streams text",
        omits="prompts, permission requests; what the model saw of files and commands, the server of an MCP tool, and "
        "[the subagent of a text](dialects.md#subagents-of-cline) where several run at once",
        shows_prompts=False,
        unproven="notices, errors, subagents",
    ),
    Dialect(
        "cline-session",
        "parser:ClineSession",
        _is_cline_session,
        reads="Cline's session documents",
        tapped_with="`tooltap serve --follow cline`",
        arrives="streams blocks",
        omits="permission requests, cost; failed requests, what the model saw of most results, and the end of a turn "
        "that was interrupted",
        unproven="shortened histories, pictures",
        takes_from=("openai-chat",),
    ),
    Dialect(
        "cline-tasks",
        "tasks:ClineTasks",
        _is_task,
        reads="tasks of Cline's and Roo Code's extensions (`ui_messages.json`)",
        tapped_with="`tooltap serve --follow roo`",
        arrives="streams blocks",
        omits="permission requests; the model, the folder, what the model saw, whether a tool failed, and results of "
        "edits",
        unproven="everything: shapes from Roo Code's schema of messages and from public readers of these files",
    ),
)


def _tasks(home: str, extension: str) -> Store:
    return Store(
        "cline-tasks",
        variable="",
        home=f"{home}/Code/User/globalStorage/{extension}",
        below="tasks",
        files=re.compile(r"(?P<session>[^/]+)/ui_messages\.json"),
        beside=re.compile(r"[^/]+/(?!ui_messages\.json).+|[^/]+\.json"),
    )


_LINUX, _MAC = ".config", "Library/Application Support"
_CLINE, _ROO = "saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline"

AGENTS = (
    Agent(
        "cline",
        ("--json", "--acp"),
        "--json",
        answerable=("--acp",),
        store=Store(
            "cline-session",
            "CLINE_DIR",
            ".cline",
            "data/sessions",
            re.compile(r"(?P<session>[^/]+)/[^/]+\.messages\.json"),
            beside=re.compile(r"[^/]+/(?![^/]+\.messages\.)[^/]+|[^/]+/.+/"),
        ),
        older_stores=(_tasks(_LINUX, _CLINE), _tasks(_MAC, _CLINE)),
        prompt=Prompt(
            flags="--json -y --yolo -p --plan -a --act -v --verbose --double-check-completion",
            valued=(
                "--auto-approve -m --model -P --provider -k --key --config -c --cwd -t --timeout --thinking --retries"
                " --id --data-dir --hooks-dir --max-consecutive-mistakes"
            ),
            never="auth config history mcp hub schedule update version kanban",
            stdin=True,
        ),
    ),
    Agent(
        "roo",
        (),
        None,
        product="Roo Code",
        fork_of="cline",
        store=_tasks(_LINUX, _ROO),
        older_stores=(_tasks(_MAC, _ROO),),
    ),
)
