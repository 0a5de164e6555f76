"""Dialect name -> parser class, imported when first used.

Built-in dialects are a plain table; a third-party package adds its own with an entry point of the group
`tooltap.dialects` (name = dialect, value = `module:ParserClass`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from tooltap.normalizers.base import Parser

__all__ = ["BUILTIN", "UnknownDialectError", "dialects", "parser_class"]

BUILTIN = {
    "acp": "tooltap.normalizers.acp:Acp",
    "claude-stream": "tooltap.normalizers.claude_stream:ClaudeStream",
    "cline-json": "tooltap.normalizers.cline_json:ClineJson",
    "codex-mcp": "tooltap.normalizers.codex_mcp:CodexMcp",
    "copilot-json": "tooltap.normalizers.copilot_json:CopilotJson",
    "gemini-chat": "tooltap.normalizers.gemini_chat:GeminiChat",
    "gemini-stream": "tooltap.normalizers.gemini_stream:GeminiStream",
    "happier-trace": "tooltap.normalizers.happier_trace:HappierTrace",
    "kimi-json": "tooltap.normalizers.kimi_json:KimiJson",
    "pi-json": "tooltap.normalizers.pi_json:PiJson",
    "vibe-json": "tooltap.normalizers.vibe_json:VibeJson",
}
ENTRY_POINTS = "tooltap.dialects"


class UnknownDialectError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is no dialect {name!r}; known are auto, {', '.join(dialects())}")


def dialects() -> list[str]:
    """Names of all dialects, built in and installed."""
    return sorted({*BUILTIN, *(point.name for point in entry_points(group=ENTRY_POINTS))})


@cache
def parser_class(name: str) -> type[Parser]:
    """Raises `UnknownDialectError`."""
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].partition(":")
        found: type[Parser] = getattr(import_module(module), attribute)
        return found
    for point in entry_points(group=ENTRY_POINTS, name=name):
        loaded: type[Parser] = point.load()
        return loaded
    raise UnknownDialectError(name)
