"""Endless streams of each dialect, in which everything that could be remembered is new on every line.

What a parser stores must stay bounded. A dialect without a stream of its own repeats its recordings with new ids.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from tests.normalizers.endless import (
    acp,
    claude,
    cline,
    codex,
    continuedev,
    copilot,
    cursor,
    droid,
    gemini,
    happier,
    kimi,
    openai,
    opencode,
    pi,
    qwen,
    tooltap,
    vibe,
)
from tooltap.testing import Line

FIXTURES = Path(__file__).parents[2] / "fixtures"
ID_KEYS = re.compile(r"(?i:id|session|uuid)$|_id$|Id$")


STREAMS: dict[str, Callable[[], Iterator[Any]]] = {
    "acp": acp.lines,
    "claude-stream": claude.claude_stream,
    "claude-transcript": claude.claude_transcript,
    "cline-json": cline.lines,
    "cline-session": cline.documents,
    "codex-app-server": codex.codex_app_server,
    "codex-exec": codex.codex_exec,
    "codex-mcp": codex.codex_mcp,
    "codex-rollout": codex.codex_rollout,
    "continue-session": continuedev.documents,
    "copilot-json": copilot.lines,
    "cursor-stream": cursor.lines,
    "display-tools": tooltap.display_tools,
    "droid-session": droid.lines,
    "gemini-chat": gemini.gemini_chat,
    "gemini-stream": gemini.gemini_stream,
    "happier-trace": happier.happier_trace,
    "hooks": tooltap.hooks,
    "kimi-json": kimi.lines,
    "kimi-session": kimi.session_lines,
    "legacy": happier.legacy,
    "openai-chat": openai.openai_chat,
    "openai-responses": openai.openai_responses,
    "opencode-bus": opencode.opencode_bus,
    "opencode-db": opencode.opencode_db,
    "opencode-run": opencode.opencode_run,
    "pi-json": pi.lines,
    "pi-session": pi.session_lines,
    "qwen-chat": qwen.chat_lines,
    "qwen-stream": qwen.lines,
    "vibe-json": vibe.lines,
    "vibe-session": vibe.documents,
}


def traced() -> Iterator[Any]:
    return tooltap.tooltap_trace({name: stream() for name, stream in STREAMS.items() if name != "tooltap-trace"})


STREAMS["tooltap-trace"] = traced


def lines(dialect: str, number: int) -> Iterator[Line]:
    endless = STREAMS[dialect]() if dialect in STREAMS else repeated(dialect)
    for value in itertools.islice(endless, number):
        yield Line(value if isinstance(value, bytes) else orjson.dumps(value))


def repeated(dialect: str) -> Iterator[Any]:
    """Repeat the dialect's recordings without end, each time with new ids. Lines that are not JSON stay as they are."""
    files = sorted((FIXTURES / dialect).glob("*/*.jsonl"))
    lines = [line for file in files for line in file.read_bytes().splitlines() if line]
    values = [orjson.loads(line) if line.startswith((b"{", b"[")) else line for line in lines]
    for n in itertools.count():
        yield from (with_new_ids(value, f"-{n}") for value in values)


def with_new_ids(value: Any, suffix: str) -> Any:
    if isinstance(value, list):
        return [with_new_ids(item, suffix) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item + suffix if isinstance(item, str) and ID_KEYS.search(key) else with_new_ids(item, suffix)
        for key, item in value.items()
    }
