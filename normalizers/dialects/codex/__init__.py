"""Codex: `codex exec`, its two servers (app-server and MCP), and the session files that it stores."""

from __future__ import annotations

import re

from tooltap.normalizers.catalog.dialect import (
    SESSION,
    Agent,
    ControlSocket,
    Dialect,
    HookEvent,
    Hooks,
    Prompt,
    Store,
)
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.wire.values import record, string

_APP_SERVER_METHODS = ("account/", "item/", "mcpServer/", "remoteControl/", "serverRequest/", "thread/", "turn/")
_ROLLOUT_LINES = (
    "compacted",
    "event_msg",
    "inter_agent_communication_metadata",
    "response_item",
    "retained_context",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
)


def _is_exec(value: Line) -> bool:
    match value.get("type"):
        case "item.started" | "item.updated" | "item.completed":
            item = record(value.get("item"))
            return "id" in item and ("type" in item or "item_type" in item)
        case "thread.started":
            return "thread_id" in value
        case "turn.started":
            return set(value) <= {"type", "turn_id"}
        case "turn.completed" | "turn.failed":
            return "usage" in value or isinstance(value.get("error"), dict)
    return set(value) == {"id", "msg"} and isinstance(record(value["msg"]).get("type"), str)  # to 0.41


def _is_mcp(value: Line) -> bool:
    method, params = value.get("method"), record(value.get("params"))
    match method:
        case "elicitation/create":
            return "codex_elicitation" in params
        case "tools/call":
            return params.get("name") in ("codex", "codex-reply")
        case str():
            return method == "codex/event" or method.startswith("codex/event/")
    return record(record(value.get("result")).get("serverInfo")).get("name") == "codex-mcp-server"


def _is_app_server(value: Line) -> bool:
    method, params, result = value.get("method"), value.get("params"), value.get("result")
    if isinstance(method, str):
        if method.startswith(_APP_SERVER_METHODS) or method == "configWarning":
            return True
        if method == "initialize" and isinstance(params, dict):
            # MCP states its version, ACP the client's capabilities under another name.
            return "clientInfo" in params and not {"protocolVersion", "clientCapabilities"} & set(params)
        return method == "error" and "willRetry" in record(params)
    if not isinstance(result, dict) or "id" not in value:
        return False
    return {"userAgent", "codexHome"} <= set(result) or "id" in record(result.get("thread", result.get("turn")))


def _is_rollout(value: Line) -> bool:
    if string(value.get("type")) in _ROLLOUT_LINES:
        return isinstance(value.get("payload"), dict)
    return {"id", "timestamp", "instructions"} <= set(value) and "type" not in value  # to 0.31


PRODUCT = "Codex"

DIALECTS = (
    Dialect(
        "codex-exec",
        "exec:CodexExec",
        _is_exec,
        reads="`codex exec --json`",
        tapped_with="`tooltap run -- codex exec --json …`",
        arrives="streams blocks",
        omits="prompts, permission requests, cost; what the model saw of a result, a refused approval leaves no trace, "
        "an interrupted run has no end, a changed file has only its path and the kind of change",
        hides_subagents=True,
        shows_prompts=False,
        unproven="versions before 0.120",
    ),
    Dialect(
        "codex-mcp",
        "mcp:CodexMcp",
        _is_mcp,
        reads="`codex mcp-server` of versions before 0.169: `codex/event` notifications and approvals",
        tapped_with="`tooltap proxy -- codex mcp-server` (before Codex 0.169)",
        arrives="streams text",
        omits="cost; what the model saw of a tool that runs at the API",
        unproven="`codex/event/<type>` methods with `conversationId`, collaboration, review mode, questions by request",
    ),
    Dialect(
        "codex-app-server",
        "app_server:CodexAppServer",
        _is_app_server,
        reads="`codex app-server`: JSON-RPC, both directions",
        tapped_with="`tooltap proxy -- codex app-server`, `tooltap attach codex`",
        arrives="streams text",
        omits="cost; what the model saw of a result",
        unproven="questions, permission profiles, the older approvals, MCP progress",
    ),
    Dialect(
        "codex-rollout",
        "rollout:CodexRollout",
        _is_rollout,
        reads="the session files that Codex stores under `~/.codex/sessions`, also compressed or archived ones",
        tapped_with="`tooltap serve --follow codex`",
        arrives="streams blocks",
        omits="permission requests, cost; what the model saw of a tool that runs at the API, or that its script calls",
        unproven="versions before 0.120 but 0.58; copies of other threads of versions before 0.131",
    ),
)

_PROMPT = Prompt(
    after=("exec", "e"),
    skipped={"resume": 1, "fork": 1},
    not_skipped="--last",
    flags=(
        "--json --experimental-json --oss --full-auto --dangerously-bypass-approvals-and-sandbox --yolo"
        " --search --skip-git-repo-check --ephemeral --include-plan-tool --no-alt-screen --ignore-user-config"
        " --ignore-rules --last --all --strict-config --approve-for-me"
        " --dangerously-bypass-hook-trust --worktree --trust"
    ),
    valued=(
        "-c --config --enable --disable -m --model -p --profile -s --sandbox -a --ask-for-approval -C --cd"
        " --add-dir --output-schema -o --output-last-message --color --local-provider --remote --remote-auth-token-env"
        " --thread-source --cyber-access-program"
    ),
    several="--image -i",
    never="review",
    stdin=True,
)

CONTEXT = (
    "<user_instructions>",
    "<environment_context>",
    "<turn_aborted>",
    "<skill>",
    "# AGENTS.md instructions for ",
)
"""As in `Agent.context`; the first two to 0.31."""

AGENTS = (
    Agent(
        "codex",
        ("exec … --json", "e … --json", "mcp-server", "app-server"),
        "exec --json",
        answerable=("app-server",),
        resume=("resume", SESSION),
        fork=("fork", SESSION),
        package="@openai/codex",
        context=CONTEXT,
        store=Store(
            "codex-rollout",
            "CODEX_HOME",
            ".codex",
            "sessions",
            re.compile(r"(?:.+/)?rollout-[^/]+\.jsonl(?:\.zst)?"),
            moved=("archived_sessions",),
        ),
        prompt=_PROMPT,
        hooks=Hooks(
            "hooks.json",
            "PermissionRequest",
            tuple(map(HookEvent, ("PostToolUse", "UserPromptSubmit", "Stop", "SessionEnd"))),
            toml="config.toml",
            off=((("features", "hooks"), False), (("features", "codex_hooks"), False)),
            remark="Codex runs them once you have trusted them: it asks when it starts, and /hooks shows them",
        ),
        control=ControlSocket("codex-app-server", "app-server-control/app-server-control.sock"),
        worktrees=".codex/worktrees/*/+",
    ),
)
