"""OpenCode: `opencode run`, and the event stream of its server; and its fork, Kilo Code."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, EventServer, Prompt, Store

_BUS_SUBJECTS = ("file", "message", "permission", "plugin", "question", "server", "session", "todo")
_BUS_PATHS = ("/session", "/permission/", "/question/")
_RUN_PARTS = {
    "reasoning": "reasoning",
    "step_finish": "step-finish",
    "step_start": "step-start",
    "text": "text",
    "tool_use": "tool",
}
"""Type of a line -> type of the part in it."""


def _is_bus(value: dict[str, Any]) -> bool:
    """Rule for `opencode-bus`: an event, which may be wrapped, or a request of the client."""
    payload = value.get("payload")
    if isinstance(payload, dict) and "type" not in value:
        return _is_bus(payload)
    kind = value.get("type")
    if kind == "sync":
        return isinstance(value.get("syncEvent"), dict)
    if isinstance(kind, str):
        known = kind.partition(".")[0] in _BUS_SUBJECTS and "." in kind
        return known and isinstance(value.get("properties"), dict) and value.keys() <= {"id", "type", "properties"}
    return any(
        isinstance(path, str) and path.startswith(_BUS_PATHS) and value.keys() <= {method, "body"}
        for method, path in value.items()
        if method in ("GET", "POST")
    )


def _is_run(value: dict[str, Any]) -> bool:
    if not isinstance(value.get("sessionID"), str) or not isinstance(value.get("timestamp"), int):
        return False
    kind, part = str(value.get("type")), value.get("part")
    if isinstance(part, dict):
        return kind in _RUN_PARTS and part.get("type") == _RUN_PARTS[kind]
    return kind == "error" and isinstance(value.get("error"), dict)


def _is_db(value: dict[str, Any]) -> bool:
    return isinstance(value.get("data"), dict) and value.keys() >= {"aggregate_id", "id", "seq", "type"}


PRODUCT = "OpenCode"

DIALECTS = (
    Dialect(
        "opencode-run",
        "parser:OpencodeRun",
        _is_run,
        reads="`opencode run --format json`, `kilo run --format json`",
        tapped_with="`tooltap run -- opencode run --format json …`",
        arrives="streams blocks",
        omits="prompts, permission requests; calls arrive with their results, the server of an MCP tool is not named, "
        "and after a denial or an interrupt the stream just ends",
        shows_prompts=False,
    ),
    Dialect(
        "opencode-bus",
        "parser:OpencodeBus",
        _is_bus,
        reads="OpenCode's `/event` stream",
        tapped_with="`tooltap attach opencode URL`",
        arrives="streams text",
        omits="–; the server of an MCP tool, unless the client asks for the servers",
        unproven="subagents, retries, `permission.updated`, `sync` envelopes, aborts",
    ),
    Dialect(
        "opencode-db",
        "parser:OpencodeDb",
        _is_db,
        reads="OpenCode's database, and Kilo Code's",
        tapped_with="`tooltap serve --follow opencode`, `--follow kilo`",
        arrives="streams blocks",
        omits="permission requests; the server of an MCP tool, and sessions of versions that store no events",
        unproven="retries, aborts; the tables of OpenCode 2, beyond what its schema says",
    ),
)

_PROMPT = Prompt(
    words="all",
    after=("run",),
    flags="-c --continue --share --fork --thinking --print-logs --dangerously-skip-permissions --auto --pure",
    valued=(
        "--format -s --session -m --model --agent --title --attach --port --variant --dir -p --password -u"
        " --username --log-level"
    ),
    several="--file -f",
    never="--command",
    stdin=True,
)

_TABLES = re.compile(
    r"event|event_sequence|session|message|part|session_share|session_v2|session_message"
    r"|(?!.*(?:event|session|message)).+"
)

AGENTS = (
    Agent(
        "opencode",
        ("run … --format json", "acp"),
        "run --format json",
        answerable=("acp",),
        package="opencode-ai",
        resume=("--session", SESSION),
        fork=("--session", SESSION, "--fork"),
        store=Store(
            "opencode-db",
            "XDG_DATA_HOME",
            ".local/share",
            "opencode",
            re.compile(r"opencode(-[\w.-]+)?\.db/(?:session_v2/)?(?P<session>[\w-]+)"),
            reader="store:OpencodeStore",
            database=re.compile(r"opencode(-[\w.-]+)?\.db"),  # each channel has one: `opencode-nightly.db`
            beside=re.compile(
                r"(?!storage/)[^/]+/|storage/(?!session/|message/)[^/]+/|(?!opencode)[^/]+|opencode(-[\w.-]+)?\.db"
            ),
            tables=_TABLES,
        ),
        prompt=_PROMPT,
        server=EventServer(
            "opencode-bus",
            "/event",
            "http://127.0.0.1:4096",
            ("OPENCODE_SERVER_USERNAME", "opencode"),
            "OPENCODE_SERVER_PASSWORD",
            re.compile(
                r"/permission/[\w-]+/reply|/question/[\w-]+/(reply|reject)"
                r"|/session/[\w-]+/(prompt_async|abort|permissions/[\w-]+)"
                r"|/api/session/[\w-]+/permission/[\w-]+/reply"
            ),
            "/global/event",
        ),
    ),
    Agent(
        "kilo",
        ("run … --format json", "acp"),
        "run --format json",
        product="Kilo Code",
        fork_of="opencode",
        answerable=("acp",),
        package="@kilocode/cli",
        store=Store(
            "opencode-db",
            "XDG_DATA_HOME",
            ".local/share",
            "kilo",
            re.compile(r"kilo\.db/(?:session_v2/)?(?P<session>[\w-]+)"),
            reader="store:OpencodeStore",
            database=re.compile(r"kilo\.db"),
            beside=re.compile(r"[^/]+/|kilo\.db"),
            tables=_TABLES,
        ),
        prompt=_PROMPT,
    ),
)
