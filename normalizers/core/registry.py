"""Dialect name -> parser class, imported when first used.

Built-in dialects are a plain table; a third-party package adds its own with an entry point of the group
`tooltap.dialects` (name = dialect, value = `module:ParserClass`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tooltap.normalizers.core.parser import Parser

__all__ = ["BUILTIN", "UnknownDialectError", "dialects", "parser_class"]

BUILTIN = {
    "acp": "tooltap.normalizers.dialects.acp.parser:Acp",
    "claude-stream": "tooltap.normalizers.dialects.claude.stream:ClaudeStream",
    "claude-transcript": "tooltap.normalizers.dialects.claude.transcript:ClaudeTranscript",
    "cline-json": "tooltap.normalizers.dialects.cline.parser:ClineJson",
    "codex-app-server": "tooltap.normalizers.dialects.codex.app_server:CodexAppServer",
    "codex-exec": "tooltap.normalizers.dialects.codex.exec:CodexExec",
    "codex-mcp": "tooltap.normalizers.dialects.codex.mcp:CodexMcp",
    "codex-rollout": "tooltap.normalizers.dialects.codex.rollout:CodexRollout",
    "copilot-json": "tooltap.normalizers.dialects.copilot.parser:CopilotJson",
    "cursor-stream": "tooltap.normalizers.dialects.cursor.stream:CursorStream",
    "display-tools": "tooltap.normalizers.dialects.tooltap.display_tools:DisplayTools",
    "gemini-chat": "tooltap.normalizers.dialects.gemini.chat:GeminiChat",
    "gemini-stream": "tooltap.normalizers.dialects.gemini.stream:GeminiStream",
    "happier-trace": "tooltap.normalizers.dialects.happier.trace:HappierTrace",
    "kimi-json": "tooltap.normalizers.dialects.kimi.parser:KimiJson",
    "legacy": "tooltap.normalizers.dialects.happier.legacy:Legacy",
    "openai-chat": "tooltap.normalizers.dialects.openai.chat:OpenaiChat",
    "openai-responses": "tooltap.normalizers.dialects.openai.responses:OpenAIResponses",
    "opencode-bus": "tooltap.normalizers.dialects.opencode.bus:OpencodeBus",
    "opencode-run": "tooltap.normalizers.dialects.opencode.run:OpencodeRun",
    "pi-json": "tooltap.normalizers.dialects.pi.parser:PiJson",
    "qwen-stream": "tooltap.normalizers.dialects.qwen.stream:QwenStream",
    "tooltap-trace": "tooltap.normalizers.dialects.tooltap.trace:TooltapTrace",
    "vibe-json": "tooltap.normalizers.dialects.vibe.parser:VibeJson",
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
