"""Dialect name -> parser class, imported when first used.

Built-in dialects are a plain table; a third-party package adds its own with an entry point of the group
`tooltap.dialects` (name = dialect, value = `module:ParserClass`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tooltap.normalizers.base import Parser

__all__ = ["BUILTIN", "UnknownDialectError", "dialects", "parser_class"]

BUILTIN = {
    "acp": "tooltap.normalizers.acp:Acp",
    "claude-stream": "tooltap.normalizers.claude_stream:ClaudeStream",
    "claude-transcript": "tooltap.normalizers.claude_transcript:ClaudeTranscript",
    "cline-json": "tooltap.normalizers.cline_json:ClineJson",
    "codex-app-server": "tooltap.normalizers.codex_app_server:CodexAppServer",
    "codex-exec": "tooltap.normalizers.codex_exec:CodexExec",
    "codex-mcp": "tooltap.normalizers.codex_mcp:CodexMcp",
    "codex-rollout": "tooltap.normalizers.codex_rollout:CodexRollout",
    "copilot-json": "tooltap.normalizers.copilot_json:CopilotJson",
    "cursor-stream": "tooltap.normalizers.cursor_stream:CursorStream",
    "display-tools": "tooltap.normalizers.display_tools:DisplayTools",
    "gemini-chat": "tooltap.normalizers.gemini_chat:GeminiChat",
    "gemini-stream": "tooltap.normalizers.gemini_stream:GeminiStream",
    "happier-trace": "tooltap.normalizers.happier_trace:HappierTrace",
    "kimi-json": "tooltap.normalizers.kimi_json:KimiJson",
    "legacy": "tooltap.normalizers.legacy:Legacy",
    "openai-chat": "tooltap.normalizers.openai_chat:OpenaiChat",
    "openai-responses": "tooltap.normalizers.openai_responses:OpenAIResponses",
    "opencode-bus": "tooltap.normalizers.opencode_bus:OpencodeBus",
    "opencode-run": "tooltap.normalizers.opencode_run:OpencodeRun",
    "pi-json": "tooltap.normalizers.pi_json:PiJson",
    "qwen-stream": "tooltap.normalizers.qwen_stream:QwenStream",
    "tooltap-trace": "tooltap.normalizers.tooltap_trace:TooltapTrace",
    "vibe-json": "tooltap.normalizers.vibe_json:VibeJson",
}
ENTRY_POINTS = "tooltap.dialects"


class UnknownDialectError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no dialect {name!r}; known are auto, {', '.join(dialects())}")


def dialects() -> list[str]:
    """Names of all dialects, built in and installed."""
    return sorted({*BUILTIN, *_plugins()})


@cache
def _plugins() -> dict[str, Any]:
    """Name -> entry point of the dialects that other packages bring."""
    from importlib.metadata import entry_points  # most streams need no plugin, and no time to look for one

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


@cache
def parser_class(name: str) -> type[Parser]:
    """Raises `UnknownDialectError`."""
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].partition(":")
        found: type[Parser] = getattr(import_module(module), attribute)
        return found
    if name in _plugins():
        loaded: type[Parser] = _plugins()[name].load()
        return loaded
    raise UnknownDialectError(name)
